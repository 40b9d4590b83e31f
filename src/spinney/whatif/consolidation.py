"""What consolidation (moving pods) would achieve: for which pending gangs, and at what cost.

The survey, with the largest gang that each level could hold, runs the scheduler's own logic on a copy of the cluster
and writes nothing; only `request_moves` writes, an annotation on the PodGroups of pending gangs. `MoveSearch` computes
the same for planned gangs in a simulated cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PodDisruptionBudget, PriorityClass
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, published
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import CONSOLIDATE, PLAN, POD_GROUP_NAME
from spinney.api.meta import ObjectMeta
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate, Gang, Group, PodSet
from spinney.api.placement.result import Move
from spinney.core.placement.disrupt.consolidation import largest_placeable
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.placement.scoring import score
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.allocation import place_or_preempt
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.preemption import Preemptor, RunningGang, VictimSelection
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang, gang_name, read_gang
from spinney.core.scheduling.gang.priorities import Priorities
from spinney.core.scheduling.plan import PlanError, decode
from spinney.core.scheduling.settings import BINPACK, Settings, request
from spinney.core.view.plan_result import DisplacedPod
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import Broken
from spinney.drive.client.errors import ConfigError, NotFound, Undecodable
from spinney.drive.client.informers.unreadable import Complaint
from spinney.drive.client.paths import Key, ResourcePath
from spinney.drive.scheduler.caches import (
    BUDGETS,
    CLUSTER_TOPOLOGIES,
    NODES,
    PODGROUPS,
    PODS,
    PRIORITY_CLASSES,
    TOPOLOGIES,
    TOPOLOGY_BINDINGS,
)
from spinney.whatif.simulator import ClusterSimulator

LIMITS = Consolidate(max_moves=16, max_loss=0.0)
"""The default limits of `spinney consolidate` for one gang."""


class MoveSearch:
    """Searches moves in the current state of a simulated cluster."""

    def __init__(self, simulator: ClusterSimulator, settings: Settings) -> None:
        self._simulator = simulator
        self._session = PlacementSession(simulator.cluster, settings.strategy, settings.budget)
        self._session.renew()
        for entry in simulator.entries:
            if entry.reading is not None:
                self._session.put_gang(entry.reading.gang)
        self._preemptor = Preemptor(
            simulator.views.budgets, simulator.cluster, self._session, self._session.options, self._running_gang
        )

    def moves_for(self, key: Key) -> tuple[DisplacedPod, ...]:
        """The pods that would have to move, each with its new node; empty if moves do not help."""
        reading = next((entry.reading for entry in self._simulator.entries if entry.key == key), None)
        if reading is None or not reading.ready or reading.mistake:
            return ()
        selection = place_or_preempt(self._session, self._preemptor, replace(reading, preempts=False), lambda: LIMITS)
        if selection.decision.outcome != "placed":
            return ()
        return tuple(
            DisplacedPod(
                f"{pod.metadata.namespace}/{pod.metadata.name}", "/".join(group_of(pod)), pod.spec.node_name, node
            )
            for pod, node in selection.moves
        )

    def _running_gang(self, name: str) -> RunningGang | None:
        found = next((entry for entry in self._simulator.entries if entry.name == name), None)
        if found is None or found.reading is None:
            return None
        key = found.key
        return RunningGang(found.reading, lambda: self._simulator.views.pods_of(key), found.in_flight)


ANYBODY = 2**31 - 1
"""The highest priority: every preemptible pod may be moved."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """All objects of a survey. A node with an undecodable pod has no free capacity, and the pod's gang is held."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    unreadable_pods: Sequence[Broken] = ()
    groups: Sequence[PodGroup] = ()
    classes: Sequence[PriorityClass] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    topologies: Sequence[Topology] = ()
    cluster_topologies: Sequence[ClusterTopology] = ()


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One move: a pod of a gang leaves a node, and its replacement goes to another one."""

    pod: str
    gang: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ConsolidationOffer:
    """A pending gang that would fit after these moves; `loss`: the total loss of placement score of the moved gangs."""

    gang: str
    group: ObjectMeta
    priority: int
    pods: int
    moves: tuple[MoveRow, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class LargestGang:
    """The largest gang of one kind of pod that a domain of a level can hold, now and after moves."""

    topology: str
    level: str
    now: int
    after: int
    moves: tuple[MoveRow, ...] = ()
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class Survey:
    """The result. `stuck`: gangs that would not fit after any allowed moves, with the reason. `asking`: the requests of
    the pod that `reaches` is computed for.
    """

    limits: Consolidate
    offers: tuple[ConsolidationOffer, ...] = ()
    stuck: tuple[tuple[str, str], ...] = ()
    asking: Mapping[str, int] = field(default_factory=dict)
    reaches: tuple[LargestGang, ...] = ()

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


def survey(objects: ClusterObjects, limits: Consolidate, only: str = "") -> Survey:
    """Survey the gang named `only`, else all pending gangs. Each gang is evaluated alone: their moves do not add up."""
    survey_run = _SurveyRun(objects, limits)
    offers, stuck = [], []
    for name in survey_run.pending:
        if only in ("", name):
            selection = survey_run.ask(name)
            if selection.moves:
                offers.append(survey_run.offer(name, selection))
            elif selection.decision.outcome != "placed":
                found = selection.decision.explanation
                stuck.append((name, found.reason if found is not None else selection.decision.outcome))
    pods = survey_run.example()
    reaches = survey_run.reaches(pods) if pods is not None and not only else []
    asking = survey_run.asked_by(pods) if pods is not None and not only else {}
    return Survey(limits, tuple(offers), tuple(stuck), asking, tuple(reaches))


class _SurveyRun:
    """A copy of the cluster and the queries of a survey."""

    def __init__(self, objects: ClusterObjects, limits: Consolidate) -> None:
        self._limits = limits
        self._cluster = _cluster(objects)
        self._groups = {gang_name(group): group for group in objects.groups}
        self._pods = _members(objects.pods)
        self._unreadable = {
            (one.key[0], one.annotations.get(POD_GROUP_NAME, "")): f"pod {'/'.join(one.key)} can not be read"
            for one in objects.unreadable_pods
        }
        self._readings = self._read(objects)
        self._session = PlacementSession(self._cluster, BINPACK, DEFAULT_BUDGET)
        self._session.renew()
        for name, group in self._groups.items():
            self._reserve(name, group)
            self._session.put_gang(self._readings[name].gang)
        self._preemptor = Preemptor(
            objects.budgets, self._cluster, self._session, self._session.options, self._running_gang
        )

    @property
    def pending(self) -> list[str]:
        """The names of pending gangs, ordered by priority and age."""
        found = [
            reading.gang
            for name, reading in self._readings.items()
            if reading.ready and not reading.mistake and any(reading.waiting.values()) and not self._is_planned(name)
        ]
        made = {gang.name: self._groups[gang.name].metadata.creation_timestamp or "" for gang in found}
        return [gang.name for gang in sorted(found, key=lambda gang: (-gang.priority, made[gang.name], gang.name))]

    def ask(self, name: str) -> VictimSelection:
        """The moves that would let a gang fit; preemption is disabled."""
        return place_or_preempt(
            self._session, self._preemptor, replace(self._readings[name], preempts=False), lambda: self._limits
        )

    def offer(self, name: str, selection: VictimSelection) -> ConsolidationOffer:
        reading, moves = self._readings[name], selection.decision.moves
        shown = tuple(
            MoveRow(f"{pod.metadata.namespace}/{pod.metadata.name}", move.gang, move.source, move.target)
            for (pod, _), move in zip(selection.moves, moves, strict=True)
        )
        placed = len(selection.decision.placements)
        return ConsolidationOffer(
            name, self._groups[name].metadata, reading.gang.priority, placed, shown, self._loss(moves)
        )

    def example(self) -> PodSet | None:
        """A pod of the first pending gang, else the most common kind of running pod."""
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

    def reaches(self, pods: PodSet) -> list[LargestGang]:
        anybody = Gang("", Group(""), priority=ANYBODY)
        found = []
        with self._session.fixed_members(self._preemptor.kept(anybody)):
            for topology in sorted(self._cluster.topologies):
                for level in self._cluster.topologies[topology].levels:
                    engine = self._session.engine
                    largest = largest_placeable(engine, pods, topology, level, self._limits)
                    best = largest.raises[-1] if largest.raises else None
                    if best is None:
                        found.append(LargestGang(topology, level, largest.count, largest.count))
                        continue
                    shown = tuple(MoveRow("", move.gang, move.source, move.target) for move in best.moves)
                    found.append(LargestGang(topology, level, largest.count, best.count, shown, best.loss))
        return found

    def _loss(self, moves: Iterable[Move]) -> float:
        """The total loss of placement score of the moved gangs."""
        by_gang: dict[str, list[Move]] = {}
        for move in moves:
            by_gang.setdefault(move.gang, []).append(move)
        return sum(max(0.0, self._score(name, []) - self._score(name, mine)) for name, mine in by_gang.items())

    def _score(self, name: str, moves: Sequence[Move]) -> float:
        inventory, gang = self._cluster.inventory, self._readings[name].gang
        parts, _ = self._session.engine.read(gang)
        leaves = {leaf.path: leaf for leaf in parts.leaves}
        live = [(member.pods, inventory.slot_for(member.node, member.zone)) for member in gang.running]
        for move in moves:
            live.remove((move.pods, inventory.slot_for(move.source, move.source_zone)))
            live.append((move.pods, inventory.slot_for(move.target, move.target_zone)))
        return score(parts, inventory, [(leaves[path], slot) for path, slot in live])

    def _running_gang(self, name: str) -> RunningGang | None:
        return RunningGang(self._readings[name], lambda: self._pods.get(name, ()), self._is_planned(name))

    def _is_planned(self, name: str) -> bool:
        return PLAN in self._groups[name].metadata.annotations

    def _reserve(self, name: str, group: PodGroup) -> None:
        """Reserve the nodes of a recorded plan. Its victims keep their capacity until they are gone: the record is not
        verified here, and capacity of other gangs is not given away for a record that may be forged.
        """
        there = {pod.metadata.uid: pod for pod in self._pods.get(name, ()) if not pod.spec.node_name}
        try:
            plan = decode(group.metadata.annotations.get(PLAN, ""))
        except PlanError:
            return
        for assignment in plan.assignments:
            if assignment.uid in there:
                self._cluster.reserve(there[assignment.uid], assignment.node, assignment.zone)

    def _read(self, objects: ClusterObjects) -> dict[str, ParsedGang]:
        inventory = self._cluster.inventory
        context = Context(
            resources=inventory.resources,
            priorities=Priorities(tuple(objects.classes)),
            topologies=self._cluster.topologies,
            has_node=lambda name: inventory.find(name) is not None,
            unreadable=lambda namespace, name: self._unreadable.get((namespace, name), ""),
        )
        return {name: read_gang(group, self._pods.get(name, ()), context) for name, group in self._groups.items()}


def _cluster(objects: ClusterObjects) -> Cluster:
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


def _move(move: MoveRow) -> dict[str, str]:
    named = {"pod": move.pod} if move.pod else {}
    return {**named, "gang": move.gang, "from": move.source, "to": move.target}


T = TypeVar("T")


async def read_objects(client: ApiClient, gang: str = "") -> ClusterObjects:
    """Read all objects of a survey. Raises ClientError if they, or the requested gang, cannot be read."""
    try:
        groups = await client.list(Selection(PODGROUPS), PodGroup)
    except NotFound:
        served = f"{PodGroup.PLURAL}.{PodGroup.GROUP}"
        raise ConfigError(f"the cluster does not serve {served}: apply `spinney manifests crds` first") from None
    asked = next((thing for thing in groups.broken if "/".join(thing.key) == gang), None)
    if asked is not None:
        raise Undecodable(str(Complaint(PODGROUPS, asked)))
    pods = await client.list(Selection(PODS), Pod)
    return ClusterObjects(
        nodes=await _all(client, NODES, Node),
        pods=pods.items,
        unreadable_pods=pods.broken,
        groups=groups.items,
        classes=await _all(client, PRIORITY_CLASSES, PriorityClass),
        budgets=await _all(client, BUDGETS, PodDisruptionBudget),
        topologies=await _all(client, TOPOLOGIES, Topology),
        cluster_topologies=published(
            await _all(client, CLUSTER_TOPOLOGIES, ClusterTopology),
            await _all(client, TOPOLOGY_BINDINGS, ClusterTopologyBinding),
        ),
    )


async def request_moves(door: Door, offer: ConsolidationOffer, limits: Consolidate) -> None:
    """Request moves by an annotation; the scheduler chooses them anew when it acts. Raises ClientError if refused."""
    group = offer.group
    body = {"metadata": {"annotations": {CONSOLIDATE: request(limits)}}}
    written(await door.merge_patch(PODGROUPS.ref(group.name, group.namespace), body, Precondition(group.uid)))


async def _all(client: ApiClient, path: ResourcePath, kind: type[T]) -> tuple[T, ...]:
    """All objects of a kind; empty if the server does not serve it."""
    try:
        return (await client.list(Selection(path), kind)).items
    except NotFound:
        return ()
