"""What moving pods would bring: for which gang that waits, at what cost, and how large a gang each level could take.

Asks the scheduler's own questions of a copy of the cluster. Never writes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.policy import PodDisruptionBudget, PriorityClass
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.topology import Topology
from spinney.api.labels import PLAN, POD_GROUP_NAME
from spinney.api.meta import ObjectMeta
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate, Gang, Group, PodSet
from spinney.api.placement.result import Move
from spinney.core.placement.holders import pod_sets
from spinney.core.placement.largest import largest_placeable
from spinney.core.placement.scoring import score
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import Context, GangReading, gang_name, read_gang
from spinney.core.scheduling.plan import PlanError, decode
from spinney.core.scheduling.priorities import Priorities
from spinney.drive.client.codec import Broken
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.hunting import Hunter, Prey, Stander

ANYBODY = 2**31 - 1
"""As important as anybody: whoever may be preempted may be moved."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything that is looked at. Nothing is free on a node with a pod that can not be read; its gang is held."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    unreadable_pods: Sequence[Broken] = ()
    groups: Sequence[PodGroup] = ()
    classes: Sequence[PriorityClass] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    topologies: Sequence[Topology] = ()
    cluster_topologies: Sequence[ClusterTopology] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """One move: a pod of a gang goes from a node, and its successor to another."""

    pod: str
    gang: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A gang that waits and would fit after these moves; `loss`: what moved gangs lose of their scores together."""

    gang: str
    group: ObjectMeta
    priority: int
    pods: int
    moves: tuple[Shown, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest gang of one kind of pod that a domain of a level takes, now and after moves."""

    topology: str
    level: str
    now: int
    after: int
    moves: tuple[Shown, ...] = ()
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class Survey:
    """`stuck`: gangs that would not fit after any allowed moves, with the reason. `asking`: what a pod of `reaches`
    asks for.
    """

    limits: Consolidate
    offers: tuple[Offer, ...] = ()
    stuck: tuple[tuple[str, str], ...] = ()
    asking: Mapping[str, int] = field(default_factory=dict)
    reaches: tuple[Reach, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "limits": {"maxMoves": self.limits.max_moves, "maxLoss": self.limits.max_loss},
            "gangs": [
                {
                    "gang": offer.gang,
                    "priority": offer.priority,
                    "pods": offer.pods,
                    "loss": round(offer.loss, 6),
                    "moves": [_move(move) for move in offer.moves],
                }
                for offer in self.offers
            ],
            "stuck": [{"gang": gang, "reason": reason} for gang, reason in self.stuck],
            "largest": {
                "asking": dict(self.asking),
                "levels": [
                    {
                        "topology": reach.topology,
                        "level": reach.level,
                        "now": reach.now,
                        "after": reach.after,
                        "loss": round(reach.loss, 6),
                        "moves": [_move(move) for move in reach.moves],
                    }
                    for reach in self.reaches
                ],
            },
        }


def survey(objects: Objects, limits: Consolidate, only: str = "") -> Survey:
    """`only`: the name of a gang; else all that wait. Each is asked for alone: their moves do not add up."""
    look = _Look(objects, limits)
    offers, stuck = [], []
    for name in look.pending:
        if only in ("", name):
            prey = look.ask(name)
            if prey.moves:
                offers.append(look.offer(name, prey))
            elif prey.decision.outcome != "placed":
                found = prey.decision.explanation
                stuck.append((name, found.reason if found is not None else prey.decision.outcome))
    pods = look.example()
    reaches = look.reaches(pods) if pods is not None and not only else []
    asking = look.asked_by(pods) if pods is not None and not only else {}
    return Survey(limits, tuple(offers), tuple(stuck), asking, tuple(reaches))


