"""The caches of a process (shared informers): each selection is listed and watched once, however many readers it has.

Never starts by itself: `run` keeps all of them up to date until it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from kube_apimachinery.clock import Dice
from spinney.api.meta import PartialObject
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import codec_for
from spinney.drive.client.errors import ClientError, Forbidden, NotFound, StaleView
from spinney.drive.client.informers.cache import Cache, IndexKeys, OwnWrites, of_dict, of_struct
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.informers.watch import Watcher
from spinney.drive.client.paths import Ref, ResourcePath

T = TypeVar("T")

_LONGEST_WAIT_S = 2.0
_WAIT_PER_OBJECT_S = 0.0001
"""Approximate time to list one object."""
_BACKOFF = Backoff(base_s=0.05, cap_s=5.0)

_log = structlog.get_logger(__name__)


class SharedCaches:
    """Caches by selection and type. All of them must be requested before `run`."""

    def __init__(
        self,
        client: ApiClient,
        own_writes: OwnWrites,
        dice: Dice,
        *,
        unreadable: Unreadable | None = None,
    ) -> None:
        self.unreadable = unreadable or Unreadable()
        self._client = client
        self._own_writes = own_writes
        self._dice = dice
        self._caches: dict[tuple[Selection, type[Any]], Cache[Any]] = {}
        self._watchers: list[Watcher[Any]] = []
        self._kept: list[tuple[Selection, Cache[Any], Watcher[Any]]] = []

    def cache(
        self, selection: Selection, kind: type[T], *, indexes: Mapping[str, IndexKeys[T]] | None = None
    ) -> Cache[T]:
        """The cache of a selection; the indexes are added to those that it has."""
        known = self._caches.get((selection, kind))
        if known is None:
            expectations = self._own_writes.expectations(selection.resource, selection.namespace)
            identity = of_dict if kind is dict else of_struct
            known = Cache(selection.resource, expectations=expectations, identity=identity, unreadable=self.unreadable)
            watcher = Watcher(self._client, selection, codec_for(kind), known, self._dice)
            self._caches[(selection, kind)] = known
            self._watchers.append(watcher)
            self._kept.append((selection, known, watcher))
        for name, keys_of in sorted((indexes or {}).items()):
            known.add_index(name, keys_of)
        return known

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._caches.values())

    @property
    def troubles(self) -> list[str]:
        """The current problems of the watches."""
        return [watcher.trouble for watcher in self._watchers if watcher.trouble]

    async def confirm(self, caches: Sequence[Cache[Any]]) -> None:
        """Wait until these caches show everything that any client wrote before this call.

        A watch delivers changes soon, but does not say that there were none; then it is cheaper to list few objects
        than to wait, and cheaper to wait a while than to list many.
        """
        async with asyncio.TaskGroup() as group:
            for selection, cache, watcher in self._kept:
                if any(cache is each for each in caches):
                    group.create_task(self._confirm(selection, cache, watcher))

    async def _confirm(self, selection: Selection, cache: Cache[Any], watcher: Watcher[Any]) -> None:
        version = await self._version_of(selection)
        try:
            async with asyncio.timeout(min(_LONGEST_WAIT_S, len(cache) * _WAIT_PER_OBJECT_S)):
                await cache.wait_for(version)
        except TimeoutError:
            watcher.list_again()
            await cache.wait_for(version)

    async def _version_of(self, selection: Selection) -> str:
        """The current version of the store, or a later one."""
        attempt = 0
        while True:
            try:
                body = await self._client.read(selection.path, selection.query() | {"limit": "1"})
                return codec_for(PartialObject).page(body, f"LIST {selection.path}").version
            except ClientError as error:
                _log.warning("it is not known yet how new a view has to be", view=str(selection), error=str(error))
            await asyncio.sleep(_BACKOFF.delay_s(attempt, self._dice))
            attempt += 1

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers:
                group.create_task(watcher.run())


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


PAUSE_S = 1.0


async def is_served(client: ApiClient, resource: ResourcePath) -> bool | None:
    """Whether the server serves a kind and allows us to list it; None if that could not be determined."""
    try:
        await client.read(resource.collection(), {"limit": "1"})
    except (NotFound, Forbidden):
        return False
    except ClientError as error:
        _log.warning("it is not known yet what the server has", resource=str(resource), error=str(error))
        return None
    return True


async def until_served(client: ApiClient, resources: Sequence[ResourcePath]) -> None:
    """Wait until the server serves all of these kinds."""
    for resource in resources:
        while not await is_served(client, resource):  # noqa: ASYNC110 - a server tells nobody what it serves
            await asyncio.sleep(PAUSE_S)
