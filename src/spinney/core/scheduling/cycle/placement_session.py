"""The one engine over the cluster's inventory: each question is a trial, and nothing of it stays but the answer.

`placed_gangs` are the members that the caches show on their nodes. A gang of which nothing runs ties nobody; where some
of it runs, those of its members that have been given a node count as well (G12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from spinney.api.placement.problem import Consolidate, Gang, Group, Options, Running
from spinney.api.placement.result import Decision, Victim
from spinney.core.placement.engine import Engine, PlacedGang
from spinney.core.placement.gang.running_gangs import RunningGang, forget, pod_sets, release, running_gangs
from spinney.core.placement.gang.tied_gangs import is_beside
from spinney.core.scheduling.cluster import Cluster

MOST_REFUSALS = 4096

Places = Sequence[tuple[str, int]]
"""Members of a gang: path of the pod set and slot of the node."""


class PlacementSession:
    """Asks the engine. A gang like one that was refused is refused at once until there may be more room."""

    def __init__(
        self,
        cluster: Cluster,
        strategy: str,
        budget: int,
        reserved: Callable[[str], Iterable[str]] = lambda name: (),
    ) -> None:
        """`reserved`: uids of the pods of a gang, by its name, that have been given a node."""
        self._cluster = cluster
        self._reserved = reserved
        self._minimum = Options(strategy=strategy, budget=budget, extras="weigh")
        self._everything = Options(strategy=strategy, budget=budget, extras="place")
        self._generation = -1
        self._engine = Engine(cluster.inventory, cluster.topologies, self._minimum)
        self._refusals: dict[tuple[Group, int | None, Consolidate | None], Decision] = {}
        self._futile: set[tuple[Group, int, str, int]] = set()
        self._improved = -1
        self._gangs: dict[str, Gang] = {}
        self._preemptible: Counter[int] = Counter()  # gangs that stand and may be preempted, by priority

    @property
    def options(self) -> Options:
        """What minimums are asked with."""
        return self._minimum

    @property
    def engine(self) -> Engine:
        return self._engine

    def renew(self) -> bool:
        """Begin anew where inventory or topologies are new ones; then nobody stands anywhere yet."""
        self._cluster.settle()
        if self._generation == self._cluster.generation:
            return False
        self._generation = self._cluster.generation
        self._engine = Engine(self._cluster.inventory, self._cluster.topologies, self._minimum)
        self._refusals.clear()
        self._futile.clear()
        self._gangs.clear()
        self._preemptible.clear()
        return True

    @property
    def is_current(self) -> bool:
        return self._generation == self._cluster.generation and not self._cluster.is_outgrown

    def put_gang(self, gang: Gang) -> None:
        """Where the members of a gang are, for itself and for those tied to it."""
        self.forget(gang.name)
        self._gangs[gang.name] = gang
        if gang.preemptible and gang.running:
            self._preemptible[gang.priority] += 1
        seat = self._cluster.inventory.seat
        self._engine.placed_gangs[gang.name] = PlacedGang(
            gang, [(member.pods, seat(member.node, member.zone)) for member in gang.running]
        )

    def forget(self, name: str) -> None:
        self._engine.placed_gangs.pop(name, None)
        gang = self._gangs.pop(name, None)
        if gang is not None and gang.preemptible and gang.running:
            self._preemptible[gang.priority] -= 1
            self._preemptible += Counter()  # only what is there

    def has_lower_priority(self, gang: Gang) -> bool:
        """Whether somebody less important stands anywhere."""
        return bool(self._preemptible) and min(self._preemptible) < gang.priority

    def preemptible(self) -> list[Gang]:
        """Gangs that stand and may be disturbed."""
        return [each for each in self._gangs.values() if each.preemptible and each.running]

    def places(self, name: str) -> Places:
        """Where the members of a gang are."""
        return self._engine.placed_gangs[name].live

    def is_beside_its_base(self, gang: Gang, seats: Iterable[tuple[str, str]]) -> bool:
        """Whether places (node and zone) of a gang are where members of the gang are that it is tied to."""
        inventory = self._cluster.inventory
        slots = [inventory.seat(node, zone) for node, zone in seats if inventory.find(node) is not None]
        return is_beside(gang, inventory, self._engine.placed_gangs, slots)

    def known_refusal(self, gang: Gang, limits: Consolidate | None) -> Decision | None:
        """What a gang like this one, which might have disturbed others within the same limits, was told last."""
        self._drop_outdated()
        known = self._refusals.get((gang.root, gang.priority, limits)) if _is_template(gang) else None
        return msgspec.structs.replace(known, name=gang.name) if known is not None else None

    @contextmanager
    def fixed_members(self, fixed: Mapping[str, Places]) -> Iterator[None]:
        """Members that nobody may disturb meanwhile, by gang."""
        placed_gangs = self._engine.placed_gangs
        for name, places in fixed.items():
            placed_gangs[name].moved = list(places)
        try:
            yield
        finally:
            for name in fixed:
                placed_gangs[name].moved = []

    def running_gangs(self, names: Iterable[str], fixed: Mapping[str, Places]) -> list[RunningGang]:
        """Gangs that stand, with what they could lose; members that are `fixed`, by gang, stay."""
        with self.fixed_members(fixed):
            return running_gangs(self._cluster.inventory, [self._engine.placed_gangs[name] for name in names])

    def disturbing(
        self, gang: Gang, options: Options, fixed: Mapping[str, Places], gone: Sequence[Victim] = ()
    ) -> Decision:
        """Where the minimum goes, if need be in the room of others; members that are `fixed`, by gang, stay.

        `gone`: those have to leave in any case.
        """
        with self.fixed_members(fixed), self._cluster.inventory.trial():
            for victim in gone:
                self._evict(victim)
            decision = self._ask(gang, options)
        victims = (*gone, *decision.victims)
        for name in {*(each.gang for each in victims), *(each.gang for each in decision.moves)}:
            self.put_gang(self._gangs[name])
        if not gone or decision.outcome != "placed":
            return decision
        return msgspec.structs.replace(decision, waits=True, victims=tuple(sorted(victims)))

    def _evict(self, victim: Victim) -> None:
        inventory, placed_gang = self._cluster.inventory, self._engine.placed_gangs[victim.gang]
        pods = pod_sets(placed_gang.gang)[victim.pods]
        release(inventory, inventory.seat(victim.node, victim.zone), pods)
        forget(inventory, placed_gang, Running(victim.pods, victim.node, victim.zone))

    def is_known_futile(self, gang: Gang, queue: str, freed_version: int) -> bool:
        """Whether a gang like this one was told that nobody can go for it in its queue, which has not eased since."""
        self._drop_outdated()
        return _is_template(gang) and (gang.root, gang.priority, queue, freed_version) in self._futile

    def note_futile(self, gang: Gang, queue: str, freed_version: int) -> None:
        if _is_template(gang):
            self._futile.add((gang.root, gang.priority, queue, freed_version))

    def refuse(self, gang: Gang, limits: Consolidate | None, decision: Decision) -> None:
        """Remember the answer to a gang that might have disturbed others."""
        if _is_template(gang) and decision.outcome == "infeasible":
            self._refusals[gang.root, gang.priority, limits] = decision

    def _drop_outdated(self) -> None:
        if self._improved != self._cluster.improved or len(self._refusals) + len(self._futile) >= MOST_REFUSALS:
            self._refusals.clear()
            self._futile.clear()
            self._improved = self._cluster.improved

    def minimum(self, gang: Gang) -> Decision:
        """Where the minimum goes, or why it goes nowhere."""
        plain = _is_template(gang)
        self._drop_outdated()
        known = self._refusals.get((gang.root, None, None)) if plain else None
        if known is not None:
            return msgspec.structs.replace(known, name=gang.name)
        decision = self._ask(gang, self._minimum)
        if plain and decision.outcome == "infeasible":
            self._refusals[gang.root, None, None] = decision
        return decision

    def without(self, gang: Gang, seats: Iterable[str]) -> Decision:
        """Where the minimum would go if the gang had not these seats, by uid."""
        with self._cluster.inventory.trial():
            for uid in seats:
                self._cluster.inventory.remove_pod(uid)
            return self._ask(gang, self._minimum)

    def extras(self, gang: Gang, planned: tuple[Running, ...]) -> Decision:
        """Where those beyond the minimum go, with the minimum planned already."""
        return self._ask(msgspec.structs.replace(gang, running=(*gang.running, *planned)), self._everything)

    def _ask(self, gang: Gang, options: Options) -> Decision:
        engine, inventory = self._engine, self._cluster.inventory
        placed_gang = engine.placed_gangs.get(gang.name)
        slots = [(member.pods, inventory.seat(member.node, member.zone)) for member in gang.running]
        engine.placed_gangs[gang.name] = PlacedGang(gang, slots)
        engine.options = options
        try:
            with inventory.trial(), self._planned(gang):
                return engine.decide(gang)
        finally:
            if placed_gang is None:
                del engine.placed_gangs[gang.name]
            else:
                engine.placed_gangs[gang.name] = placed_gang

    @contextmanager
    def _planned(self, gang: Gang) -> Iterator[None]:
        """With those members of the gang it is tied to that a view may not show on their nodes yet."""
        base = self._engine.placed_gangs.get(gang.tied_to.gang) if gang.tied_to is not None else None
        if base is None:
            yield
            return
        inventory = self._cluster.inventory
        found = [pod for uid in self._reserved(base.gang.name) if (pod := inventory.pod(uid)) is not None]
        base.planned = [inventory.seat(pod.node, pod.zone) for pod in found if inventory.find(pod.node) is not None]
        try:
            yield
        finally:
            base.planned = []


def _is_template(gang: Gang) -> bool:
    """Like any other gang of its template and priority."""
    return not gang.running and gang.tied_to is None
