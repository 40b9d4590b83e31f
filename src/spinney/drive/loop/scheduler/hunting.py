"""Room for a gang that fits nowhere: who could be moved, who would have to go, and who must be left alone.

Asks the engine and names pods; writes nothing and evicts nobody. Nobody is named whom a disruption budget protects, who
is part of a plan that is being carried out, who has run too short a time for its queue, or who is as important as the
gang that asks (INV7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.policy import PodDisruptionBudget
from spinney.api.placement.problem import Consolidate, Gang, Options
from spinney.api.placement.result import Decision
from spinney.core.scheduling.bonds import has_terms
from spinney.core.scheduling.budgets import Budgets
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import GangReading
from spinney.core.scheduling.members import order
from spinney.core.scheduling.queue_relief import Tenant
from spinney.core.scheduling.zones import zone_of
from spinney.drive.loop.scheduler.deciding import Decider, Places
from spinney.drive.loop.scheduler.relieving import Relief
from spinney.drive.loop.scheduler.views import group_of

_TRIES = 8
"""So often victims are chosen anew when budgets do not allow all of them together."""

Spot = tuple[str, str, str, str]
"""Members alike: gang, pod set, node, zone."""


@dataclass(frozen=True, slots=True)
class Prey:
    """A decision, and the pods it is about: who goes for good, and who goes to which other node."""

    decision: Decision
    victims: tuple[Pod, ...] = ()
    moves: tuple[tuple[Pod, str], ...] = ()

    @property
    def leaving(self) -> tuple[Pod, ...]:
        return (*self.victims, *(pod for pod, _ in self.moves))


@dataclass(frozen=True, slots=True)
class Stander:
    """A gang that stands, as far as it may be disturbed. `in_flight`: a plan of it is being carried out.

    `look` shows its pods. `is_young`: it may be moved, but not preempted yet.
    """

    reading: GangReading
    look: Callable[[], Sequence[Pod]]
    in_flight: bool = False
    is_young: Callable[[], bool] = lambda: False

    @property
    def going(self) -> list[Pod]:
        """Members in the order in which they are given up: the last one first."""
        live = [pod for pod in self.look() if pod.spec.node_name and pod.metadata.deletion_timestamp is None]
        return sorted(live, key=order, reverse=True)


class Hunter:
    """`budgets` are those there are whenever they are looked at.

    `stander` answers with a gang by its name; None: it is not known (any more).
    """

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudget],
        cluster: Cluster,
        decider: Decider,
        options: Options,
        stander: Callable[[str], Stander | None],
    ) -> None:
        self._budgets = budgets
        self._cluster = cluster
        self._decider = decider
        self._options = options
        self._stander = stander

    def decide(self, reading: GangReading, limits: Consolidate | None) -> Prey:
        """Where the minimum goes; at the cost of others only if there is no other way."""
        gang = reading.gang
        preempts = reading.preempts and self._decider.has_weaker(gang)
        if not preempts and limits is None:
            return Prey(self._decider.minimum(gang))
        known = self._decider.known_refusal(gang, limits)
        if known is not None:
            return Prey(known)
        found = Prey(self._decider.minimum(gang)) if limits is not None else None
        if found is not None and found.decision.outcome != "infeasible":
            return found
        if limits is not None:
            found = self._ask(reading, msgspec.structs.replace(self._options, consolidate=limits))
        if preempts and (found is None or found.decision.outcome != "placed"):
            found = self._ask(reading, msgspec.structs.replace(self._options, preempt=True))
        found = found or Prey(self._decider.minimum(gang))
        self._decider.refuse(gang, limits, found.decision)
        return found

    def relieve(self, reading: GangReading, limits: Consolidate | None, relief: Relief) -> Prey | None:
        """Where the minimum goes once less important gangs have left its queue; None: it gets in by nobody's leaving.

        Others are disturbed for room, wherever they are, only if what those leave is not enough.
        """
        gang, state = reading.gang, (relief.asked.queue, relief.eased)
        if self._decider.is_vain(gang, *state):
            return None
        for changes in ({}, {"consolidate": limits}, {"preempt": True}) if limits is not None else ({"preempt": True},):
            found = self._ask(reading, msgspec.structs.replace(self._options, **changes), relief)
            if found is not None:
                return found
        self._decider.note_vain(gang, *state)
        return None

    def kept(self, gang: Gang) -> dict[str, Places]:
        """Members that may not be moved for a gang, by the name of theirs."""
        return self._kept(gang, Budgets(self._budgets, self._cluster.doomed), set(), True)[1]

    def _ask(self, reading: GangReading, options: Options, relief: Relief | None = None) -> Prey | None:
        """Whoever is over the budget is left alone in the next try, and whom it has to be near to from the first.

        None: budgets allow nothing that would help, or relief is wanted and nobody's leaving brings it.
        """
        gang, budgets = reading.gang, Budgets(self._budgets, self._cluster.doomed)
        spared = self._dear(reading)
        for _ in range(_TRIES):
            kept, fixed = self._kept(gang, budgets, spared, options.consolidate is not None)
            if relief is None:
                decision: Decision | None = self._decider.disturbing(gang, options, fixed)
            else:
                decision = self._relieved(gang, options, fixed, relief)
            if decision is None:
                return None
            prey = self._prey(decision, kept)
            over = budgets.protected(prey.leaving)
            if not over:
                return self._whole(prey)
            spared |= over
        return None

    def _relieved(self, gang: Gang, options: Options, fixed: Mapping[str, Places], relief: Relief) -> Decision | None:
        """The places that a gang gets once those have left whom the limit does not allow beside it."""
        tenants = self._tenants(gang, fixed, relief)
        gone = relief.victims(tenants)
        if gone is None:
            return None
        decision = self._decider.disturbing(gang, options, fixed, gone)
        if decision.outcome != "placed":
            return None
        more = Counter(each.gang for each in decision.victims) - Counter(each.gang for each in gone)
        for name in {each.gang: None for each in gone if each.gang not in more} if more else ():
            rest = [each for each in decision.victims if each.gang != name]
            if relief.allows(tenants, rest):
                less = self._decider.disturbing(gang, self._options, fixed, rest)
                decision = less if less.outcome == "placed" else decision
        return decision

    def _tenants(self, gang: Gang, fixed: Mapping[str, Places], relief: Relief) -> list[Tenant]:
        """Less important gangs of the queues that the limit is about."""
        base = gang.tied_to.gang if gang.tied_to is not None else ""
        weaker = [each.name for each in self._decider.preemptible() if each.priority < gang.priority]
        standers = {name: stander for name in weaker if (stander := self._stander(name)) is not None}
        queues = {name: stander.reading.queue for name, stander in standers.items()}
        inside = [name for name, queue in queues.items() if queue in relief.inside]
        return [
            Tenant(holder, queues[holder.gang.name], stays=holder.gang.name == base)
            for holder in self._decider.holders(inside, fixed)
        ]

    def _kept(self, gang: Gang, budgets: Budgets, spared: set[str], moves: bool) -> tuple[set[str], dict[str, Places]]:
        """Members that stay: their uids, and their places by gang."""
        kept: set[str] = set()
        fixed: dict[str, Places] = {}
        for other in self._decider.preemptible():
            if other.name == gang.name or (not moves and other.priority >= gang.priority):
                continue
            stander = self._stander(other.name)
            if (
                stander is None
                or stander.in_flight
                or other.priority > gang.priority
                or (not moves and stander.is_young())
            ):
                fixed[other.name] = self._decider.places(other.name)
                continue
            if not (budgets or moves or spared):
                continue
            going, members = stander.going, stander.reading.members
            stay = (self._stay(going, budgets, moves) | spared) & members.keys()
            mine = {pod.metadata.uid: pod for pod in going if pod.metadata.uid in stay}
            if mine:
                kept.update(mine)
                fixed[other.name] = [(members[uid], self._slot(pod)) for uid, pod in mine.items()]
        return kept, fixed

    def _dear(self, reading: GangReading) -> set[str]:
        """Pods that the gang has to be near to, or that are like them."""
        near = [bonds.near for bonds in reading.bonds.values() if bonds.near]
        return {
            pod.metadata.uid
            for other in (self._decider.preemptible() if near else ())
            if (stander := self._stander(other.name)) is not None
            for pod in stander.going
            if any(all(bond.choice.selects(*_about(pod)) for bond in bonds) for bonds in near)
        }

    def _stay(self, going: Sequence[Pod], budgets: Budgets, moves: bool) -> set[str]:
        """Protected members; and where pods are to be moved, those that nobody would make anew or take anywhere."""
        fixed = {pod.metadata.uid for pod in going if self._is_fixed(pod)} if moves else set()
        return fixed | budgets.protected(going)

    def _is_fixed(self, pod: Pod) -> bool:
        return pod.metadata.controller is None or has_terms(pod) or self._cluster.neighbours.repels(pod)

    def _slot(self, pod: Pod) -> int:
        return self._cluster.inventory.seat(pod.spec.node_name, zone_of(pod))

    def _prey(self, decision: Decision, kept: set[str]) -> Prey:
        """Pods for the places that a decision names; of equal ones those go first that came last."""
        taken: set[str] = set()

        def choose(spot: Spot) -> Pod:
            stander = self._stander(spot[0])
            assert stander is not None
            for pod in stander.going:
                uid = pod.metadata.uid
                is_there = (stander.reading.members.get(uid), pod.spec.node_name, zone_of(pod)) == spot[1:]
                if is_there and uid not in taken and uid not in kept:
                    taken.add(uid)
                    return pod
            raise LookupError(f"no pod of {spot[0]} is left at {spot[1]} on {spot[2]}")

        victims = [choose((each.gang, each.pods, each.node, each.zone)) for each in decision.victims]
        moves = [
            (choose((each.gang, each.pods, each.source, each.source_zone)), each.target) for each in decision.moves
        ]
        return Prey(decision, tuple(victims), tuple(moves))

    def _whole(self, prey: Prey) -> Prey:
        """Whoever takes the last members of a gang takes those as well who have to go for others.

        The plan of those others may never be recorded, or be given up: then what it was to take would be left behind,
        below its minimum (INV7). So each plan is lawful by itself.
        """
        taken = {pod.metadata.uid for pod in prey.leaving}
        fallen = {each.gang for each in prey.decision.victims if self._is_last(each.gang, taken)}
        rest = [pod for pod in self._cluster.doomed if "/".join(group_of(pod)) in fallen] if fallen else []
        return replace(prey, victims=(*prey.victims, *rest))

    def _is_last(self, name: str, taken: set[str]) -> bool:
        """Whether nobody of a gang stays but who has to go for others."""
        stander = self._stander(name)
        return stander is not None and all(
            pod.metadata.uid in taken for pod in stander.going if pod.metadata.uid in stander.reading.members
        )


def _about(pod: Pod) -> tuple[str, dict[str, str]]:
    return pod.metadata.namespace, pod.metadata.labels
