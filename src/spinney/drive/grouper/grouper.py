"""The pod-grouper: keeps the default queues and runs the pod controller over shared caches, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kube_apimachinery.clock import Clock, Dice
from spinney.api.labels import DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE
from spinney.api.meta import PartialObject
from spinney.core.grouping.queue_and_priority import GrouperSettings, missing_queues
from spinney.drive.apply.change_applier import ChangeApplier, path_of
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import Change, OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches, until_served
from spinney.drive.controller.controller import Controller, Done, Result, Source
from spinney.drive.controller.unreadable_events import UnreadableEvents
from spinney.drive.grouper.caches import NEEDED, GrouperCaches
from spinney.drive.grouper.owner_resolver import OwnerResolver
from spinney.drive.grouper.pod_reconciler import PodReconciler, controller
from spinney.drive.grouper.user_error_reporter import UserErrorReporter

FIELD_MANAGER = "pod-grouper"
_OURS = (DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE)


class Grouper:
    """Start it with `run`. `ready` is set once the caches are synced; `may_write` is called before each write."""

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
        self._change_applier = ChangeApplier(door, clock, FIELD_MANAGER)
        effective = settings or GrouperSettings()
        self._latecomers = OptionalCaches(self._client, own_writes, dice, self.caches.unreadable)
        self._user_errors = UnreadableEvents(self.caches.unreadable, door, clock, FIELD_MANAGER)
        views = GrouperCaches(self.caches, self._latecomers, effective)
        user_errors = UserErrorReporter(door, self._change_applier, clock)
        grouping = PodReconciler(
            views, OwnerResolver(self._client, clock), self._change_applier, user_errors, effective
        )
        self._views = views
        self._pods = controller(grouping, self._client, dice)
        self._queues = self._queue_keeper()

    async def run(self) -> None:
        """Run until cancelled. Waits for the server to serve our kinds: the CRDs may be applied after we start."""
        await until_served(self._client, [path_of(resource) for resource in NEEDED])
        await self._latecomers.refresh()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="pod-grouper-watches")
            group.create_task(self._latecomers.run(), name="pod-grouper-latecomers")
            group.create_task(self._pods.run(), name="pod-grouper")
            group.create_task(self._user_errors.run(), name="pod-grouper-complaints")
            group.create_task(self._queues.run(), name="default-queues")
            self._queues.queue.add(DEFAULT_QUEUE)
            await self._views.wait_synced()
            self.ready.set()

    def _queue_keeper(self) -> Controller[str]:
        """A controller that creates the default queues at start-up and again when one is deleted."""
        queues = self._views.queues

        async def reconcile(key: str) -> Result:
            await self._change_applier.carry_out(missing_queues(lambda name: ("", name) in queues))
            return Done()

        def of_queue(change: Change[PartialObject]) -> Iterable[str]:
            return (DEFAULT_QUEUE,) if change.new is None and change.key[1] in _OURS else ()

        source = Source(queues, of_queue)
        return Controller("default-queues", [source], reconcile, self._client, self._dice, workers=1)
