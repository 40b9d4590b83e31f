"""Waits until a cache shows our own writes: no decision uses a cache that is older than our own last write.

A write whose outcome is unknown never counts as seen: the object is read from the server first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import NotFound, StaleView
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.identity import of_dict
from spinney.drive.client.paths import Ref


async def catch_up(client: ApiClient, caches: Iterable[Cache[Any]], timeout_s: float = 10.0) -> None:
    """Wait until every cache is synced and shows the own writes made so far. Raises `StaleView` on timeout."""
    caches = tuple(caches)
    try:
        async with asyncio.timeout(timeout_s):
            for cache in caches:
                if any(each.unsure for each in cache.expectations.pending.values()):
                    await _resolve(client, cache)
                # Writes that became unsure meanwhile are settled by whoever made them: nobody else resolves them here.
                await cache.wait_shown(
                    {key: each for key, each in cache.expectations.pending.items() if not each.unsure}
                )
    except TimeoutError:
        raise StaleView(_complaint(caches, timeout_s)) from None


async def _resolve(client: ApiClient, cache: Cache[Any]) -> None:
    for (namespace, name), pending in sorted(cache.unseen().items()):
        if not pending.unsure:
            continue
        key = (namespace, name)
        try:
            found = await client.get(Ref(cache.resource, name, namespace))
        except NotFound:
            cache.expectations.removed(key, cache.uid_of(key))
        else:
            cache.expectations.wrote(key, of_dict(found)[3])


def _complaint(caches: Iterable[Cache[Any]], timeout_s: float) -> str:
    parts = []
    for cache in caches:
        if not cache.synced:
            parts.append(f"{cache.resource}: not synced")
        for namespace, name in sorted(cache.unseen())[:3]:
            parts.append(f"{cache.resource} {namespace}/{name}: own write not seen")
    return f"after {timeout_s} s: {'; '.join(parts) or 'caught up too late'}"
