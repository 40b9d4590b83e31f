"""Gangs whose turn it is get their places, or are told why not: minimums, and pods beyond them.

Writes nothing: it reserves what it gives out, and answers with what is to be done. Nobody is asked to leave but for a
gang that gets its places by that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from spinney.api.clock import Clock
from spinney.api.placement.problem import Running
from spinney.api.placement.result import Decision, Placement
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import GangReading
from spinney.core.scheduling.queues import Refusal
from spinney.drive.loop.scheduler.acts import Act, Begin
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.following import following
from spinney.drive.loop.scheduler.hunting import Hunter, Prey
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.mustering import Muster
from spinney.drive.loop.scheduler.ordering import Ordering
from spinney.drive.loop.scheduler.pursuing import Pursuit
from spinney.drive.loop.scheduler.seating import Seating, follow
from spinney.drive.loop.scheduler.telling import Teller


@dataclass(slots=True)
class Draft:
    """A gang whose minimum has its places, and which has more pods."""

    entry: Entry
    decision: Decision
    places: list[Placement]


class Assigner:
    """Decides one gang at a time over everything that a cycle has read."""

    def __init__(
        self,
        cluster: Cluster,
        book: Book,
        muster: Muster,
        ordering: Ordering,
        decider: Decider,
        hunter: Hunter,
        seating: Seating,
        pursuit: Pursuit,
        teller: Teller,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._cluster = cluster
        self._book = book
        self._muster = muster
        self._ordering = ordering
        self._decider = decider
        self._hunter = hunter
        self._seating = seating
        self._pursuit = pursuit
        self._teller = teller
        self._clock = clock
        self._metrics = metrics
        self._decisions = 0

    def decide_minimum(self, entry: Entry, drafts: list[Draft]) -> Act | None:
        """A gang that has its minimum and more pods becomes a draft."""
        reading = self._muster.among(entry)
        self._decisions += 1
        entry.decided = self._decisions
        prey = self._choose(entry, reading)
        if isinstance(prey, Refusal):
            return self._refuse(entry, reading, prey)
        decision = prey.decision
        if decision.outcome != "placed":
            return self._refuse(entry, reading, decision)
        self._seating.reserve(entry, decision.placements)
        if prey.leaving:
            return self._preempt(entry, prey)
        if decision.waits:
            return self._nominate(entry, decision)
        places = list(decision.placements)
        if len(places) < sum(map(len, reading.waiting.values())):
            drafts.append(Draft(entry, decision, places))
            return None
        return self._begin(entry, decision, places)

    def _choose(self, entry: Entry, reading: GangReading) -> Prey | Refusal:
        """What the queue allows: where some children of a group suffice, others than the best ones may ask for less.

        So whether a gang gets in does not depend on how much room there is for what its queue refuses (LIVE4).
        """
        found = self._hunt(entry, reading)
        refusal = self._objection(reading, found)
        if refusal is None:
            return found
        for less in self._ordering.choices(reading):
            other = self._hunt(entry, less)
            is_placed = isinstance(other, Prey) and other.decision.outcome == "placed"
            if is_placed and self._objection(less, other) is None:
                return other
        return refusal

    def _objection(self, reading: GangReading, found: Prey | Refusal) -> Refusal | None:
        if isinstance(found, Refusal) or found.decision.outcome != "placed":
            return None
        return self._ordering.objection(reading, found.decision.placements, self._muster.charges(found.victims))

    def _hunt(self, entry: Entry, reading: GangReading) -> Prey | Refusal:
        """Where the minimum goes and who has to leave for it, or why the queue will not have it whoever leaves."""
        refusal = self._ordering.refusal(reading)
        preempts = refusal is not None and reading.preempts and self._decider.has_weaker(reading.gang)
        relief = self._ordering.relief(reading) if preempts else None
        if refusal is not None and relief is None:
            return refusal
        began_s = self._clock.monotonic()
        asking = following(reading, self._book.followers(entry.name), self._cluster)
        if relief is None:
            prey: Prey | None = self._hunter.decide(asking, entry.limits)
        else:
            prey = self._hunter.relieve(asking, entry.limits, relief)
        if prey is None:
            assert refusal is not None
            return refusal
        self._metrics.decided(prey.decision.outcome, self._clock.monotonic() - began_s)
        return prey

    def decide_extras(self, draft: Draft) -> Act | None:
        """Whatever is beyond the minimum, as far as there is room for it and its queue allows."""
        entry, decision, places = draft.entry, draft.decision, list(draft.places)
        reading = entry.reading
        assert reading is not None
        given = Counter(place.pods for place in places)
        left = Counter({path: len(pods) - given[path] for path, pods in reading.waiting.items()})
        allowed, denied = self._ordering.allowance(reading, left)
        if allowed:
            planned = tuple([Running(place.pods, place.node, place.zone) for place in places])
            more = self._decider.extras(self._muster.among(entry).gang, planned)
            if more.outcome == "placed" and not more.waits:
                chosen = [place for place in more.placements if place.index < allowed[place.pods]]
                decision, places = more, places + follow(places, chosen)
                self._seating.reserve(entry, places[len(draft.places) :])
        if places:
            return self._begin(entry, decision, places)
        self._book.refuse(entry, self._cluster.improved)
        self._teller.explain_placed(entry, decision, places, denied)
        return None

    def _begin(self, entry: Entry, decision: Decision, places: list[Placement]) -> Act:
        self._book.rest(entry)
        self._teller.forget(entry)
        entry.in_flight = True
        return Begin(entry.key, self._seating.errand(entry, decision, places))

    def _preempt(self, entry: Entry, prey: Prey) -> Act:
        """Others have to leave for it: that is recorded before the first of them is asked to."""
        assert entry.reading is not None
        entry.in_flight = True
        self._teller.explain(entry, entry.reading, prey.decision)
        return self._pursuit.nominate(entry, prey)

    def _nominate(self, entry: Entry, decision: Decision) -> Act | None:
        """Its places are chosen, but others have to leave first; nobody else gets them meanwhile."""
        assert entry.reading is not None
        self._book.refuse(entry, self._cluster.improved)
        self._book.nominated[entry.key] = None
        self._teller.explain(entry, entry.reading, decision)
        return None

    def _refuse(self, entry: Entry, reading: GangReading, why: Decision | Refusal) -> Act | None:
        self._book.refuse(entry, self._cluster.improved)
        self._teller.explain(entry, reading, why)
        return None