class _Look:
    """A copy of the cluster, and the questions to it."""

    def __init__(self, objects: Objects, limits: Consolidate) -> None:
        self._limits = limits
        self._cluster = _cluster(objects)
        self._groups = {gang_name(group): group for group in objects.groups}
        self._pods = _members(objects.pods)
        self._unreadable = {
            (one.key[0], one.annotations.get(POD_GROUP_NAME, "")): f"pod {'/'.join(one.key)} can not be read"
            for one in objects.unreadable_pods
        }
        self._readings = self._read(objects)
        self._decider = Decider(self._cluster, "binpack", DEFAULT_BUDGET)
        self._decider.renew()
        for name, group in self._groups.items():
            self._reserve(name, group)
            self._decider.stand(self._readings[name].gang)
        self._hunter = Hunter(objects.budgets, self._cluster, self._decider, self._decider.options, self._stander)

    @property
    def pending(self) -> list[str]:
        """In the order of their importance and age."""
        found = [
            reading.gang
            for name, reading in self._readings.items()
            if reading.ready and not reading.mistake and any(reading.waiting.values()) and not self._is_planned(name)
        ]
        made = {gang.name: self._groups[gang.name].metadata.creation_timestamp or "" for gang in found}
        return [gang.name for gang in sorted(found, key=lambda gang: (-gang.priority, made[gang.name], gang.name))]

    def ask(self, name: str) -> Prey:
        """Moves only: who might be evicted is another question."""
        return self._hunter.decide(replace(self._readings[name], preempts=False), self._limits)

    def offer(self, name: str, prey: Prey) -> Offer:
        reading, moves = self._readings[name], prey.decision.moves
        shown = tuple(
            Shown(f"{pod.metadata.namespace}/{pod.metadata.name}", move.gang, move.source, move.target)
            for (pod, _), move in zip(prey.moves, moves, strict=True)
        )
        placed = len(prey.decision.placements)
        return Offer(name, self._groups[name].metadata, reading.gang.priority, placed, shown, self._loss(moves))

    def example(self) -> PodSet | None:
        """A pod like that of the first gang that waits, else like most of those that run."""
        for name in self.pending:
            return next(iter(pod_sets(self._readings[name].gang).values()))
        seen: Counter[PodSet] = Counter()
        for reading in self._readings.values():
            leaves = pod_sets(reading.gang)
            seen.update(
                msgspec.structs.replace(leaves[member.pods], name="pod", count=1, min=1)
                for member in reading.gang.running
            )
        return max(seen, key=lambda pods: (seen[pods], pods.request), default=None)

    def asked_by(self, pods: PodSet) -> dict[str, int]:
        resources = self._cluster.inventory.resources
        return {name: amount for name, amount in zip(resources, pods.request, strict=True) if amount}

    def reaches(self, pods: PodSet) -> list[Reach]:
        anybody = Gang("", Group(""), priority=ANYBODY)
        found = []
        with self._decider.fixing(self._hunter.kept(anybody)):
            for topology in sorted(self._cluster.topologies):
                for level in self._cluster.topologies[topology].levels:
                    engine = self._decider.engine
                    largest = largest_placeable(engine, pods, topology, level, self._limits)
                    best = largest.raises[-1] if largest.raises else None
                    if best is None:
                        found.append(Reach(topology, level, largest.count, largest.count))
                        continue
                    shown = tuple(Shown("", move.gang, move.source, move.target) for move in best.moves)
                    found.append(Reach(topology, level, largest.count, best.count, shown, best.loss))
        return found

    def _loss(self, moves: Iterable[Move]) -> float:
        """What the moved gangs lose of their scores together."""
        by_gang: dict[str, list[Move]] = {}
        for move in moves:
            by_gang.setdefault(move.gang, []).append(move)
        return sum(max(0.0, self._worth(name, []) - self._worth(name, mine)) for name, mine in by_gang.items())

    def _worth(self, name: str, moves: Sequence[Move]) -> float:
        inventory, gang = self._cluster.inventory, self._readings[name].gang
        parts, _ = self._decider.engine.read(gang)
        leaves = {leaf.path: leaf for leaf in parts.leaves}
        live = [(member.pods, inventory.seat(member.node, member.zone)) for member in gang.running]
        for move in moves:
            live.remove((move.pods, inventory.seat(move.source, move.source_zone)))
            live.append((move.pods, inventory.seat(move.target, move.target_zone)))
        return score(parts, inventory, [(leaves[path], slot) for path, slot in live])

    def _stander(self, name: str) -> Stander | None:
        return Stander(self._readings[name], lambda: self._pods.get(name, ()), self._is_planned(name))

    def _is_planned(self, name: str) -> bool:
        return PLAN in self._groups[name].metadata.annotations

    def _reserve(self, name: str, group: PodGroup) -> None:
        """Seats that a record promises are not free. Who has to go for them is seen when it goes: a record is not
        verified here, and room of others is not given away for one that may be forged.
        """
        there = {pod.metadata.uid: pod for pod in self._pods.get(name, ()) if not pod.spec.node_name}
        try:
            plan = decode(group.metadata.annotations.get(PLAN, ""))
        except PlanError:
            return
        for seat in plan.seats:
            if seat.uid in there:
                self._cluster.reserve(there[seat.uid], seat.node, seat.zone)

    def _read(self, objects: Objects) -> dict[str, GangReading]:
        inventory = self._cluster.inventory
        context = Context(
            resources=inventory.resources,
            priorities=Priorities(tuple(objects.classes)),
            topologies=self._cluster.topologies,
            has_node=lambda name: inventory.find(name) is not None,
            unreadable=lambda namespace, name: self._unreadable.get((namespace, name), ""),
        )
        return {name: read_gang(group, self._pods.get(name, ()), context) for name, group in self._groups.items()}


def _cluster(objects: Objects) -> Cluster:
    cluster = Cluster()
    for node in objects.nodes:
        cluster.put_node(node.metadata.name, node)
    for kai in objects.topologies:
        cluster.put_kai_topology(kai.metadata.name, kai)
    for grove in objects.cluster_topologies:
        cluster.put_cluster_topology(grove.metadata.name, grove)
    cluster.settle()
    for pod in objects.pods:
        cluster.put_pod(None, pod)
    for thing in objects.unreadable_pods:
        cluster.put_unreadable(thing.uid, thing.node)
    return cluster


def _members(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        group = pod.metadata.annotations.get(POD_GROUP_NAME)
        if group:
            found.setdefault(f"{pod.metadata.namespace}/{group}", []).append(pod)
    return found


def _move(move: Shown) -> dict[str, str]:
    named = {"pod": move.pod} if move.pod else {}
    return {**named, "gang": move.gang, "from": move.source, "to": move.target}
