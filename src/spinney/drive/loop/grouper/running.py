"""The pod-grouper: default queues first, then its controller over shared views, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from spinney.api.clock import Clock, Dice
from spinney.api.labels import DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE
from spinney.api.meta import PartialObject
from spinney.core.grouping.default_queues import missing_queues
from spinney.core.grouping.settings import GrouperSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.cache import Change
from spinney.drive.client.latecomers import Latecomers, until_served
from spinney.drive.client.own_writes import OwnWrites
from spinney.drive.client.shared import SharedCaches
from spinney.drive.client.transport import Transport
from spinney.drive.loop.controller import Controller, Done, Result, Source
from spinney.drive.loop.grouper.complaining import Complaints
from spinney.drive.loop.grouper.grouping import Grouping, controller
from spinney.drive.loop.grouper.views import NEEDED, Views
from spinney.drive.loop.grouper.walking import OwnerWalk
from spinney.drive.loop.operator.effects import Effects, path_of
from spinney.drive.loop.unreadable_events import UnreadableEvents

FIELD_MANAGER = "pod-grouper"
_OURS = (DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE)


class Grouper:
    """`run` it. `ready` is set once its views are synced; `may_write` is asked before each write."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: GrouperSettings | None = None,
        *,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.ready = asyncio.Event()
        own_writes = OwnWrites()
        self._dice = dice
        self._client = ApiClient(transport, dice)
        self.caches = SharedCaches(self._client, own_writes, dice)
        door = Door(transport, dice, field_manager=FIELD_MANAGER, own_writes=own_writes, may_write=may_write)
        self._effects = Effects(door, clock, FIELD_MANAGER)
        told = settings or GrouperSettings()
        self._latecomers = Latecomers(self._client, own_writes, dice, self.caches.unreadable)
        self._complaints = UnreadableEvents(self.caches.unreadable, door, clock, FIELD_MANAGER)
        views = Views(self.caches, self._latecomers, told)
        complaints = Complaints(door, self._effects, clock)
        grouping = Grouping(views, OwnerWalk(self._client, clock), self._effects, complaints, told)
        self._views = views
        self._pods = controller(grouping, self._client, dice)
        self._queues = self._queue_keeper()

    async def run(self) -> None:
        """Until cancelled. Begins when the server has our kinds: they may be applied after us."""
        await until_served(self._client, [path_of(resource) for resource in NEEDED])
        await self._latecomers.look()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="pod-grouper-watches")
            group.create_task(self._latecomers.run(), name="pod-grouper-latecomers")
            group.create_task(self._pods.run(), name="pod-grouper")
            group.create_task(self._complaints.run(), name="pod-grouper-complaints")
            group.create_task(self._queues.run(), name="default-queues")
            self._queues.queue.add(DEFAULT_QUEUE)
            await self._views.wait_synced()
            self.ready.set()

    def _queue_keeper(self) -> Controller[str]:
        """The default queues are made at the start, and again should they go."""
        queues = self._views.queues

        async def reconcile(key: str) -> Result:
            await self._effects.carry_out(missing_queues(lambda name: ("", name) in queues))
            return Done()

        def of_queue(change: Change[PartialObject]) -> Iterable[str]:
            return (DEFAULT_QUEUE,) if change.new is None and change.key[1] in _OURS else ()

        source = Source(queues, of_queue)
        return Controller("default-queues", [source], reconcile, self._client, self._dice, workers=1)
