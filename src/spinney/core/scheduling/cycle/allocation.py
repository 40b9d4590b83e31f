"""The allocate action: gangs that are due get nodes or the reason why not; minimums first, then pods beyond them.

Makes no write: it reserves the assignments and returns the action to carry out. Pods become victims only for a gang
that is placed by their eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from spinney.api.placement.problem import Consolidate, Gang, Running
from spinney.api.placement.result import Decision, Placement
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cycle.actions import Action, StartPlan
from spinney.core.scheduling.cycle.gang_reader import GangReader, beside_scaled_gangs, followers_of
from spinney.core.scheduling.cycle.gang_reporter import GangReporter
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.preemption import Preemptor, VictimSelection
from spinney.core.scheduling.cycle.recorded_plans import NominatedPlans
from spinney.core.scheduling.cycle.reservations import Reservations, continue_numbering
from spinney.core.scheduling.cycle.scheduling_queue import NominatedTo, Planned, QueuedGang, Refused
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Key
from spinney.core.scheduling.gang.demand import is_choosy
from spinney.core.scheduling.gang.growth import next_pods, raised, without_others
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.kept_room import KEPT_S, PodCapacity, Room
from spinney.core.scheduling.queues.tree import Refusal

_SEARCHES = 1
"""For so many gangs a cycle looks for moves, unless somebody asks for them; the others come one after the other."""
_NEXT_SEARCH_S = 1.0
_SLACK_S = 0.1  # a timer may be early by less
_GROWS_AGAIN_S = 10.0
"""So long after a pod beyond a minimum could be helped by disturbing nobody, that is not tried again."""


@dataclass(slots=True)
class PartialAllocation:
    """A gang whose minimum is reserved and which has more pods to place.

    `left`: those that may find a place still, by pod set; `denied`: why its queue does not admit some.
    """

    entry: QueuedGang
    decision: Decision
    places: list[Placement]
    left: Counter[str]
    denied: str = ""

    @property
    def planned(self) -> Counter[str]:
        return Counter(place.pods for place in self.places)

    def next_pods(self, most: int) -> Counter[str]:
        """What it asks for in its next turn."""
        assert self.entry.reading is not None
        return next_pods(self.entry.reading.gang, self.left, self.planned, most)


def place_or_preempt(
    placement: PlacementSession,
    preemptor: Preemptor,
    reading: ParsedGang,
    find_limits: Callable[[], Consolidate | None],
    followers: Sequence[Gang] = (),
) -> VictimSelection:
    """The engine is asked first; others are disturbed only for a gang that is proved not to fit beside them.

    `followers`: gangs that are to share its domain. Nobody is disturbed for them before it is their turn.
    """
    found = placement.minimum_of_set(reading.gang, followers)
    if found.decision.outcome != "infeasible":
        return VictimSelection(found.decision, followers=found.followers)
    return preemptor.select_victims(reading, find_limits(), found.decision)


class Allocator:
    """Decides one gang at a time over everything that a cycle has read."""

    def __init__(
        self,
        session: Session,
        gang_reader: GangReader,
        reservations: Reservations,
        nominated_plans: NominatedPlans,
        preemptor: Preemptor,
        reporter: GangReporter,
    ) -> None:
        self._session = session
        self._gang_reader = gang_reader
        self._reservations = reservations
        self._nominated_plans = nominated_plans
        self._preemptor = preemptor
        self._reporter = reporter
        self._decisions = 0
        self._searches = 0

    def begin_cycle(self) -> None:
        self._searches = 0

    def is_due_again(self, entry: QueuedGang) -> bool:
        """Whether the time is over for which it was too early to disturb others for it."""
        return entry.back_s is not None and entry.back_s <= self._session.clock.monotonic() + _SLACK_S

    def _limits(self, entry: QueuedGang) -> Consolidate | None:
        """How much may be moved for it now: at a request at once, by itself once in a while and for few in a cycle."""
        if entry.limits is None or entry.is_asked:
            return entry.limits
        now_s = self._session.clock.monotonic()
        is_early = entry.moves_from_s > now_s + _SLACK_S
        self._searches += not is_early
        if not is_early and self._searches <= _SEARCHES:
            entry.moves_from_s = now_s + self._session.settings.moves_every_s
            return entry.limits
        entry.moves_from_s = max(entry.moves_from_s, now_s + _NEXT_SEARCH_S * self._searches)
        self._come_back(entry, entry.moves_from_s - now_s)
        return None

    def _come_back(self, entry: QueuedGang, after_s: float) -> None:
        entry.back_s = self._session.clock.monotonic() + after_s
        self._session.requeue_after(entry.key, after_s)

    def decide_minimum(self, entry: QueuedGang, partials: dict[Key, PartialAllocation]) -> Action | None:
        """Place the minimum of a gang; one that has more pods to place is added to `partials`."""
        reading = self._gang_reader.with_affinity(entry)
        self._decisions += 1
        entry.decided, entry.back_s = self._decisions, None
        if not reading.gang.running:
            self._session.cluster.drop_room_of(entry.name)  # it is kept anew where the gang is placed now
        selection = self._choose(entry, reading)
        if isinstance(selection, Refusal):
            return self._refuse(entry, reading, selection)
        decision = selection.decision
        if decision.outcome != "placed":
            return self._refuse(entry, reading, decision)
        self._session.cluster.drop_room(entry.name, [place.node for place in decision.placements])
        self._reservations.reserve(entry, decision.placements)
        if selection.leaving:
            return self._preempt(entry, selection)
        if decision.waits:
            return self._nominate(entry, decision)
        if not entry.base and not reading.gang.running:
            self._keep_room(entry, reading, selection)
        places = list(decision.placements)
        placed = Counter(place.pods for place in places)
        left = +Counter({path: len(pods) - placed[path] for path, pods in reading.waiting.items()})
        if left:
            partials[entry.key] = PartialAllocation(entry, decision, places, left)
            return None
        return self._begin(entry, decision, places)

    def _keep_room(self, entry: QueuedGang, reading: ParsedGang, selection: VictimSelection) -> None:
        """Of a gang that starts: room for those that follow it once it is there."""
        for follower in followers_of(entry, reading, self._session.scheduling_queue, self._session.cluster):
            self._keep(entry, follower, selection.followers.get(follower.name, ()), KEPT_S)

    def keep_room_again(self, entry: QueuedGang, left_s: float) -> None:
        """Of a gang that started under another leader: what that one kept, or other room in the same domain."""
        assert entry.reading is not None
        for follower in followers_of(entry, entry.reading, self._session.scheduling_queue, self._session.cluster):
            decision = self._session.placement.minimum(follower)
            if decision.outcome == "placed" and not decision.waits:
                self._keep(entry, follower, decision.placements, left_s)

    def _keep(self, entry: QueuedGang, follower: Gang, places: Sequence[Placement], left_s: float) -> None:
        if not places:
            return
        sets, until_s = pod_sets(follower), self._session.clock.monotonic() + left_s
        capacities = tuple([PodCapacity(sets[place.pods].request, place.node, place.zone) for place in places])
        self._session.cluster.keep_room(Room(follower.name, entry.name, follower.priority, until_s, capacities))
        self._session.requeue_after(entry.key, left_s)

    def _choose(self, entry: QueuedGang, reading: ParsedGang) -> VictimSelection | Refusal:
        """The selection that the queue allows; where some children of a group suffice, cheaper subsets are tried too.

        So whether a gang is admitted does not depend on the free capacity for children that its queue refuses (LIVE4).
        """
        returned = self._return(entry, reading) if entry.homes else None
        if returned is not None:
            return returned
        found = self._decide(entry, reading)
        refusal = self._queue_objection(reading, found)
        if refusal is None:
            return found
        for less in self._session.queue_accounting.choices(reading):
            other = self._decide(entry, less)
            is_placed = isinstance(other, VictimSelection) and other.decision.outcome == "placed"
            if is_placed and self._queue_objection(less, other) is None:
                return other
        return refusal

    def _return(self, entry: QueuedGang, reading: ParsedGang) -> VictimSelection | None:
        """The replaced pods where their predecessors were, or as near as possible; None: there is no room (G13)."""
        session = self._session
        for near, may_wait in self._gang_reader.returning(entry):
            if session.queue_accounting.refusal(near) is not None:
                continue
            began_s = session.clock.monotonic()
            asking = beside_scaled_gangs(near, session.scheduling_queue.scaled_gangs(entry.name), session.cluster)
            followers = followers_of(entry, near, session.scheduling_queue, session.cluster)
            found = session.placement.minimum_of_set(asking.gang, followers)
            decision = found.decision
            if decision.outcome == "placed" and decision.placements and (may_wait or not decision.waits):
                self._reporter.count(decision, session.clock.monotonic() - began_s)
                return VictimSelection(_renumbered(decision, near, reading), followers=found.followers)
        return None

    def _queue_objection(self, reading: ParsedGang, found: VictimSelection | Refusal) -> Refusal | None:
        if isinstance(found, Refusal) or found.decision.outcome != "placed":
            return None
        return self._session.queue_accounting.objection(
            reading, found.decision.placements, self._gang_reader.charges(found.victims)
        )

    def _decide(self, entry: QueuedGang, reading: ParsedGang) -> VictimSelection | Refusal:
        """The placement of the minimum with its victims, or the queue's refusal where no victims would lift it."""
        refusal = self._session.queue_accounting.refusal(reading)
        preempts = refusal is not None and reading.preempts
        capacity = self._session.cluster.capacity
        queue_preemption = self._session.queue_accounting.queue_preemption(reading, capacity) if preempts else None
        if refusal is not None and queue_preemption is None:
            return refusal
        began_s = self._session.clock.monotonic()
        scaled_gangs = self._session.scheduling_queue.scaled_gangs(entry.name)
        asking = beside_scaled_gangs(reading, scaled_gangs, self._session.cluster)
        if queue_preemption is None:
            selection: VictimSelection | None = place_or_preempt(
                self._session.placement,
                self._preemptor,
                asking,
                partial(self._limits, entry),
                followers_of(entry, reading, self._session.scheduling_queue, self._session.cluster),
            )
        else:
            selection = self._preemptor.decide_over_limit(asking, self._limits(entry), queue_preemption)
        if selection is None:
            assert refusal is not None
            return refusal
        self._reporter.count(selection.decision, self._session.clock.monotonic() - began_s)
        return selection

    def decide_extras(self, allocation: PartialAllocation, most: int) -> Action | None:
        """A turn: place up to so many pods beyond the minimum, as far as capacity and the queue allow.

        Once no more find a place, the gang begins with what it has.
        """
        while allocation.left and not self._place_next(allocation, allocation.next_pods(most)):
            pass
        entry, places = allocation.entry, allocation.places
        if allocation.left:
            return None
        if places:
            return self._begin(entry, allocation.decision, places)
        act = self._disturb_for_extras(entry)
        if act is not None:
            return act
        self._session.scheduling_queue.apply(entry, Refused(self._session.cluster.improved))
        self._reporter.explain_placed(entry, allocation.decision, places, allocation.denied)
        return None

    def _disturb_for_extras(self, entry: QueuedGang) -> Action | None:
        """Others move, shrink or leave for the next pod beyond the minimum as they would if it were in the minimum."""
        reading, now_s = self._gang_reader.with_affinity(entry), self._session.clock.monotonic()
        waiting = {path: len(pods) for path, pods in reading.waiting.items() if pods}
        more = replace(reading, gang=raised(reading.gang, next_pods(reading.gang, waiting, {}, 1)))
        if is_choosy(reading.gang.root) or not self._preemptor.may_disturb(more, entry.limits):
            return None
        if now_s < entry.grows_from_s:
            self._come_back(entry, entry.grows_from_s - now_s)
            return None
        selection = self._decide(entry, more)
        if isinstance(selection, Refusal) or not selection.leaving:
            entry.grows_from_s = now_s + _GROWS_AGAIN_S
            return None
        self._reservations.reserve(entry, selection.decision.placements)
        return self._preempt(entry, selection)

    def _place_next(self, allocation: PartialAllocation, asked: Counter[str]) -> bool:
        """Whether any of these pods found a place; those that found none are not asked for again in this cycle."""
        entry, left = allocation.entry, allocation.left
        more, allowed, denied = self._place_extras(allocation, asked)
        allocation.denied = denied or allocation.denied
        chosen: list[Placement] = []
        if more is not None and more.outcome == "placed" and not more.waits:
            chosen = [place for place in more.placements if place.index < allowed[place.pods]]
            allocation.decision = more
            before = len(allocation.places)
            allocation.places += continue_numbering(allocation.places, chosen)
            self._reservations.reserve(entry, allocation.places[before:])
        given = Counter(place.pods for place in chosen)
        lacking = {path for path, count in asked.items() if given[path] < count}
        allocation.left = +Counter({path: n - given[path] for path, n in left.items() if path not in lacking})
        return bool(chosen)

    def _place_extras(
        self, allocation: PartialAllocation, asked: Counter[str]
    ) -> tuple[Decision | None, Counter[str], str]:
        """The placement, what the queue allows of what is asked by pod set, and why nothing.

        Pods without room leave their share of the queue to those that have some: else whether these are placed would
        depend on who asks for the quota first (LIVE4).
        """
        reading, left = allocation.entry.reading, asked
        assert reading is not None
        gang = self._gang_reader.with_affinity(allocation.entry).gang
        if is_choosy(gang.root):
            gang = without_others(gang, asked, allocation.planned)
        planned = tuple([Running(place.pods, place.node, place.zone) for place in allocation.places])
        allowed, denied = self._session.queue_accounting.allowance(reading, left)
        more: Decision | None = None
        for _ in range(len(left) + 1):
            if not allowed:
                break
            more = self._session.placement.extras(gang, planned, allowed if allowed != allocation.left else None)
            is_placed = more.outcome == "placed" and not more.waits
            placed = Counter(place.pods for place in more.placements) if is_placed else Counter[str]()
            lacking = [path for path, count in allowed.items() if placed[path] < count]
            if allowed == left or not lacking:
                break
            left = +Counter({**left, **{path: placed[path] for path in lacking}})
            allowed, denied = self._session.queue_accounting.allowance(reading, left)
        return more, allowed, denied

    def _begin(self, entry: QueuedGang, decision: Decision, places: list[Placement]) -> Action:
        self._session.scheduling_queue.apply(entry, Planned())
        self._reporter.forget(entry)
        return StartPlan(entry.key, self._reservations.plan_task(entry, decision, places))

    def _preempt(self, entry: QueuedGang, selection: VictimSelection) -> Action:
        """Nominate a plan with victims: it is recorded before the first of them is evicted."""
        assert entry.reading is not None
        self._reporter.explain(entry, entry.reading, selection.decision)
        return self._nominated_plans.nominate(entry, selection)

    def _nominate(self, entry: QueuedGang, decision: Decision) -> Action | None:
        """Keep the reserved nodes until the pods that terminate there are gone; no other gang gets them meanwhile."""
        assert entry.reading is not None
        self._session.scheduling_queue.apply(entry, NominatedTo(self._session.cluster.improved))
        self._reporter.explain(entry, entry.reading, decision)
        return None

    def _refuse(self, entry: QueuedGang, reading: ParsedGang, why: Decision | Refusal) -> Action | None:
        self._session.scheduling_queue.apply(entry, Refused(self._session.cluster.improved))
        self._reporter.explain(entry, reading, why)
        return None


def _renumbered(decision: Decision, of: ParsedGang, by: ParsedGang) -> Decision:
    """A decision on one reading of a gang, with the pod sets and indices that its pods have in another."""
    found = {pod.uid: (path, index) for path, pods in by.waiting.items() for index, pod in enumerate(pods)}
    places = []
    for place in decision.placements:
        path, index = found[of.waiting[place.pods][place.index].uid]
        places.append(Placement(path, index, place.node, place.zone))
    return msgspec.structs.replace(decision, placements=tuple(sorted(places, key=lambda each: (each.pods, each.index))))
