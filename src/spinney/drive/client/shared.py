"""The caches of a process: each selection is listed and watched once, however many read it.

Never starts by itself: `run` keeps all of them up to date until it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from spinney.api.clock import Dice
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.cache import Cache, IndexKeys
from spinney.drive.client.codec import codec_for
from spinney.drive.client.garbage import DuringList, undisturbed
from spinney.drive.client.identity import of_dict, of_struct
from spinney.drive.client.own_writes import OwnWrites
from spinney.drive.client.unreadable import Unreadable
from spinney.drive.client.watch import Watcher

T = TypeVar("T")


class SharedCaches:
    """Caches by selection and type. All of them must be asked for before `run`."""

    def __init__(
        self,
        client: ApiClient,
        own_writes: OwnWrites,
        dice: Dice,
        *,
        during_list: DuringList = undisturbed,
        unreadable: Unreadable | None = None,
    ) -> None:
        self.unreadable = unreadable or Unreadable()
        self._client = client
        self._own_writes = own_writes
        self._dice = dice
        self._during_list = during_list
        self._caches: dict[tuple[Selection, type[Any]], Cache[Any]] = {}
        self._watchers: list[Watcher[Any]] = []

    def cache(
        self, selection: Selection, kind: type[T], *, indexes: Mapping[str, IndexKeys[T]] | None = None
    ) -> Cache[T]:
        """The cache of a selection; indexes are joined with those it has."""
        known = self._caches.get((selection, kind))
        if known is None:
            ledger = self._own_writes.ledger(selection.resource, selection.namespace)
            identity = of_dict if kind is dict else of_struct
            known = Cache(selection.resource, ledger=ledger, identity=identity, unreadable=self.unreadable)
            watcher = Watcher(
                self._client, selection, codec_for(kind), known, self._dice, during_list=self._during_list
            )
            self._caches[(selection, kind)] = known
            self._watchers.append(watcher)
        for name, keys_of in sorted((indexes or {}).items()):
            known.add_index(name, keys_of)
        return known

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._caches.values())

    @property
    def troubles(self) -> list[str]:
        """What is wrong with the watches at the moment."""
        return [watcher.trouble for watcher in self._watchers if watcher.trouble]

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers:
                group.create_task(watcher.run())
