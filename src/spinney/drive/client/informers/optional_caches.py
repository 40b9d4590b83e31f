"""Caches of kinds that the server may not serve, or not yet: polled for until they are served, then watched.

Until then the caches are empty and count as synced, so that nothing has to wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import structlog

from kube_apimachinery.clock import Dice
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ClientError, Forbidden, NotFound
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.expectations import OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.paths import ResourcePath

PROBE_INTERVAL_S = 10.0
PAUSE_S = 1.0

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class OptionalCache(Generic[T]):
    """One kind. `cache` exists from the start; `is_here` is true once the server serves the kind."""

    def __init__(
        self,
        client: ApiClient,
        own_writes: OwnWrites,
        dice: Dice,
        resource: ResourcePath,
        kind: type[T],
        unreadable: Unreadable | None = None,
    ) -> None:
        self.is_here = False
        self._client = client
        self._resource = resource
        self._caches = SharedCaches(client, own_writes, dice, unreadable=unreadable)
        self.cache: Cache[T] = self._caches.cache(Selection(resource), kind)

    @property
    def troubles(self) -> list[str]:
        return self._caches.troubles

    async def refresh(self) -> None:
        """Find out whether the server serves the kind now."""
        while not self.is_here:
            found = await is_served(self._client, self._resource)
            if found is not None:
                self.is_here = found
                break
            await asyncio.sleep(PAUSE_S)
        if not self.is_here and not self.cache.synced:
            self.cache.begin_list("")
            await self.cache.end_list("")

    async def run(self) -> None:
        """Until cancelled."""
        while not self.is_here:
            await asyncio.sleep(PROBE_INTERVAL_S)
            await self.refresh()
        await self._caches.run()


class OptionalCaches:
    """All optional caches of a role."""

    def __init__(
        self, client: ApiClient, own_writes: OwnWrites, dice: Dice, unreadable: Unreadable | None = None
    ) -> None:
        self._client = client
        self._unreadable = unreadable
        self._own_writes = own_writes
        self._dice = dice
        self._all: list[OptionalCache[Any]] = []

    def expect(self, resource: ResourcePath, kind: type[T]) -> Cache[T]:
        """The cache of a kind; has to be requested before `refresh` and `run`."""
        one = OptionalCache(self._client, self._own_writes, self._dice, resource, kind, self._unreadable)
        self._all.append(one)
        return one.cache

    @property
    def troubles(self) -> list[str]:
        return [trouble for one in self._all for trouble in one.troubles]

    async def refresh(self) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._all:
                group.create_task(one.refresh())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._all:
                group.create_task(one.run())


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
