"""Puts workloads, one copy after the other, into a simulated cluster and builds the result from its state.

Planned pods get the PodGroups that an operator or the pod-grouper would write, and the API server's defaults; a refusal
of the server becomes an error message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kube_apimachinery.times import format_time
from spinney.api.builtin.claims import PersistentVolumeClaim, ResourceClaim
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Create, Json, Patch
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import GATE_PODGANG_PENDING, POD_GROUP_NAME
from spinney.core.expansion.settings import Settings
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import UserError
from spinney.core.grouping.podgroups import DesiredPodGroup, keep, mark
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.core.scheduling.gang.pod_shape import requests
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.core.view.best_score import with_best_score
from spinney.core.view.explanation import Levels, explain_gang
from spinney.core.view.plan_result import Copies, GangResult, PlanResult, WorkloadResult
from spinney.drive.client.paths import Key
from spinney.whatif.consolidation import MoveSearch
from spinney.whatif.context import ExistingOwner, put_manifest, put_scheduler_topologies, put_snapshot, without_existing
from spinney.whatif.expected import podcliqueset
from spinney.whatif.expected import workloads as owners
from spinney.whatif.expected.expected_pods import ExpectedPods, Registry, as_grouped, group_of
from spinney.whatif.expected.podcliqueset import NOTHING, ExistingSet
from spinney.whatif.expected.workloads import BadTemplate
from spinney.whatif.inputs.manifests import Manifest
from spinney.whatif.inputs.snapshot import Snapshot
from spinney.whatif.simulator import ClusterSimulator
from spinney.whatif.validation import PodAdmission, PodRefused


@dataclass(slots=True)
class MaterializedPods:
    """The result for the pods of a workload: the number of pods put into each PodGroup, and error messages."""

    asked: dict[Key, int] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    foreign_schedulers: set[str] = field(default_factory=set)

    def ask(self, key: Key) -> None:
        self.asked[key] = self.asked.get(key, 0) + 1

    def add_error(self, sentence: str) -> None:
        if sentence not in self.mistakes:
            self.mistakes.append(sentence)


class Materializer:
    """Writes to one simulated cluster. `names`: the scheduler names whose pods we schedule."""

    def __init__(
        self, simulator: ClusterSimulator, registry: Registry, names: frozenset[str], gate: PodAdmission
    ) -> None:
        self._simulator = simulator
        self._registry = registry
        self._gate = gate
        self._settings = GrouperSettings(scheduler_names=names)
        self._lookups = _lookups(simulator)

    def materialize(self, expected: ExpectedPods, raised: MaterializedPods) -> None:
        """Put the pods into the caches, with a scheduling gate if they wait for a gang that is not scheduled yet."""
        namespace = expected.pods[0]["metadata"]["namespace"]
        gated = bool(expected.after) and not self._simulator.minimum_is_placed((namespace, expected.after))
        self._make_claims(expected, namespace)
        try:
            pods = [self._admitted(body, gated) for body in expected.pods]
        except (PodRefused, msgspec.ValidationError) as error:
            raised.add_error(str(error))
            return
        if expected.podgroup is not None:
            self.write(expected.podgroup)
        for pod in pods:
            self._join(expected, pod, raised)

    def _admitted(self, body: Json, gated: bool) -> Json:
        """Admit a pod; a running pod was admitted before and is not validated again."""
        pod = self._gate.pod(_gated(body) if gated else body, check=not body["spec"].get("nodeName"))
        msgspec.convert(pod, Pod, strict=False)
        return pod

    def _make_claims(self, expected: ExpectedPods, namespace: str) -> None:
        views = self._simulator.views
        for name in expected.claims:
            if views.resource_claims.get((namespace, name)) is None:
                body = {"metadata": {"name": name, "namespace": namespace, "uid": self._registry.uid()}}
                self._simulator.put(views.resource_claims, msgspec.convert(body, ResourceClaim, strict=False))
        for claim in expected.volume_claims:
            key = (namespace, claim["metadata"]["name"])
            if views.claims.get(key) is None:
                made = msgspec.convert(
                    self._gate.claim(self._registry.adopt(claim)), PersistentVolumeClaim, strict=False
                )
                self._simulator.put(views.claims, made)

    def write(self, body: Json) -> None:
        """Create the PodGroup; an existing one is not changed."""
        metadata = body["metadata"]
        if self._simulator.views.podgroups.get((metadata["namespace"], metadata["name"])) is None:
            made = self._registry.adopt(body)
            made["metadata"]["creationTimestamp"] = format_time(self._simulator.now_s)
            self._simulator.put(self._simulator.views.podgroups, msgspec.convert(made, PodGroup, strict=False))

    def _join(self, expected: ExpectedPods, pod: Json, raised: MaterializedPods) -> None:
        if pod["spec"]["schedulerName"] not in self._settings.scheduler_names and not pod["spec"].get("nodeName"):
            raised.foreign_schedulers.add(pod["spec"]["schedulerName"])
            return
        runs_alone = pod["spec"].get("nodeName") and POD_GROUP_NAME not in pod["metadata"]["annotations"]
        if expected.podgroup is None and not runs_alone and not self._group(expected, pod, raised):
            return
        pod["metadata"]["creationTimestamp"] = format_time(self._simulator.now_s)
        made = msgspec.convert(pod, Pod, strict=False)
        self._simulator.put(self._simulator.views.pods, made)
        if not made.spec.node_name:
            raised.ask((made.metadata.namespace, made.metadata.annotations.get(POD_GROUP_NAME, "")))

    def _group(self, expected: ExpectedPods, pod: Json, raised: MaterializedPods) -> bool:
        answer = group_of(pod, expected.owners, expected.gang, self._lookups, self._settings)
        if isinstance(answer, UserError):
            raised.add_error(answer.sentence)
            return False
        if isinstance(answer, DesiredPodGroup):
            live = self._simulator.views.podgroups.get((answer.namespace, answer.name))
            changes = keep(answer, live, self._lookups)
            if isinstance(changes, UserError):
                raised.add_error(changes.sentence)
                return False
            self._carry_out(changes, live)
            for change in mark(answer, as_grouped(msgspec.convert(pod, Pod, strict=False))):
                _merge(pod, change.patch)
        return True

    def _carry_out(self, changes: Iterable[Any], live: PodGroup | None) -> None:
        for change in changes:
            if isinstance(change, Create):
                self.write(change.body)
            elif isinstance(change, Patch) and live is not None:
                body = msgspec.json.decode(msgspec.json.encode(live))
                _merge(body, change.patch)
                self._simulator.put(self._simulator.views.podgroups, msgspec.convert(body, PodGroup, strict=False))


def _gated(body: Json) -> Json:
    gates = [*(body["spec"].get("schedulingGates") or ()), {"name": GATE_PODGANG_PENDING}]
    return {**body, "spec": {**body["spec"], "schedulingGates": gates}}


def _merge(body: Json, patch: Json) -> None:
    """Apply a merge patch in place."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, dict):
            _merge(body.setdefault(key, {}), value)
        else:
            body[key] = value


