"""The allocate action: gangs that are due get nodes or the reason why not; minimums first, then pods beyond them.

Makes no write: it reserves the assignments and returns the action to carry out. Pods become victims only for a gang
that is placed by their eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.kept_room import KEPT_S, PodCapacity, Room
from spinney.core.scheduling.queues.tree import Refusal


@dataclass(slots=True)
class PartialAllocation:
    """A gang whose minimum is reserved and which has more pods to place."""

    entry: QueuedGang
    decision: Decision
    places: list[Placement]


def place_or_preempt(
    placement: PlacementSession,
    preemptor: Preemptor,
    reading: ParsedGang,
    limits: Consolidate | None,
    followers: Sequence[Gang] = (),
) -> VictimSelection:
    """The engine is asked first; others are disturbed only for a gang that is proved not to fit beside them.

    `followers`: gangs that are to share its domain. Nobody is disturbed for them before it is their turn.
    """
    found = placement.minimum_of_set(reading.gang, followers)
    if found.decision.outcome != "infeasible":
        return VictimSelection(found.decision, followers=found.followers)
    return preemptor.select_victims(reading, limits, found.decision)


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

    def decide_minimum(self, entry: QueuedGang, partials: list[PartialAllocation]) -> Action | None:
        """Place the minimum of a gang; one that has more pods to place is appended to `partials`."""
        reading = self._gang_reader.with_affinity(entry)
        self._decisions += 1
        entry.decided = self._decisions
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
        if len(places) < sum(map(len, reading.waiting.values())):
            partials.append(PartialAllocation(entry, decision, places))
            return None
        return self._begin(entry, decision, places)

    def _keep_room(self, entry: QueuedGang, reading: ParsedGang, selection: VictimSelection) -> None:
        """Of a gang that starts: room for those that follow it once it is there."""
        until_s = self._session.clock.monotonic() + KEPT_S
        for follower in followers_of(entry, reading, self._session.scheduling_queue, self._session.cluster):
            places, sets = selection.followers.get(follower.name), pod_sets(follower)
            if places:
                capacities = tuple([PodCapacity(sets[place.pods].request, place.node, place.zone) for place in places])
                room = Room(follower.name, entry.name, reading.gang.priority, until_s, capacities)
                self._session.cluster.keep_room(room)
                self._session.requeue_after(entry.key, KEPT_S)

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
                entry.limits,
                followers_of(entry, reading, self._session.scheduling_queue, self._session.cluster),
            )
        else:
            selection = self._preemptor.decide_over_limit(asking, entry.limits, queue_preemption)
        if selection is None:
            assert refusal is not None
            return refusal
        self._reporter.count(selection.decision, self._session.clock.monotonic() - began_s)
        return selection

    def decide_extras(self, allocation: PartialAllocation) -> Action | None:
        """Place the pods beyond the minimum, as far as capacity and the queue allow."""
        entry, decision, places = allocation.entry, allocation.decision, list(allocation.places)
        reading = entry.reading
        assert reading is not None
        given = Counter(place.pods for place in places)
        left = Counter({path: len(pods) - given[path] for path, pods in reading.waiting.items()})
        more, allowed, denied = self._place_extras(entry, places, left)
        if more is not None and more.outcome == "placed" and not more.waits:
            chosen = [place for place in more.placements if place.index < allowed[place.pods]]
            decision, places = more, places + continue_numbering(places, chosen)
            self._reservations.reserve(entry, places[len(allocation.places) :])
        if places:
            return self._begin(entry, decision, places)
        self._session.scheduling_queue.apply(entry, Refused(self._session.cluster.improved))
        self._reporter.explain_placed(entry, decision, places, denied)
        return None

    def _place_extras(
        self, entry: QueuedGang, places: Sequence[Placement], left: Counter[str]
    ) -> tuple[Decision | None, Counter[str], str]:
        """The placement, what the queue allows of `left` by pod set, and why nothing.

        Pods without room leave their share of the queue to those that have some: else whether these are placed would
        depend on who asks for the quota first (LIVE4).
        """
        assert entry.reading is not None
        gang = self._gang_reader.with_affinity(entry).gang
        planned = tuple([Running(place.pods, place.node, place.zone) for place in places])
        allowed, denied = self._session.queue_accounting.allowance(entry.reading, left)
        more: Decision | None = None
        for _ in range(len(left) + 1):
            if not allowed:
                break
            more = self._session.placement.extras(gang, planned, allowed if allowed != left else None)
            is_placed = more.outcome == "placed" and not more.waits
            placed = Counter(place.pods for place in more.placements) if is_placed else Counter[str]()
            lacking = [path for path, count in allowed.items() if placed[path] < count]
            if allowed == left or not lacking:
                break
            left = +Counter({**left, **{path: placed[path] for path in lacking}})
            allowed, denied = self._session.queue_accounting.allowance(entry.reading, left)
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
