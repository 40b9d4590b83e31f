"""The scheduler: syncs its caches, runs a cycle whenever something changed, and executes the actions, until stopped.

Never decides before all caches are synced, and never lets the failure of one gang stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from kube_apimachinery.clock import Clock, Dice
from spinney.api.labels import SCHEDULER_KAI
from spinney.core.scheduling.cycle.actions import Action, DecidedAgain, TaskResult, TaskStatus, Undecided
from spinney.core.scheduling.cycle.cycle import Cycle
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.plan_records import NO_LEASE, PlanRecords, Superseded, Term, next_epoch
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches, until_served
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import PAUSE_S, restart_on_error
from spinney.drive.controller.unreadable_events import UnreadableEvents
from spinney.drive.election.leader_election import Elect, Leadership, LeadershipLost
from spinney.drive.scheduler.caches import NEEDED, SchedulerCaches
from spinney.drive.scheduler.event_handlers import EventHandlers
from spinney.drive.scheduler.execution.action_executor import ActionExecutor
from spinney.drive.scheduler.execution.api_writer import ApiWriter, WriteConfirmation, WriteLimiter, WriteSlot
from spinney.drive.scheduler.execution.fencing import fence
from spinney.drive.scheduler.metrics import Metrics
from spinney.drive.scheduler.past_use_controller import PastUseController
from spinney.drive.scheduler.queue_status_controller import PodGroupStatusController, QueueStatusController
from spinney.drive.scheduler.reason_refresh import ReasonRefresh
from spinney.drive.scheduler.shard_controller import ShardStatusController, follow_shard

FIELD_MANAGER = "spinney-scheduler"
FindKeys = Callable[[], Awaitable[Sequence[bytes]]]
_YIELD_EVERY = 16
_YIELD_EVERY_S = 0.02
"""The event loop gets a turn after this many steps, or after this time."""
_FORGET_S = 60.0

_log = structlog.get_logger(__name__)


class Scheduler:
    """Start it with `run`. `ready` is set once it makes decisions.

    `record_keys`: the keys for plan records, of which the first signs and all verify; or a function that finds them
    once it leads. `leads`: its term of leadership; epoch 0: there can be no other scheduler, and it takes the epoch
    after the highest one recorded. Or the election: awaited when the caches are synced (`prepared`); until it returns
    the caches are kept up to date and nothing is written.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: Settings,
        *,
        record_keys: Sequence[bytes] | FindKeys,
        leads: Term | Elect = NO_LEASE,
    ) -> None:
        self.ready = asyncio.Event()
        self.prepared = asyncio.Event()
        self._elect = leads if callable(leads) else None
        self._term = leads if isinstance(leads, Term) else NO_LEASE
        self._leadership: Leadership | None = None
        self._own_writes = own_writes = OwnWrites()
        self._client = ApiClient(transport, dice)
        self.caches = SharedCaches(self._client, own_writes, dice)
        self.unreadable = self.caches.unreadable
        self._door = Door(
            transport, dice, field_manager=FIELD_MANAGER, own_writes=own_writes, may_write=self._check_elected
        )
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._record_keys = record_keys
        self._wake = asyncio.Event()
        self._write_slots = WriteLimiter(settings.gangs_at_a_time)
        self._ungrouped_timers: set[Key] = set()
        self.session = Session(settings, clock)
        cluster, scheduling_queue = self.session.cluster, self.session.scheduling_queue
        self.metrics = Metrics(
            lambda: cluster.inventory,
            scheduling_queue.states,
            self.session.queue_figures,
            scheduling_queue.oldest_pending,
        )

    async def run(self) -> None:
        """Run until cancelled. Raises `LeadershipLost` when another scheduler has taken over."""
        await until_served(self._client, NEEDED)
        optional_caches = OptionalCaches(self._client, self._own_writes, self._dice, self.unreadable)
        views = SchedulerCaches(self.caches, self._settings.names, optional_caches)
        EventHandlers(self.session, views, self._wake.set, self._requeue_ungrouped)
        follow_shard(self.session, views, self._wake.set)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="scheduler-watches")
            await optional_caches.refresh()
            group.create_task(optional_caches.run(), name="scheduler-latecomers")
            await views.wait_synced()
            self.prepared.set()
            if self._elect is not None:
                await self._be_elected(self._elect, views)
            records = await self._begin_term(views)
            api_writer = self._api_writer(views)
            work = ActionExecutor(self.session, api_writer, views, self.metrics, records)
            confirmed_at = self._confirmed_at if self._leadership is not None and self._term.epoch else None
            cycle = Cycle(self.session, views, records, work.status_writer, self.metrics, confirmed_at)
            if self._term.epoch:
                await fence(api_writer, views, self._term.epoch)
            records.inherit([each.metadata for each in views.podgroups])
            groups = PodGroupStatusController(self.session, api_writer, views)
            queues = QueueStatusController(self.session, api_writer, views, groups.note)
            complaints = UnreadableEvents(self.unreadable, self._door, self._clock, SCHEDULER_KAI)
            group.create_task(restart_on_error(work.run, "reports"), name="scheduler-events")
            group.create_task(restart_on_error(queues.run, "queues"), name="scheduler-queues")
            group.create_task(restart_on_error(groups.run, "groups"), name="scheduler-groups")
            shards = ShardStatusController(self.session, self._settings, api_writer, views, work.status_writer)
            group.create_task(restart_on_error(shards.run, "shards"), name="scheduler-shards")
            past_use = PastUseController(self.session, api_writer, views, self._wake.set)
            group.create_task(restart_on_error(past_use.run, "past use"), name="scheduler-past-use")
            group.create_task(complaints.run(), name="scheduler-complaints")
            refresh = ReasonRefresh(self.session, self._wake.set)
            group.create_task(restart_on_error(refresh.run, "reasons"), name="scheduler-reasons")
            self.ready.set()
            self._wake.set()
            await self._run_cycles(cycle, views, work, group, queues.note_decisions)

    async def _be_elected(self, elect: Elect, views: SchedulerCaches) -> None:
        """Stand by with synced caches; once elected, wait until they show everything that the old leader wrote."""
        forgetting = asyncio.create_task(self._forget_gone(views))
        try:
            self._leadership = await elect()
        finally:
            forgetting.cancel()
        self._term = Term(self._leadership.lease_uid, self._leadership.epoch)
        if self._term.epoch:
            await self.caches.confirm(views.written_by_leaders)

    async def _begin_term(self, views: SchedulerCaches) -> PlanRecords:
        """Read the keys and set the epoch of this term of leadership."""
        found = self._record_keys
        keys = await found() if callable(found) else found
        epoch = self._term.epoch or next_epoch(keys, [each.metadata for each in views.podgroups])
        return PlanRecords(keys, Term(self._term.lease, epoch))

    def _api_writer(self, views: SchedulerCaches) -> ApiWriter:
        caches = (views.pods, views.podgroups, views.claims, views.queues)
        confirmation = WriteConfirmation(self._client, caches, self._dice, self._requeue_unsettled)
        return ApiWriter(self._door, self._clock, self._dice, confirmation.confirm_writes, self._write_slots.quiet)

    async def _forget_gone(self, views: SchedulerCaches) -> None:
        while True:
            await asyncio.sleep(_FORGET_S)
            self.session.scheduling_queue.forget_gone(lambda key: key in views.podgroups or bool(views.pods_of(key)))

    def _check_elected(self) -> None:
        if self._elect is None:
            return
        if self._leadership is None:
            raise LeadershipLost("a scheduler that stands by does not write")
        self._leadership.check()

    def _confirmed_at(self) -> float:
        assert self._leadership is not None
        return self._leadership.confirmed_at

    async def _run_cycles(
        self,
        cycle: Cycle,
        views: SchedulerCaches,
        work: ActionExecutor,
        group: asyncio.TaskGroup,
        decided: Callable[[], None],
    ) -> None:
        """`decided` is called after each cycle."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._settings.gather_s)
            await views.wait_synced()
            self._wake.clear()
            try:
                await self._run_cycle(cycle, views, work, group)
                decided()
            except Superseded as error:
                raise LeadershipLost(str(error)) from error
            except LeadershipLost:
                raise
            except Exception as error:
                _log.error("a cycle failed by our own fault", exc_info=error)
                await asyncio.sleep(PAUSE_S)
                self._wake.set()

    async def _run_cycle(
        self, cycle: Cycle, views: SchedulerCaches, work: ActionExecutor, group: asyncio.TaskGroup
    ) -> None:
        try:
            await self._carry_out(cycle, views, work, group)
        finally:
            self._set_timers()

    async def _carry_out(
        self, cycle: Cycle, views: SchedulerCaches, work: ActionExecutor, group: asyncio.TaskGroup
    ) -> None:
        yielded_s = self._clock.monotonic()
        for number, act in enumerate(cycle.steps(), 1):
            self._set_timers()
            match act:
                case None:
                    pass
                case Undecided(key, error):
                    _log.error("a gang could not be decided", gang="/".join(key), exc_info=error)
                    views.podgroups.complain(key, error)
                case DecidedAgain(key):
                    views.podgroups.recover(key)
                case _:
                    write_slot = await self._write_slots.take()
                    group.create_task(self._do(act, cycle, work, write_slot))
            if (act is None and number % _YIELD_EVERY == 0) or self._clock.monotonic() - yielded_s > _YIELD_EVERY_S:
                await asyncio.sleep(0)
                yielded_s = self._clock.monotonic()

    async def _do(self, act: Action, cycle: Cycle, work: ActionExecutor, write_slot: WriteSlot) -> None:
        try:
            task_result = await work.do(act, write_slot)
        except LeadershipLost:
            raise
        except ClientError as error:
            _log.warning("work on a gang failed", gang="/".join(act.key), error=str(error))
            task_result = TaskResult(TaskStatus.LATER)
        except Exception as error:
            _log.error("work on a gang failed by our own fault", gang="/".join(act.key), exc_info=error)
            task_result = TaskResult(TaskStatus.LATER)
        finally:
            write_slot.end()
        failure = cycle.finished(act, task_result)
        self._set_timers()
        if failure is not None:
            writes, reason = len(task_result.failures), failure.event.message
            _log.warning(
                "a write was refused", gang="/".join(act.key), write=failure.write, writes=writes, reason=reason
            )
        self._wake.set()

    def _requeue_unsettled(self) -> None:
        """The result of an own write is known, possibly without any watch event for it."""
        self.session.scheduling_queue.touch_unsettled()
        self._wake.set()

    def _set_timers(self) -> None:
        """Set the timers that the last decisions asked for."""
        for key, after_s in self.session.take_requeues():
            self._requeue_after(key, after_s)

    def _requeue_after(self, key: Key, delay_s: float) -> None:
        def refresh() -> None:
            self.session.scheduling_queue.touch(key)
            self._wake.set()

        asyncio.get_running_loop().call_later(delay_s, refresh)

    def _requeue_ungrouped(self, key: Key) -> None:
        """Look at pods without a PodGroup once after a grace period, not at each event: grouping takes time."""
        if key not in self._ungrouped_timers:
            self._ungrouped_timers.add(key)
            loop = asyncio.get_running_loop()
            loop.call_later(self._settings.incomplete_grace_s, self._ungrouped_timers.discard, key)
            self._requeue_after(key, self._settings.incomplete_grace_s)
