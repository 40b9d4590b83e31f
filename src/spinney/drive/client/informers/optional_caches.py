"""Caches of kinds that the server may not serve, not yet, or no longer. Their definitions tell when they come and go.

Never waits for a kind: while it is not served its cache is empty and counts as synced. A kind that stays away costs no
requests, unless definitions may not be watched.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

import structlog

from kube_apimachinery.clock import Dice
from spinney.api.meta import Slim
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import codec_for
from spinney.drive.client.errors import ClientError, Forbidden
from spinney.drive.client.informers.cache import Cache, Change, OwnWrites, of_struct
from spinney.drive.client.informers.shared_caches import PAUSE_S, SharedCaches, is_served
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.informers.watch import Watcher
from spinney.drive.client.paths import ResourcePath

DEFINITIONS = ResourcePath("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
PROBE_INTERVAL_S = 30.0
"""How often a kind is asked for that is not served, where definitions may not be watched."""
_SELDOM_S = 300.0
"""The same where they are watched: kinds that have none (built-in ones, those of other servers) are found so."""
_SOON = Backoff(base_s=0.1, cap_s=PROBE_INTERVAL_S)
"""A kind is defined, and served a moment after it."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class _Meta(Slim, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Definition(Slim, frozen=True):
    metadata: _Meta


class Definitions:
    """The names of all CustomResourceDefinitions, as a watch tells them. `are_watched` is false where it may not."""

    def __init__(self, client: ApiClient, dice: Dice) -> None:
        self.are_watched = True
        self._client = client
        self._cache: Cache[_Definition] = Cache(DEFINITIONS, identity=of_struct)
        self._selection = Selection(DEFINITIONS, metadata_only=True)
        self._watcher = Watcher(client, self._selection, codec_for(_Definition), self._cache, dice)
        self._changes: dict[str, asyncio.Event] = {}
        self._cache.subscribe(self._note)

    async def run(self) -> None:
        """Until cancelled, or until it is known that definitions may not be looked at."""
        headers = self._selection.headers("PartialObjectMetadataList")
        try:
            await self._client.read(self._selection.path, {"limit": "1"}, headers)
        except Forbidden as error:
            self.are_watched = False
            _log.warning(
                "definitions may not be watched: kinds are looked for", every_s=PROBE_INTERVAL_S, error=str(error)
            )
            return
        except ClientError as error:
            _log.debug("definitions cannot be read yet", error=str(error))
        await self._watcher.run()

    def uid_of(self, resource: ResourcePath) -> str:
        """Of the definition of a kind; empty if there is none."""
        return self._cache.uid_of(("", str(resource)))

    async def has_changed(self, resource: ResourcePath, timeout_s: float | None = None) -> bool:
        """Wait until the definition of a kind is made, changed or deleted; false if it was not in this time."""
        change = self._changes.setdefault(str(resource), asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                return await change.wait()
        except TimeoutError:
            return False

    def _note(self, change: Change[_Definition]) -> None:
        waited_for = self._changes.pop(change.key[1], None)
        if waited_for is not None:
            waited_for.set()


class OptionalCache(Generic[T]):
    """One kind. `cache` exists from the start; `is_here` is true while the server serves the kind."""

    def __init__(
        self, client: ApiClient, resource: ResourcePath, caches: SharedCaches, kind: type[T], dice: Dice
    ) -> None:
        self.is_here = False
        self._client = client
        self._resource = resource
        self._caches = caches
        self._dice = dice
        self.cache: Cache[T] = caches.cache(Selection(resource), kind)

    @property
    def troubles(self) -> list[str]:
        return self._caches.troubles if self.is_here else []

    async def refresh(self) -> None:
        """Find out whether the server serves the kind now."""
        found = await is_served(self._client, self._resource)
        while found is None:
            await asyncio.sleep(PAUSE_S)
            found = await is_served(self._client, self._resource)
        self.is_here = found
        if not found and not self.cache.synced:
            await self._empty()

    async def run(self, definitions: Definitions) -> None:
        """Until cancelled."""
        while True:
            await self._wait_until_here(definitions)
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._caches.run(), name=f"{self._resource}-watch")
                await self._wait_until_gone(definitions)
                watching.cancel()
            self.is_here = False
            await self._empty()

    async def _wait_until_here(self, definitions: Definitions) -> None:
        attempt = 0
        while not self.is_here:
            pause_s = _SELDOM_S if definitions.are_watched else PROBE_INTERVAL_S
            if definitions.uid_of(self._resource):
                pause_s = _SOON.delay_s(attempt, self._dice)
            attempt = 0 if await definitions.has_changed(self._resource, pause_s) else attempt + 1
            await self.refresh()

    async def _wait_until_gone(self, definitions: Definitions) -> None:
        """A kind that has no definition never goes."""
        first = ""
        while not first or definitions.uid_of(self._resource) == first:
            first = definitions.uid_of(self._resource)
            await definitions.has_changed(self._resource)

    async def _empty(self) -> None:
        self.cache.begin_list("", renew=True)
        await self.cache.end_list("")


class OptionalCaches:
    """All optional caches of a role."""

    def __init__(
        self, client: ApiClient, own_writes: OwnWrites, dice: Dice, unreadable: Unreadable | None = None
    ) -> None:
        self._client = client
        self._unreadable = unreadable
        self._own_writes = own_writes
        self._dice = dice
        self._definitions = Definitions(client, dice)
        self._all: list[OptionalCache[Any]] = []

    def expect(self, resource: ResourcePath, kind: type[T]) -> Cache[T]:
        """The cache of a kind; has to be requested before `refresh` and `run`."""
        caches = SharedCaches(self._client, self._own_writes, self._dice, unreadable=self._unreadable)
        one = OptionalCache(self._client, resource, caches, kind, self._dice)
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
            group.create_task(self._definitions.run())
            for one in self._all:
                group.create_task(one.run(self._definitions))
