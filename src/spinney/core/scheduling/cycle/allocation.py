"""The allocate action: gangs that are due get nodes or the reason why not; minimums first, then pods beyond them.

Makes no write: it reserves the assignments and returns the action to carry out. Pods become victims only for a gang
that is placed by their eviction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kube_apimachinery.clock import Clock
from spinney.api.placement.problem import Running
from spinney.api.placement.result import Decision, Placement
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.actions import Action, StartPlan
from spinney.core.scheduling.cycle.gang_reader import GangReader, beside_scaled_gangs
from spinney.core.scheduling.cycle.gang_reporter import GangReporter
from spinney.core.scheduling.cycle.nominated_plans import NominatedPlans
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.preemption import Preemptor, VictimSelection
from spinney.core.scheduling.cycle.queue_accounting import QueueAccounting
from spinney.core.scheduling.cycle.reservations import Reservations, continue_numbering
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import DecisionMetrics
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.tree import Refusal


@dataclass(slots=True)
class PartialAllocation:
    """A gang whose minimum is reserved and which has more pods to place."""

    entry: GangState
    decision: Decision
    places: list[Placement]


class Allocator:
    """Decides one gang at a time over everything that a cycle has read."""

    def __init__(
        self,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        gang_reader: GangReader,
        queue_accounting: QueueAccounting,
        session: PlacementSession,
        preemptor: Preemptor,
        reservations: Reservations,
        nominated_plans: NominatedPlans,
        reporter: GangReporter,
        clock: Clock,
        metrics: DecisionMetrics,
    ) -> None:
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._gang_reader = gang_reader
        self._queue_accounting = queue_accounting
        self._session = session
        self._preemptor = preemptor
        self._reservations = reservations
        self._nominated_plans = nominated_plans
        self._reporter = reporter
        self._clock = clock
        self._metrics = metrics
        self._decisions = 0

    def decide_minimum(self, entry: GangState, partials: list[PartialAllocation]) -> Action | None:
        """Place the minimum of a gang; one that has more pods to place is appended to `partials`."""
        reading = self._gang_reader.with_affinity(entry)
        self._decisions += 1
        entry.decided = self._decisions
        selection = self._choose(entry, reading)
        if isinstance(selection, Refusal):
            return self._refuse(entry, reading, selection)
        decision = selection.decision
        if decision.outcome != "placed":
            return self._refuse(entry, reading, decision)
        self._reservations.reserve(entry, decision.placements)
        if selection.leaving:
            return self._preempt(entry, selection)
        if decision.waits:
            return self._nominate(entry, decision)
        places = list(decision.placements)
        if len(places) < sum(map(len, reading.waiting.values())):
            partials.append(PartialAllocation(entry, decision, places))
            return None
        return self._begin(entry, decision, places)

    def _choose(self, entry: GangState, reading: ParsedGang) -> VictimSelection | Refusal:
        """The selection that the queue allows; where some children of a group suffice, cheaper subsets are tried too.

        So whether a gang is admitted does not depend on the free capacity for children that its queue refuses (LIVE4).
        """
        found = self._decide_with_victims(entry, reading)
        refusal = self._queue_objection(reading, found)
        if refusal is None:
            return found
        for less in self._queue_accounting.choices(reading):
            other = self._decide_with_victims(entry, less)
            is_placed = isinstance(other, VictimSelection) and other.decision.outcome == "placed"
            if is_placed and self._queue_objection(less, other) is None:
                return other
        return refusal

    def _queue_objection(self, reading: ParsedGang, found: VictimSelection | Refusal) -> Refusal | None:
        if isinstance(found, Refusal) or found.decision.outcome != "placed":
            return None
        return self._queue_accounting.objection(
            reading, found.decision.placements, self._gang_reader.charges(found.victims)
        )

    def _decide_with_victims(self, entry: GangState, reading: ParsedGang) -> VictimSelection | Refusal:
        """The placement of the minimum with its victims, or the queue's refusal where no victims would lift it."""
        refusal = self._queue_accounting.refusal(reading)
        preempts = refusal is not None and reading.preempts and self._session.has_lower_priority(reading.gang)
        queue_preemption = self._queue_accounting.queue_preemption(reading) if preempts else None
        if refusal is not None and queue_preemption is None:
            return refusal
        began_s = self._clock.monotonic()
        asking = beside_scaled_gangs(reading, self._scheduling_queue.scaled_gangs(entry.name), self._cluster)
        if queue_preemption is None:
            selection: VictimSelection | None = self._preemptor.decide(asking, entry.limits)
        else:
            selection = self._preemptor.decide_over_limit(asking, entry.limits, queue_preemption)
        if selection is None:
            assert refusal is not None
            return refusal
        self._metrics.decided(selection.decision.outcome, self._clock.monotonic() - began_s)
        return selection

    def decide_extras(self, allocation: PartialAllocation) -> Action | None:
        """Place the pods beyond the minimum, as far as capacity and the queue allow."""
        entry, decision, places = allocation.entry, allocation.decision, list(allocation.places)
        reading = entry.reading
        assert reading is not None
        given = Counter(place.pods for place in places)
        left = Counter({path: len(pods) - given[path] for path, pods in reading.waiting.items()})
        allowed, denied = self._queue_accounting.allowance(reading, left)
        if allowed:
            planned = tuple([Running(place.pods, place.node, place.zone) for place in places])
            more = self._session.extras(self._gang_reader.with_affinity(entry).gang, planned)
            if more.outcome == "placed" and not more.waits:
                chosen = [place for place in more.placements if place.index < allowed[place.pods]]
                decision, places = more, places + continue_numbering(places, chosen)
                self._reservations.reserve(entry, places[len(allocation.places) :])
        if places:
            return self._begin(entry, decision, places)
        self._scheduling_queue.refuse(entry, self._cluster.improved)
        self._reporter.explain_placed(entry, decision, places, denied)
        return None

    def _begin(self, entry: GangState, decision: Decision, places: list[Placement]) -> Action:
        self._scheduling_queue.dequeue(entry)
        self._reporter.forget(entry)
        entry.in_flight = True
        return StartPlan(entry.key, self._reservations.plan_task(entry, decision, places))

    def _preempt(self, entry: GangState, selection: VictimSelection) -> Action:
        """Nominate a plan with victims: it is recorded before the first of them is evicted."""
        assert entry.reading is not None
        entry.in_flight = True
        self._reporter.explain(entry, entry.reading, selection.decision)
        return self._nominated_plans.nominate(entry, selection)

    def _nominate(self, entry: GangState, decision: Decision) -> Action | None:
        """Keep the reserved nodes until the pods that terminate there are gone; no other gang gets them meanwhile."""
        assert entry.reading is not None
        self._scheduling_queue.refuse(entry, self._cluster.improved)
        self._scheduling_queue.nominated[entry.key] = None
        self._reporter.explain(entry, entry.reading, decision)
        return None

    def _refuse(self, entry: GangState, reading: ParsedGang, why: Decision | Refusal) -> Action | None:
        self._scheduling_queue.refuse(entry, self._cluster.improved)
        self._reporter.explain(entry, reading, why)
        return None
