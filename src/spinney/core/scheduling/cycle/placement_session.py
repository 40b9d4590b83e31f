"""The session over the placement engine: each question is a trial that leaves nothing behind but its answer.

`placed_gangs` holds the members that the caches show on their nodes. A gang without running members ties no other gang;
where some run, its members with an assignment count as well (G12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from spinney.api.operator_configuration import PlacementStrategy
from spinney.api.placement.problem import Amounts, Consolidate, Gang, Group, Options, Running
from spinney.api.placement.result import Decision, Victim
from spinney.core.placement.attempt import SetDecision
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.engine import Engine
from spinney.core.placement.gang.running_gangs import (
    PlacedGang,
    RunningGang,
    forget,
    is_beside,
    pod_sets,
    release,
    running_gangs,
)
from spinney.core.scheduling.cluster import Cluster, ReservedCapacity

MOST_REFUSALS = 4096

_BASIC = ("cpu", "memory", "pods", "ephemeral-storage")

Places = Sequence[tuple[str, int]]
"""Members of a gang: path of the pod set and slot of the node."""


class PlacementSession:
    """Asks the engine. A gang that equals a refused one is refused from memory until capacity may have been freed."""

    def __init__(
        self,
        cluster: Cluster,
        strategy: PlacementStrategy,
        budget: int,
        reserved: Callable[[str], Iterable[str]] = lambda name: (),
    ) -> None:
        """`reserved`: uids of the pods of a gang, by its name, that have an assignment."""
        self._cluster = cluster
        self._reserved = reserved
        self._strategy = strategy
        self._minimum = Options(budget=budget, extras="weigh")
        self._everything = Options(budget=budget, extras="place")
        self._generation = -1
        self._engine = Engine(cluster.inventory, cluster.topologies, self._minimum)
        self._refusals: dict[tuple[Group, int | None, str, Consolidate | None, int | None], Decision] = {}
        self._futile: set[tuple[Group, int, str, int]] = set()
        self._improved = -1
        self._gangs: dict[str, Gang] = {}
        self._preemptible: Counter[int] = Counter()  # number of running preemptible gangs, by priority

    @property
    def options(self) -> Options:
        """The options for placing minimums."""
        return self._minimum

    @property
    def engine(self) -> Engine:
        return self._engine

    def renew(self) -> bool:
        """Start anew if the inventory or the topologies were replaced; the placed gangs have to be added again."""
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
        """Set where the members of a gang run, for itself and for gangs tied to it."""
        self.forget(gang.name)
        self._gangs[gang.name] = gang
        if gang.preemptible and gang.running:
            self._preemptible[gang.priority] += 1
        slot_for = self._cluster.inventory.slot_for
        self._engine.placed_gangs[gang.name] = PlacedGang(
            gang, [(member.pods, slot_for(member.node, member.zone)) for member in gang.running]
        )

    def forget(self, name: str) -> None:
        self._engine.placed_gangs.pop(name, None)
        gang = self._gangs.pop(name, None)
        if gang is not None and gang.preemptible and gang.running:
            self._preemptible[gang.priority] -= 1
            self._preemptible += Counter()  # drops zero counts

    def has_lower_priority(self, gang: Gang) -> bool:
        """Whether any running preemptible gang has a lower priority."""
        return bool(self._preemptible) and min(self._preemptible) < gang.priority

    def preemptible(self) -> list[Gang]:
        """Running gangs that may be disturbed."""
        return [each for each in self._gangs.values() if each.preemptible and each.running]

    def places(self, name: str) -> Places:
        """Where the members of a gang run."""
        return self._engine.placed_gangs[name].live

    def is_beside_its_base(self, gang: Gang, assignments: Iterable[tuple[str, str]]) -> bool:
        """Whether assignments (node and zone) are in the domain of the gang that this one is tied to."""
        inventory = self._cluster.inventory
        slots = [inventory.slot_for(node, zone) for node, zone in assignments if inventory.find(node) is not None]
        return is_beside(gang, inventory, self._engine.placed_gangs, slots)

    def known_refusal(
        self, gang: Gang, queue: str, limits: Consolidate | None, version: int | None = None
    ) -> Decision | None:
        """The remembered refusal of an equal gang that could disturb the same others within the same limits.

        `version`: of the queues, where it may take from others of them.
        """
        self._drop_outdated()
        known = self._refusals.get((gang.root, gang.priority, queue, limits, version)) if _is_template(gang) else None
        return msgspec.structs.replace(known, name=gang.name) if known is not None else None

    @contextmanager
    def fixed_members(self, fixed: Mapping[str, Places]) -> Iterator[None]:
        """Members, by gang, that may not be disturbed inside the block."""
        placed_gangs = self._engine.placed_gangs
        for name, places in fixed.items():
            placed_gangs[name].moved = list(places)
        try:
            yield
        finally:
            for name in fixed:
                placed_gangs[name].moved = []

    def running_gangs(self, names: Iterable[str], fixed: Mapping[str, Places]) -> list[RunningGang]:
        """Running gangs with what they could lose; `fixed` members, by gang, stay."""
        with self.fixed_members(fixed):
            return running_gangs(self._cluster.inventory, [self._engine.placed_gangs[name] for name in names])

    def disturbing(
        self,
        gang: Gang,
        options: Options,
        fixed: Mapping[str, Places],
        gone: Sequence[Victim] = (),
        rules: VictimRules | None = None,
    ) -> Decision:
        """Place the minimum, with victims or moves if need be; `fixed` members, by gang, stay.

        `gone`: victims that are evicted in any case. `rules`: who may be one, if it is not for priority.
        """
        self._engine.victim_rules = rules
        try:
            with self.fixed_members(fixed), self._cluster.inventory.trial():
                for victim in gone:
                    self._evict(victim)
                decision = self._ask(gang, options)
        finally:
            self._engine.victim_rules = None
        victims = (*gone, *decision.victims)
        for name in {*(each.gang for each in victims), *(each.gang for each in decision.moves)}:
            self.put_gang(self._gangs[name])
        if not gone or decision.outcome != "placed":
            return decision
        return msgspec.structs.replace(decision, waits=True, victims=tuple(sorted(victims)))

    def _evict(self, victim: Victim) -> None:
        inventory, placed_gang = self._cluster.inventory, self._engine.placed_gangs[victim.gang]
        pods = pod_sets(placed_gang.gang)[victim.pods]
        release(inventory, inventory.slot_for(victim.node, victim.zone), pods)
        forget(inventory, placed_gang, Running(victim.pods, victim.node, victim.zone))

    def is_known_futile(self, gang: Gang, queue: str, freed_version: int) -> bool:
        """Whether an equal gang found no victims in its queue, and the queue has freed nothing since."""
        self._drop_outdated()
        return _is_template(gang) and (gang.root, gang.priority, queue, freed_version) in self._futile

    def note_futile(self, gang: Gang, queue: str, freed_version: int) -> None:
        if _is_template(gang):
            self._futile.add((gang.root, gang.priority, queue, freed_version))

    def refuse(
        self, gang: Gang, queue: str, limits: Consolidate | None, version: int | None, decision: Decision
    ) -> None:
        """Remember the refusal of a gang that could have disturbed others."""
        if _is_template(gang) and decision.outcome == "infeasible":
            self._refusals[gang.root, gang.priority, queue, limits, version] = decision

    def forget_reasons(self) -> None:
        """What is in use has changed: refusals still hold, their reasons may not."""
        self._refusals.clear()

    def _drop_outdated(self) -> None:
        if self._improved != self._cluster.improved or len(self._refusals) + len(self._futile) >= MOST_REFUSALS:
            self._refusals.clear()
            self._futile.clear()
            self._improved = self._cluster.improved

    def minimum(self, gang: Gang) -> Decision:
        """Place the minimum without disturbing others, or explain why it does not fit."""
        return self.minimum_of_set(gang, ()).decision

    def minimum_of_set(self, gang: Gang, followers: Sequence[Gang]) -> SetDecision:
        """As `minimum`, with room for gangs that share its domain, where there is any."""
        # Whose room is held depends on the priority.
        plain = _is_template(gang) and not self._cluster.has_nominated and not self._cluster.has_kept_room
        self._drop_outdated()
        known = self._refusals.get((gang.root, None, "", None, None)) if plain else None
        if known is not None:
            return SetDecision(msgspec.structs.replace(known, name=gang.name))
        found = self._ask_for_set(gang, followers, self._minimum)
        if plain and found.decision.outcome == "infeasible":
            self._refusals[gang.root, None, "", None, None] = found.decision
        return found

    def returnable(self, gang: Gang, asked: Iterable[tuple[str, str, Amounts]]) -> set[str]:
        """The replacements (uid, node of the predecessor, request) that fit there, once others have terminated."""
        cluster, inventory, fit = self._cluster, self._cluster.inventory, set()
        with inventory.trial():
            cluster.hold_nominated(gang.priority, gang.name)
            cluster.open_room(gang.name, gang.priority)
            for uid, node, request in asked:
                inventory.add_pod(f"returning/{uid}", node, request)
                if cluster.reserved_capacity(node) is not ReservedCapacity.LOST:
                    fit.add(uid)
                else:
                    inventory.remove_pod(f"returning/{uid}")
        return fit

    def without(self, gang: Gang, uids: Iterable[str]) -> Decision:
        """Place the minimum as if the gang did not have these reservations, by uid."""
        with self._cluster.inventory.trial():
            for uid in uids:
                self._cluster.inventory.remove_pod(uid)
            return self._ask(gang, self._minimum)

    def extras(self, gang: Gang, planned: tuple[Running, ...], most: Mapping[str, int] | None = None) -> Decision:
        """Place the pods beyond the minimum, given the planned minimum; `most`: no more of each pod set than this."""
        running = (*gang.running, *planned)
        asking = msgspec.structs.replace(gang, running=running)
        if most is not None:
            counts = Counter(member.pods for member in running) + Counter(most)
            asking = msgspec.structs.replace(asking, root=_with_counts(gang.root, "", counts))
        return self._ask(asking, self._everything)

    def _ask(self, gang: Gang, options: Options) -> Decision:
        return self._ask_for_set(gang, (), options).decision

    def _ask_for_set(self, gang: Gang, followers: Sequence[Gang], options: Options) -> SetDecision:
        engine, inventory = self._engine, self._cluster.inventory
        placed_gang = engine.placed_gangs.get(gang.name)
        slots = [(member.pods, inventory.slot_for(member.node, member.zone)) for member in gang.running]
        engine.placed_gangs[gang.name] = PlacedGang(gang, slots)
        engine.options = self._with_strategy(options, gang)
        try:
            with inventory.trial(), self._planned(gang):
                self._cluster.hold_nominated(gang.priority, gang.name)
                self._cluster.open_room(gang.name, gang.priority)
                return engine.decide_with_followers(gang, followers)
        finally:
            if placed_gang is None:
                del engine.placed_gangs[gang.name]
            else:
                engine.placed_gangs[gang.name] = placed_gang

    def _with_strategy(self, options: Options, gang: Gang) -> Options:
        strategy = self._strategy
        if strategy.gpu == strategy.cpu == options.strategy:
            return options
        extended = [at for at, name in enumerate(self._cluster.inventory.resources) if name not in _BASIC]
        asks_for_gpus = any(pods.request[at] for pods in pod_sets(gang).values() for at in extended)
        return msgspec.structs.replace(options, strategy=strategy.gpu if asks_for_gpus else strategy.cpu)

    @contextmanager
    def _planned(self, gang: Gang) -> Iterator[None]:
        """Add assigned members of the base gang that the caches may not show on their nodes yet."""
        base = self._engine.placed_gangs.get(gang.tied_to.gang) if gang.tied_to is not None else None
        if base is None:
            yield
            return
        inventory = self._cluster.inventory
        found = [pod for uid in self._reserved(base.gang.name) if (pod := inventory.pod(uid)) is not None]
        base.planned = [inventory.slot_for(pod.node, pod.zone) for pod in found if inventory.find(pod.node) is not None]
        try:
            yield
        finally:
            base.planned = []


def _with_counts(group: Group, prefix: str, counts: Mapping[str, int]) -> Group:
    """The group with no more pods in each pod set, by path; minimums stay."""
    pods = [
        msgspec.structs.replace(each, count=max(min(each.count, counts[prefix + each.name]), each.min))
        for each in group.pods
    ]
    groups = [_with_counts(each, f"{prefix}{each.name}/", counts) for each in group.groups]
    return msgspec.structs.replace(group, pods=tuple(pods), groups=tuple(groups))


def _is_template(gang: Gang) -> bool:
    """Whether equal gangs (template and priority) get the same answer: no members run and it is tied to none."""
    return not gang.running and gang.tied_to is None
