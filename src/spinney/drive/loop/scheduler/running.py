"""The scheduler: views, then cycles whenever something changed, and the work they hand out, until it is stopped.

Never decides before all views are there, and never lets one gang's failure stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from spinney.api.clock import Clock, Dice
from spinney.api.labels import SCHEDULER_KAI
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import Context
from spinney.core.scheduling.signature import Term
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.latecomers import Latecomers, until_served
from spinney.drive.client.own_writes import OwnWrites
from spinney.drive.client.paths import Key
from spinney.drive.client.shared import SharedCaches
from spinney.drive.client.transport import Transport
from spinney.drive.loop.election import Elect, Leadership, LeadershipLost
from spinney.drive.loop.perseverance import PAUSE_S, persevere
from spinney.drive.loop.scheduler.acts import Act
from spinney.drive.loop.scheduler.book import Book
from spinney.drive.loop.scheduler.carrying import Carried, Ending
from spinney.drive.loop.scheduler.cycle import Cycle
from spinney.drive.loop.scheduler.fencing import fence
from spinney.drive.loop.scheduler.folding import Folding
from spinney.drive.loop.scheduler.group_telling import GroupTelling
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.queue_telling import QueueTelling
from spinney.drive.loop.scheduler.records import Records, next_epoch
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.turns import Turn, Turns
from spinney.drive.loop.scheduler.views import NEEDED, Views
from spinney.drive.loop.scheduler.working import Work
from spinney.drive.loop.unreadable_events import UnreadableEvents

FIELD_MANAGER = "spinney-scheduler"
FindKeys = Callable[[], Awaitable[Sequence[bytes]]]
_BREATH = 16
_BREATH_S = 0.02
"""So many steps, or so long, until others may run."""
_FORGET_S = 60.0

_log = structlog.get_logger(__name__)


class Scheduler:
    """`run` it. `ready` is set once it decides; `may_write` is asked before each write.

    `record_keys`: what plans are signed with, the first one, and what may have signed those that are there; or how to
    find them, when it leads. `elect`: asked once the views are synced (`prepared`); until it answers they are kept and
    nothing is written. Without it `epoch` is that of its leadership, under the Lease with the uid `lease`; 0: nobody
    else can be there, and it takes the next one after those it finds.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: Settings,
        *,
        record_keys: Sequence[bytes] | FindKeys,
        epoch: int = 0,
        lease: str = "",
        may_write: Callable[[], None] = lambda: None,
        elect: Elect | None = None,
    ) -> None:
        self.ready = asyncio.Event()
        self.prepared = asyncio.Event()
        self._elect = elect
        self._leadership: Leadership | None = None
        self._own_writes = own_writes = OwnWrites()
        self._client = ApiClient(transport, dice)
        self.caches = SharedCaches(self._client, own_writes, dice)
        self.unreadable = self.caches.unreadable
        asked = may_write if elect is None else self._check_elected
        self._door = Door(transport, dice, field_manager=FIELD_MANAGER, own_writes=own_writes, may_write=asked)
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._record_keys = record_keys
        self._epoch = epoch
        self._lease = lease
        self._wake = asyncio.Event()
        self._turns = Turns(settings.gangs_at_a_time)
        self._patient: set[Key] = set()
        self.cluster = Cluster(settings.node_pool)
        self.book = Book()
        self.metrics = Metrics(lambda: self.cluster.inventory, lambda: self.book.states())

    async def run(self) -> None:
        """Until cancelled. Raises `LeadershipLost` when somebody else has taken over."""
        await until_served(self._client, NEEDED)
        latecomers = Latecomers(self._client, self._own_writes, self._dice, self.unreadable)
        views = Views(self.caches, self._settings.names, latecomers)
        folding = Folding(views, self.cluster, self.book, self._settings.names, self._wake.set, self._look_patiently)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="scheduler-watches")
            await latecomers.look()
            group.create_task(latecomers.run(), name="scheduler-latecomers")
            await views.wait_synced()
            self.prepared.set()
            if self._elect is not None:
                await self._be_elected(self._elect, views)
            records = await self._begin_term(views)
            work = Work(
                self._door,
                self._client,
                views,
                self.cluster,
                self._settings,
                self._clock,
                self._dice,
                self.metrics,
                self._turns,
                self._look_at_unsettled,
                records,
            )
            cycle = Cycle(
                views,
                self.cluster,
                self.book,
                lambda: self._context(views, folding),
                self._settings,
                self._clock,
                records,
                self._look_after,
                work.reports,
                self.metrics,
                self._confirmed_at if self._leadership is not None and self._epoch else None,
            )
            if self._epoch:
                await fence(self._door, work.doubts, views, self._dice, self._epoch)
            records.inherit([each.metadata for each in views.podgroups])
            telling = self._door, work.doubts.settle, self._turns.quiet
            groups = GroupTelling(views, folding.priorities, self._settings.node_pool, self._is_busy, *telling)
            queues = QueueTelling(views, self._settings.names, folding.priorities, *telling, groups.note)
            complaints = UnreadableEvents(self.unreadable, self._door, self._clock, SCHEDULER_KAI)
            group.create_task(persevere(work.run, "reports"), name="scheduler-events")
            group.create_task(persevere(queues.run, "queues"), name="scheduler-queues")
            group.create_task(persevere(groups.run, "groups"), name="scheduler-groups")
            group.create_task(complaints.run(), name="scheduler-complaints")
            self.ready.set()
            self._wake.set()
            await self._go_on(cycle, views, work, group)

    async def _be_elected(self, elect: Elect, views: Views) -> None:
        """Stand by with views that are kept. What the leader before wrote is in them before they are decided on."""
        forgetting = asyncio.create_task(self._forget_gone(views))
        try:
            self._leadership = await elect()
        finally:
            forgetting.cancel()
        self._epoch, self._lease = self._leadership.epoch, self._leadership.lease_uid
        if self._epoch:
            await self.caches.confirm(views.written_by_leaders)

    async def _begin_term(self, views: Views) -> Records:
        """With the keys as they are now."""
        found = self._record_keys
        keys = await found() if callable(found) else found
        epoch = self._epoch or next_epoch(keys, [each.metadata for each in views.podgroups])
        return Records(keys, Term(self._lease, epoch))

    async def _forget_gone(self, views: Views) -> None:
        while True:
            await asyncio.sleep(_FORGET_S)
            self.book.forget_gone(lambda key: key in views.podgroups or bool(views.pods_of(key)))

    def _check_elected(self) -> None:
        if self._leadership is None:
            raise LeadershipLost("a scheduler that stands by does not write")
        self._leadership.check()

    def _confirmed_at(self) -> float:
        assert self._leadership is not None
        return self._leadership.confirmed_at

    async def _go_on(self, cycle: Cycle, views: Views, work: Work, group: asyncio.TaskGroup) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._settings.gather_s)
            await views.wait_synced()
            self._wake.clear()
            try:
                await self._go_round(cycle, work, group)
            except LeadershipLost:
                raise
            except Exception as error:
                _log.error("a cycle failed by our own fault", exc_info=error)
                await asyncio.sleep(PAUSE_S)
                self._wake.set()

    async def _go_round(self, cycle: Cycle, work: Work, group: asyncio.TaskGroup) -> None:
        breathed_s = self._clock.monotonic()
        for number, act in enumerate(cycle.steps(), 1):
            if act is not None:
                turn = await self._turns.take()
                group.create_task(self._do(act, cycle, work, turn))
            if (act is None and number % _BREATH == 0) or self._clock.monotonic() - breathed_s > _BREATH_S:
                await asyncio.sleep(0)
                breathed_s = self._clock.monotonic()

    async def _do(self, act: Act, cycle: Cycle, work: Work, turn: Turn) -> None:
        try:
            carried = await work.do(act, turn)
        except LeadershipLost:
            raise
        except ClientError as error:
            _log.warning("work on a gang failed", gang="/".join(act.key), error=str(error))
            carried = Carried(Ending.LATER)
        except Exception as error:
            _log.error("work on a gang failed by our own fault", gang="/".join(act.key), exc_info=error)
            carried = Carried(Ending.LATER)
        finally:
            turn.end()
        cycle.finished(act, carried)
        self._wake.set()

    def _is_busy(self, key: Key) -> bool:
        entry = self.book.entries.get(key)
        return entry is not None and entry.busy

    def _look_at_unsettled(self) -> None:
        """What became of an own write is known, perhaps by nothing that a watch would show."""
        self.book.touch_unsettled()
        self._wake.set()

    def _look_after(self, key: Key, delay_s: float) -> None:
        def look() -> None:
            self.book.touch(key)
            self._wake.set()

        asyncio.get_running_loop().call_later(delay_s, look)

    def _look_patiently(self, key: Key) -> None:
        """Pods without a group: not at each of them, but when somebody has had the time to group them."""
        if key not in self._patient:
            self._patient.add(key)
            loop = asyncio.get_running_loop()
            loop.call_later(self._settings.patience_s, self._patient.discard, key)
            self._look_after(key, self._settings.patience_s)

    def _context(self, views: Views, folding: Folding) -> Context:
        inventory = self.cluster.inventory
        return Context(
            resources=inventory.resources,
            priorities=folding.priorities,
            volumes=views.volume_lookups,
            claim=lambda namespace, name: views.resource_claims.get((namespace, name)),
            topologies=self.cluster.topologies,
            short_levels=folding.short_levels,
            has_node=lambda name: inventory.find(name) is not None,
            unreadable=views.unreadable,
            is_limited=views.is_limited,
        )