def _lookups(simulator: ClusterSimulator) -> Lookups:
    views = simulator.views

    def keys(name: str) -> list[str] | None:
        found = views.topologies.get(("", name))
        return [level.node_label for level in found.spec.levels] if found is not None else None

    def domains(name: str) -> dict[str, str]:
        found = views.cluster_topologies.get(("", name))
        return {level.domain: level.key for level in found.spec.levels} if found is not None else {}

    def pod(namespace: str, name: str) -> Any:
        found = views.pods.get((namespace, name))
        return as_grouped(found) if found is not None else None

    return Lookups(
        keys,
        domains,
        lambda name: ("", name) in views.queues,
        lambda name: ("", name) in views.priority_classes,
        lambda namespace, name: views.podgroups.get((namespace, name)),
        pod,
        lambda namespace, name: [as_grouped(one) for one in views.pods_of((namespace, name))],
        lambda: [one.metadata.name for one in views.topologies],
        lambda: [one.metadata.name for one in views.queues],
    )


AS_MANY_AS_FIT = 0
_FEW_NOTES = 5
MOST_COPIES = 1000
"""Limit of the search for the number of copies that fit, besides the limit of planned pods."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One manifest that requests pods. `body`: the admitted object; None: it is refused.

    `there`: the existing objects of a PodCliqueSet; `existing`: those of any other owner. `waiting`: the number of its
    existing pods without a node, by PodGroup.
    """

    kind: str
    namespace: str
    name: str
    where: str
    body: Json | None = None
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exists: bool = False
    there: ExistingSet = NOTHING
    existing: ExistingOwner | None = None
    waiting: Mapping[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanRun:
    """All inputs of a run. `copies`: how many copies of all workloads are placed; stops when a copy does not fit."""

    snapshot: Snapshot
    world: Sequence[tuple[Manifest, Json]]
    workloads: Sequence[Workload]
    settings: Settings
    scheduler: SchedulerSettings
    copies: int
    registry: Registry
    now_s: float
    ignored: tuple[str, ...] = ()

    def answer(self) -> PlanResult:
        return _Simulation(self).play()


@dataclass(slots=True)
class _Copy:
    """One copy of all workloads, with the pods that were put into the simulation."""

    workloads: list[Workload]
    raised: list[MaterializedPods] = field(default_factory=list)


class _Simulation:
    """1. the cluster as it is, 2. what manifests add to it, 3. copy after copy, 4. the answer."""

    def __init__(self, placing: PlanRun) -> None:
        self._given = placing
        self._simulator = simulator = ClusterSimulator(placing.scheduler, placing.now_s)
        put_snapshot(simulator, placing.snapshot)
        for manifest, body in placing.world:
            put_manifest(simulator, manifest, body, placing.registry)
        put_scheduler_topologies(simulator, list(placing.settings.backends.values()), placing.registry)
        simulator.cluster.settle()
        simulator.settle()
        self._before = {key for key in map(_key, simulator.views.podgroups) if simulator.views.pods_of(key)}
        self._bound = {_key(pod) for pod in simulator.views.pods if pod.spec.node_name}
        gate = PodAdmission(simulator, placing.snapshot.limit_ranges)
        self._materializer = Materializer(simulator, placing.registry, placing.scheduler.names, gate)
        self._levels: dict[str, Levels] = {}
        self._notes: list[str] = list(placing.snapshot.notes)
        self._move_search: MoveSearch | None = None  # only for the first copy: the search is expensive

    def play(self) -> PlanResult:
        given = self._given
        first = self._place(list(given.workloads))
        self._move_search = MoveSearch(self._simulator, given.scheduler)
        workloads = tuple(self._results(first))
        self._move_search = None
        copies = self._copies(workloads) if given.copies != 1 else None
        if given.snapshot.if_refused and any(one.refusals for one in workloads):
            self._notes.append(given.snapshot.if_refused)
        if given.ignored:
            self._notes.append(f"left out, for their kinds are not planned: {', '.join(given.ignored)}")
        self._notes += self._unreadable()
        return PlanResult(
            workloads,
            len(self._simulator.views.nodes),
            given.snapshot.against,
            copies,
            tuple(dict.fromkeys(self._notes)),
        )

    def _unreadable(self) -> list[str]:
        """Notes about undecodable objects: a node with such a pod has no free capacity, other objects are left out."""
        results = self._simulator.complaints
        more = [f"{len(results) - _FEW_NOTES} more objects can not be read"] if len(results) > _FEW_NOTES else []
        return [*map(str, results[:_FEW_NOTES]), *more]

    def _copies(self, first: Sequence[WorkloadResult]) -> Copies:
        asked = None if self._given.copies == AS_MANY_AS_FIT else self._given.copies
        fitting, blocker = _count(first)
        if asked is None and (blocker is not None or not fitting):
            return Copies(asked, fitting, blocker=blocker)
        pods = sum(gang.pods for workload in first for gang in workload.gangs)
        number = 1
        while number < (asked or MOST_COPIES):
            if pods * (number + 1) > self._given.registry.most_pods:
                return Copies(asked, fitting, f"stopped at {pods * number} pods", blocker)
            number += 1
            fits, found = _count(list(self._results(self._place([_renamed(one, number) for one in self._workloads()]))))
            fitting += fits
            blocker = blocker or found
            if asked is None and not fits:
                return Copies(asked, fitting, blocker=blocker)
        return Copies(asked, fitting, "" if asked else f"stopped at {MOST_COPIES} copies", blocker)

    def _workloads(self) -> list[Workload]:
        """The workloads for another copy, without existing objects."""
        return [replace(one, exists=False, there=NOTHING, existing=None, waiting={}) for one in self._given.workloads]

    def _place(self, workloads: list[Workload]) -> _Copy:
        copy = _Copy(workloads, [MaterializedPods() for _ in workloads])
        for one, raised in zip(workloads, copy.raised, strict=True):
            if one.body is not None and one.body["kind"] == PodGroup.KIND:
                self._materializer.write(one.body)
                raised.asked[one.namespace, one.name] = 0
        expected_pods = [self._expected_pods(one, raised) for one, raised in zip(workloads, copy.raised, strict=True)]
        for wave in sorted({expected.wave for each in expected_pods for expected in each}):
            for each, raised in zip(expected_pods, copy.raised, strict=True):
                for expected in each:
                    if expected.wave == wave:
                        self._materializer.materialize(expected, raised)
            self._simulator.settle()
        _gather(copy.raised)
        return copy

    def _expected_pods(self, workload: Workload, raised: MaterializedPods) -> list[ExpectedPods]:
        given, body = self._given, workload.body
        if body is None:
            return []
        try:
            if body["kind"] == PodCliqueSet.KIND:
                topologies = self._simulator.views.cluster_topologies
                return podcliqueset.expected_pods_of(
                    body, lambda name: topologies.get(("", name)), given.settings, given.registry, workload.there
                )
            found = owners.expected_pods_of(body, given.registry) or []
        except BadTemplate as error:
            raised.add_error(str(error))
            return []
        return without_existing(found, workload.existing) if workload.existing is not None else found

    # Results

    def _results(self, copy: _Copy) -> Iterator[WorkloadResult]:
        for workload, raised in zip(copy.workloads, copy.raised, strict=True):
            for name in sorted(raised.foreign_schedulers):
                self._notes.append(f"pods for the scheduler {name} are not looked at")
            if workload.kind == "Pod" and not (raised.asked or raised.mistakes or workload.refusals):
                continue  # its gang is reported elsewhere, or it has its node
            if workload.kind == PodGroup.KIND and self._only_runs(raised) and not workload.refusals:
                continue
            there = {key: asked for key, asked in raised.asked.items() if key in self._simulator.views.podgroups}
            waiting = {key: pods for key, pods in workload.waiting.items() if key in self._simulator.views.podgroups}
            gangs = tuple(
                self._gang(key, there.get(key, 0), waiting.get(key, 0))
                for key in (*there, *sorted(waiting.keys() - there.keys()))
                if key in waiting or there[key] or not self._runs(key)
            )
            for key in raised.asked.keys() - there.keys():
                raised.add_error(self._simulator.stray_words(key))
            if workload.exists:
                self._notes.append(f"{workload.kind} {workload.name} exists: only what it lacks is asked for")
            yield WorkloadResult(
                workload.kind,
                workload.namespace,
                workload.name,
                workload.where,
                gangs,
                (*workload.refusals, *raised.mistakes),
                workload.warnings,
                workload.exists,
            )

    def _only_runs(self, raised: MaterializedPods) -> bool:
        return all(not asked and self._runs(key) for key, asked in raised.asked.items())

    def _runs(self, key: Key) -> bool:
        """Whether a gang runs already: it has pods, and all of them have nodes."""
        pods = self._simulator.views.pods_of(key)
        return bool(pods) and all(pod.spec.node_name for pod in pods)

    def _gang(self, key: Key, more: int, waiting: int) -> GangResult:
        """The result for a gang. `more` of its pods are planned, `waiting` ones exist and had no node."""
        simulator = self._simulator
        group = simulator.views.podgroups.get(key)
        assert group is not None
        pods = simulator.reported_pods(key)
        nodes = {
            name: node
            for pod in pods
            if (name := pod.spec.node_name) and (node := simulator.views.nodes.get(("", name)))
        }
        named = {group.spec.topology_constraint.topology, *_below(group)}
        shown = simulator.reported_group(key)
        explained = explain_gang(shown, pods, nodes, {name: self._levels_of(name) for name in named})
        explained = with_best_score(explained, shown, pods, simulator.cluster)
        is_new = key not in self._before
        asked = more + waiting
        placed = asked - sum(not pod.spec.node_name for pod in pods)
        fits = simulator.minimum_is_placed(key) if is_new or not more else placed == asked
        least = group.spec.min_member or sum(each.min_member or 0 for each in group.spec.sub_groups) or 1
        moves = self._move_search.moves_for(key) if self._move_search is not None and simulator.is_hopeless(key) else ()
        return GangResult(
            explained,
            fits,
            least,
            asked,
            max(placed, 0),
            tuple(simulator.victims.get(key, ())),
            moves,
            key in simulator.pipelined,
            is_new,
            _held(pod for pod in pods if pod.spec.node_name and _key(pod) not in self._bound),
        )

    def _levels_of(self, name: str) -> Levels:
        if name not in self._levels:
            views = self._simulator.views
            grove, kai = views.cluster_topologies.get(("", name)), views.topologies.get(("", name))
            short = {level.key: level.domain for level in grove.spec.levels} if grove is not None else {}
            keys = tuple(level.node_label for level in kai.spec.levels) if kai is not None else tuple(short)
            self._levels[name] = Levels(keys, short)
        return self._levels[name]


def _key(one: PodGroup | Pod) -> Key:
    return one.metadata.namespace, one.metadata.name


def _held(pods: Iterable[Pod]) -> dict[str, Counter[str]]:
    held: dict[str, Counter[str]] = {}
    for pod in pods:
        held.setdefault(pod.spec.node_name, Counter()).update(requests(pod))
    return held


def _below(group: PodGroup) -> set[str]:
    parts = group.spec.sub_groups
    return {each.topology_constraint.topology for each in parts if each.topology_constraint is not None}


def _gather(raised: Sequence[MaterializedPods]) -> None:
    """Report every gang once: with the manifest of its PodGroup, else with the first of its pods."""
    homes: dict[Key, MaterializedPods] = {}
    for one in sorted(raised, key=lambda one: 0 not in one.asked.values()):
        for key in one.asked:
            homes.setdefault(key, one)
    for one in raised:
        for key in [key for key in one.asked if homes[key] is not one]:
            homes[key].asked[key] += one.asked.pop(key)


def _count(results: Sequence[WorkloadResult]) -> tuple[int, GangResult | None]:
    """1 if the whole copy fits, else 0 with the first gang that does not fit."""
    blocker = next((gang for workload in results for gang in workload.gangs if not gang.fits), None)
    return int(all(workload.fits for workload in results)), blocker


def _renamed(workload: Workload, number: int) -> Workload:
    """The same workload with another name."""
    if workload.body is None:
        return workload
    body, name = workload.body, f"{workload.name}-{number}"
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    notes = dict(metadata.get("annotations") or {})
    if body["kind"] == "Pod" and POD_GROUP_NAME in notes:
        notes[POD_GROUP_NAME] = f"{notes[POD_GROUP_NAME]}-{number}"
    own = f"{metadata['name']}-{number}"
    return replace(workload, name=name, body={**body, "metadata": {**metadata, "name": own, "annotations": notes}})
