"""One cycle: what changed is read again, gangs that are due are decided in order, what has to be done is handed out.

It writes nothing and waits for nothing: it answers with acts, and hears from whoever did them. Reservations are made
the moment a gang is decided, so that the next one sees them. Never decides on a gang whose own writes are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import structlog

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, KAI_NODE_POOL, PLAN
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.consolidation import limits_of
from spinney.core.scheduling.gangs import Context
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.reporting import WriteFailure, awaiting_volumes
from spinney.core.scheduling.reporting.conditions import alike
from spinney.core.scheduling.staleness import is_owned_by_podgang
from spinney.drive.client.paths import Key
from spinney.drive.loop.election import LeadershipLost
from spinney.drive.loop.scheduler.acts import Act, Discard, Resume, Step
from spinney.drive.loop.scheduler.assigning import Assigner, Draft
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.carrying import Carried, Ending
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.havens import Havens
from spinney.drive.loop.scheduler.hunting import Hunter
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.mustering import Muster
from spinney.drive.loop.scheduler.ordering import Ordering
from spinney.drive.loop.scheduler.patience import Patience, Strays
from spinney.drive.loop.scheduler.pursuing import Pursuit
from spinney.drive.loop.scheduler.records import RecordReader, Rejected
from spinney.drive.loop.scheduler.reports import Reports
from spinney.drive.loop.scheduler.reviewing import Review
from spinney.drive.loop.scheduler.seating import Seating
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.staleness import Expel, Mark, Staleness
from spinney.drive.loop.scheduler.telling import Teller
from spinney.drive.loop.scheduler.tenure import Tenure
from spinney.drive.loop.scheduler.views import Views

_RETRY_S = 0.01
_FAILED_RETRY_S = 1.0
_LONGEST_RETRY_S = 30.0
_MOST_DOUBLINGS = 32
_LONGEST_HOLD_S = 1.0
_VOLUMES_LOOK_S = 5.0
_CONFIRM_S = 0.5

_Waits = tuple[Entry, Callable[[], Act | None]]
"""A gang whose plan waits for others to leave, and how to look after it."""

_log = structlog.get_logger(__name__)


class Cycle:
    """`look_after` asks to be called back for a key after so many seconds.

    `confirmed_at`: when the Lease was asked that last said that we lead; None: nobody is elected.
    """

    def __init__(
        self,
        views: Views,
        cluster: Cluster,
        book: Book,
        context: Callable[[], Context],
        settings: Settings,
        clock: Clock,
        records: RecordReader,
        look_after: Callable[[Key, float], None],
        reports: Reports,
        metrics: Metrics,
        confirmed_at: Callable[[], float] | None = None,
    ) -> None:
        self._views = views
        self._metrics = metrics
        self._confirmed_at = confirmed_at
        self._cluster = cluster
        self._book = book
        self._context = context
        self._settings = settings
        self._clock = clock
        self._records, epoch = records, records.term.epoch
        self._look_after = look_after
        self._decider = Decider(cluster, settings.strategy, settings.budget, book.reserved)
        self._ordering = Ordering(views.queues)
        self._seating = Seating(views, cluster, epoch, clock, self._look_again)
        self._tenure = Tenure(views, cluster, book, self._ordering, clock, look_after)
        self._muster = Muster(views, cluster, book, self._decider, self._tenure, context)
        self._havens = Havens(cluster, clock, look_after)
        self._teller = Teller(reports, cluster, settings.node_pool)
        self._review = Review(views, cluster, book, self._tenure, self._muster)
        self._pursuit = Pursuit(
            views,
            cluster,
            book,
            self._seating,
            self._havens,
            self._muster,
            self._ordering,
            self._decider,
            self._review,
            records,
        )
        self._staleness = Staleness(views, cluster, settings, clock, look_after)
        self._patience = Patience(clock, settings.patience_s, look_after)
        self._strays = Strays(book, clock, settings.patience_s, look_after, reports)
        self._assigner = Assigner(
            cluster,
            book,
            self._muster,
            self._ordering,
            self._decider,
            Hunter(views.budgets, cluster, self._decider, self._decider.options, self._muster.stander),
            self._seating,
            self._pursuit,
            self._teller,
            clock,
            metrics,
        )
        self._improved = -1

    def _look_again(self, key: Key) -> None:
        """Members of a gang need not go after all: whoever is decided next counts them, for room and for queues."""
        self._muster.again(key)
        entry = self._book.entries.get(key)
        if entry is not None:
            self._ordering.charge(entry)
        self._look_after(key, 0.0)

    # Acts

    def steps(self) -> Iterator[Step]:
        """What is to be done now. Others may run between two steps; what they change is seen in the next cycle."""
        began_s = self._clock.monotonic()
        if self._decider.renew():
            self._ordering.renew(self._cluster.inventory.resources, self._book.entries.values())
            self._book.touch_all()
        if self._improved != self._cluster.improved:
            self._book.changed.update(self._book.waits)
        yield from self._read_changed()
        if self._improved != self._cluster.improved:
            self._improved = self._cluster.improved
            self._book.room_improved()
        self._recall_nominated()
        read_s = self._clock.monotonic() - began_s
        yield from self._decide(self._ordering.sort(self._book, self._book.due))
        self._metrics.cycle(self._clock.monotonic() - began_s, read_s)

    def finished(self, act: Act, carried: Carried) -> None:
        """The work on a gang is done, well or not: it is looked at again."""
        key, ending = act.key, carried.ending
        entry = self._book.entries.get(key)
        if entry is None:
            return
        entry.busy = False
        if carried.failures:
            self._failed(entry, act, carried.failures)
        if ending is Ending.AWAITS:
            self._await_volumes(entry)
            return
        self._book.awaits.pop(key, None)
        entry.awaits_since = None
        if ending is Ending.DONE:
            entry.failures = 0
            entry.failure, entry.probes = "", entry.probes and isinstance(act, Mark)
        else:
            entry.refused_at = None
            delay_s = _LONGEST_RETRY_S if ending is Ending.REFUSED else _backoff_s(ending, entry.failures)
            entry.failures += 1
            entry.not_before = self._clock.monotonic() + delay_s
            self._look_after(key, delay_s)
        self._book.touch(key)

    def _failed(self, entry: Entry, act: Act, failures: Sequence[WriteFailure]) -> None:
        """The gang, the log and whoever asks hear what the API server said; the same is logged once."""
        first = failures[0]
        entry.probes = entry.probes or first.write == "bind"
        is_news, entry.failure = not alike(entry.failure, first.event.message), first.event.message
        if is_news:
            _log.warning(
                "a write was refused", gang=entry.name, write=first.write, writes=len(failures), reason=entry.failure
            )
        if not isinstance(act, Expel):
            self._teller.explain_failures(entry, failures)
        elif is_news:
            self._teller.note(entry, first.event)

    def _await_volumes(self, entry: Entry) -> None:
        """Its claims are looked at when they change, and now and then."""
        if entry.awaits_since is None:
            entry.awaits_since = self._clock.monotonic()
        self._book.awaits[entry.key] = None
        if entry.reading is not None:
            self._teller.tell(entry, awaiting_volumes(entry.reading))
        self._look_after(entry.key, _VOLUMES_LOOK_S)

    def _set_to_work(self, entry: Entry, think: Callable[[], Act | None]) -> Act | None:
        """What is to be done for a gang; our own mistake about one gang is no harm to the others."""
        try:
            act = think()
        except LeadershipLost:
            raise
        except Exception as error:
            _log.error("a gang could not be decided", gang=entry.name, exc_info=error)
            self._views.podgroups.complain(entry.key, error)
            self._seating.release(entry)
            self._book.rest(entry)
            entry.not_before = self._clock.monotonic() + _LONGEST_RETRY_S
            self._look_after(entry.key, _LONGEST_RETRY_S)
            return None
        self._views.podgroups.recover(entry.key)
        self._ordering.charge(entry)
        entry.busy = act is not None
        return act

    # Reading

    def _read_changed(self) -> Iterator[Step]:
        """Plans that wait for others to leave come last: what these and everybody else use of their queues counts."""
        context = self._context()
        waits: list[_Waits] = []
        for key in self._book.take_changed():
            entry = self._book.entry(key)
            if not entry.busy:
                yield self._set_to_work(entry, partial(self._read, entry, context, waits))
        for entry, look in waits:
            if entry.key not in self._book.changed:
                yield self._set_to_work(entry, look)

    def _read(self, entry: Entry, context: Context, waits: list[_Waits]) -> Act | None:
        group, pods = self._views.podgroups.get(entry.key), self._views.pods_of(entry.key)
        if group is None:
            if entry.group is not None:
                self._records.forget(entry.group.metadata.uid)
            self._leave(entry)
            self._strays.look(entry, pods)
            return None
        if group.metadata.labels.get(KAI_NODE_POOL, "") != self._settings.node_pool:
            self._leave(entry)
            return None
        entry.unsettled = not self._views.is_fresh(entry.key)
        if entry.unsettled:
            self._book.due.pop(entry.key, None)
            if entry.reading is None and PLAN in group.metadata.annotations:
                self._account_for(entry, group, pods, context)
            return None
        found = self._records.read(group.metadata)
        before, entry.group = entry.reading, group
        if before is None and self._patience.is_gathering(entry, group, pods):
            return None
        was_limited, entry.limits = entry.limits, self._limits(group)
        self._muster.read(entry, group, pods, context)
        self._tenure.look(entry)
        self._havens.expire(entry.key)
        if isinstance(found, Rejected):
            return self._discard(entry, group, pods, found)
        if found is not None:
            return self._resume(entry, group, found, pods, waits)
        self._muster.land(entry)
        assert entry.reading is not None
        runs, is_mistaken = bool(entry.reading.gang.running), bool(entry.reading.mistake)
        act = self._staleness.look(group, pods, runs, is_mistaken=is_mistaken)
        if act is not None and entry.not_before <= self._clock.monotonic():
            return act
        same = before == entry.reading and was_limited == entry.limits
        if same and (entry.refused_at == self._cluster.improved or self._keeps_its_seats(entry)):
            return None
        self._seating.release(entry)
        return self._queue(entry, group)

    def _limits(self, group: PodGroup) -> Consolidate | None:
        """How much may be moved for a gang: requests count only where whoever runs the scheduler has said so."""
        by_itself, asks = self._settings.consolidate, self._settings.moves_on_request
        return limits_of(group.metadata.annotations, by_itself) if asks else by_itself

    def _account_for(self, entry: Entry, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """A plan was found on a gang that may not be decided on yet: its seats are nobody else's meanwhile (INV1)."""
        entry.group, entry.in_flight = group, True
        self._muster.read(entry, group, pods, context)
        found = self._records.read(group.metadata)
        if isinstance(found, Plan):
            self._seating.keep(entry, found, pods)

    def _keeps_its_seats(self, entry: Entry) -> bool:
        """Whether a plan of it is about to be tried again: nobody overtakes it meanwhile."""
        left_s = entry.not_before - self._clock.monotonic()
        if not entry.seats or entry.victims or not 0.0 < left_s <= _LONGEST_HOLD_S:
            return False
        self._look_after(entry.key, left_s)
        return True

    def _leave(self, entry: Entry) -> None:
        """There is no such group (any more), or it is of another node pool."""
        self._seating.release(entry)
        self._book.rest(entry)
        self._book.tie(entry, "")
        self._decider.forget(entry.name)
        self._book.wake_tied(entry.name)
        self._teller.forget(entry)
        self._staleness.forget(entry.key)
        self._tenure.forget(entry.key)
        self._havens.open(entry.key)
        entry.group = entry.reading = None

    def _discard(self, entry: Entry, group: PodGroup, pods: Sequence[Pod], why: Rejected) -> Act | None:
        """A record that is not a plan: nothing is reserved, bound or evicted for it."""
        self._seating.release(entry)
        self._book.rest(entry)
        if entry.not_before > self._clock.monotonic() or (why.is_foreign and not self._is_confirmed(entry, why)):
            return None
        waiting = [pod for pod in pods if pod.is_here and not pod.spec.node_name] if why.has_binder else []
        return Discard(entry.key, group.metadata, why, tuple(waiting))

    def _is_confirmed(self, entry: Entry, why: Rejected) -> bool:
        """Whether the Lease has said that it is still ours since a record under another one was found."""
        if self._confirmed_at is None:
            return True
        if entry.foreign is None or entry.foreign[0] != why.message:
            entry.foreign = (why.message, self._clock.monotonic())
        if self._confirmed_at() > entry.foreign[1]:
            entry.foreign = None
            return True
        self._look_after(entry.key, _CONFIRM_S)
        return False

    def _resume(
        self, entry: Entry, group: PodGroup, plan: Plan, pods: Sequence[Pod], waits: list[_Waits]
    ) -> Act | None:
        """Go on with a plan that is recorded, in the place it says."""
        self._book.rest(entry)
        entry.in_flight = True
        if entry.not_before > self._clock.monotonic():
            return None
        if plan.state == "wait":
            waits.append((entry, partial(self._pursuit.resume, entry, group, plan, pods)))
            return None
        too_late_s = (entry.awaits_since or self._clock.monotonic()) + self._settings.volumes_s
        refused = self._refused(entry, group, plan, pods)
        give_up = too_late_s <= self._clock.monotonic()
        errand = self._seating.resume(entry, group, plan, pods, refused=refused, give_up=give_up)
        return Resume(entry.key, errand, next(iter(refused.values()), ""))

    def _refused(self, entry: Entry, group: PodGroup, plan: Plan, pods: Sequence[Pod]) -> dict[str, str]:
        """Seats of a plan that somebody else made, and that nobody may take now, by uid: judged before any is kept."""
        if not self._records.is_taken_over(group.metadata.uid):
            return {}
        self._seating.release(entry)
        waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name}
        return self._review.seats(entry, [seat for seat in plan.seats if seat.uid in waiting])

    def _queue(self, entry: Entry, group: PodGroup) -> Act | None:
        """A gang without a plan: is it to be decided, told something, or left in peace?

        A gang begins with all its pods where the last gates are about to go: the domain is chosen for all of them.
        """
        reading = entry.reading
        assert reading is not None
        if reading.mistake:
            self._book.rest(entry)
            self._teller.explain(entry, reading, None)
            return None
        if not reading.ready:
            self._book.rest(entry)
            is_gated = reading.gated and not is_owned_by_podgang(group)  # the gates of those are their operator's
            if self._patience.is_over(entry) and (any(reading.held) or any(reading.waiting.values()) or is_gated):
                self._teller.explain(entry, reading, None)
            return None
        if reading.gated and not reading.gang.running and not self._patience.is_over(entry):
            self._book.rest(entry)
            return None
        if not reading.held and not reading.gated:
            entry.incomplete_since = None
        if any(reading.waiting.values()):
            self._book.await_turn(entry)
        else:
            self._book.rest(entry)
            is_held = bool(reading.held) and self._patience.is_over(entry)
            if is_held or group.status.scheduling_conditions or EXPLANATION in group.metadata.annotations:
                self._teller.explain_placed(entry, None, [])
        return None

    # Deciding

    def _recall_nominated(self) -> None:
        """Who waits for others to leave is asked again with everybody else: the first in order gets the room."""
        if not self._book.due:
            return
        for key in list(self._book.nominated):
            entry = self._book.entries[key]
            self._seating.release(entry)
            del self._book.nominated[key]
            self._book.due[key] = None

    def _decide(self, order: Sequence[Entry]) -> Iterator[Step]:
        """Minimums first, in order; then whatever is beyond them."""
        drafts: list[Draft] = []
        for entry in order:
            if not self._is_its_turn(entry):
                continue
            yield self._set_to_work(entry, self._haven(entry, partial(self._assigner.decide_minimum, entry, drafts)))
        for draft in drafts:
            if self._is_its_turn(draft.entry):
                yield self._set_to_work(
                    draft.entry, self._haven(draft.entry, partial(self._assigner.decide_extras, draft))
                )
            else:
                self._seating.release(draft.entry)
                self._book.touch(draft.entry.key)

    def _haven(self, entry: Entry, think: Callable[[], Act | None]) -> Callable[[], Act | None]:
        """Decide with the places that are kept for it."""
        if not self._havens.has_any(entry.key):
            return think

        def decide() -> Act | None:
            opened, before = self._havens.open(entry.key), len(entry.seats)
            act = think()
            self._havens.close(entry.key, opened, list(entry.seats.values())[before:])
            return act

        return decide

    def _is_its_turn(self, entry: Entry) -> bool:
        if entry.key in self._book.changed or entry.busy or entry.key not in self._book.due:
            return False
        entry.unsettled = not self._views.is_fresh(entry.key)
        if entry.unsettled or self._muster.is_giving_way(entry.key):
            return False
        return entry.not_before <= self._clock.monotonic() and self._decider.is_current


def _backoff_s(ending: Ending, failures: int) -> float:
    """Longer each time."""
    base_s = _FAILED_RETRY_S if ending is Ending.FAILED else _RETRY_S
    return min(base_s * 2.0 ** min(failures, _MOST_DOUBLINGS), _LONGEST_RETRY_S)
