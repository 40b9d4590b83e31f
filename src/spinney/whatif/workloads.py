"""Finds the gangs of a workload by its name and reads them from a cluster with their pods, nodes and levels.

Owners of any kind are identified by the references of their pods and PodGroups. Optional objects that cannot be read
are left out, and the explanation says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kube_apimachinery.name_validation import dns_label, dns_subdomain
from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.documents import LINE, DocumentError, read_document
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, in_force
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import (
    APP_PART_OF,
    DYNAMO_GRAPH_DEPLOYMENT,
    KAI_TOP_OWNER_METADATA,
    POD_GROUP_NAME,
    PODCLIQUE,
    PODGANG,
    SCALING_GROUP,
)
from spinney.api.meta import Condition, Kind, ObjectMeta, Slim, condition
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.reporting.report import POD_SCHEDULED
from spinney.core.view.best_score import with_best_score
from spinney.core.view.explanation import GangExplanation, Levels, WorkloadExplanation, explain_gang, lone_pod
from spinney.core.view.gang_list import GangRow, row_of
from spinney.core.view.mistakes import by_workload, explain_mistake, is_mistaken, mistake_row
from spinney.core.view.queue_list import QueueRow, queue_rows, with_those_above
from spinney.core.view.tree import natural
from spinney.drive.client.api import ApiClient, Listing, Selection
from spinney.drive.client.codec import Broken
from spinney.drive.client.errors import ConfigError, Forbidden, NotFound, Undecodable
from spinney.drive.client.informers.unreadable import Complaint
from spinney.drive.client.paths import ResourcePath
from spinney.drive.scheduler.caches import QUEUES

_SHORT = {
    "pcs": "podcliqueset",
    "pg": "podgroup",
    "pclq": "podclique",
    "pcsg": "podcliquescalinggroup",
    "dgd": "dynamographdeployment",
    "lws": "leaderworkerset",
    "deploy": "deployment",
    "sts": "statefulset",
}
_LABELLED = {
    PODGANG: "PodGang",
    PODCLIQUE: "PodClique",
    SCALING_GROUP: "PodCliqueScalingGroup",
    DYNAMO_GRAPH_DEPLOYMENT: "DynamoGraphDeployment",
}
_FIRST = ("DynamoGraphDeployment", "PodCliqueSet", "PodGang")
"""If several owner kinds match the same gangs, the kind that the user most likely created comes first."""


class WorkloadNotFound(Exception):
    """No object of that name exists, or it has no gang; the text says which."""


def find(groups: Sequence[PodGroup], pods: Sequence[Pod], name: str, kind: str) -> tuple[str, frozenset[str]] | None:
    """The kind of the object and the names of its PodGroups, possibly none; None if the name is unknown."""
    found = _candidates(groups, pods, name)
    asked = _singular(kind)
    if asked:
        found = {each: names for each, names in found.items() if each.lower() == asked}
    if not found:
        return None
    if len(set(found.values())) > 1:
        kinds = ", ".join(sorted(found))
        raise ValueError(f"{name} is the name of several objects: {kinds}; choose one with --kind")
    chosen = next((each for each in _FIRST if each in found), None) or min(found)
    return chosen, found[chosen]


def belongs(pod: Pod, kind: str, name: str) -> bool:
    """Whether a pod refers to that object as its owner."""
    return (kind, name) in _owners_of_pod(pod)


def is_kind(name: str, kind: str) -> bool:
    return not kind or name.lower() == _singular(kind)


def names_kind(word: str) -> bool:
    """Whether a word names a kind as kubectl takes it: `job`, `jobs.batch`, `pcs`."""
    return _singular(word) in _KINDS


def _singular(kind: str) -> str:
    """Normalise `jobs.batch`, `Job`, `pcs` to the singular kind in lower case, without the group."""
    word = kind.lower().partition(".")[0]
    word = _SHORT.get(word, word)
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _candidates(groups: Sequence[PodGroup], pods: Sequence[Pod], name: str) -> dict[str, frozenset[str]]:
    known: dict[str, set[str]] = {}
    for group in groups:
        for kind, owner in _owners_of_group(group):
            if owner == name:
                known.setdefault(kind, set()).add(group.metadata.name)
    for pod in pods:
        for kind, owner in _owners_of_pod(pod):
            if owner == name:
                group_name = pod.metadata.annotations.get(POD_GROUP_NAME)
                known.setdefault(kind, set()).update([group_name] if group_name else ())
    return {kind: frozenset(names) for kind, names in known.items()}


def _owners_of_group(group: PodGroup) -> Iterator[tuple[str, str]]:
    yield "PodGroup", group.metadata.name
    yield from _owners(group.metadata)
    written = _top_owner(group.metadata.annotations)
    if written.get("kind"):
        yield str(written["kind"]), str(written.get("name", ""))


def _owners_of_pod(pod: Pod) -> Iterator[tuple[str, str]]:
    yield "Pod", pod.metadata.name
    yield from _owners(pod.metadata)


def _owners(metadata: ObjectMeta) -> Iterator[tuple[str, str]]:
    for owner in metadata.owner_references:
        yield owner.kind, owner.name
    for label, kind in _LABELLED.items():
        if label in metadata.labels:
            yield kind, metadata.labels[label]
    if PODGANG in metadata.labels or any(owner.kind == "PodGang" for owner in metadata.owner_references):
        yield "PodCliqueSet", metadata.labels.get(APP_PART_OF, "")


def _top_owner(annotations: Mapping[str, str]) -> Mapping[str, object]:
    try:
        written = read_document(annotations.get(KAI_TOP_OWNER_METADATA, ""), limits=LINE)
    except DocumentError:
        return {}
    return written if isinstance(written, dict) else {}


T = TypeVar("T")
K = TypeVar("K", bound=Kind)

_PODS = ResourcePath("", "v1", "pods")
_NODES = ResourcePath("", "v1", "nodes", namespaced=False)
_FEW = 16


def _path(kind: type[Kind]) -> ResourcePath:
    return ResourcePath(kind.GROUP, kind.VERSION, kind.PLURAL, kind.NAMESPACED)


_GROUPS = _path(PodGroup)
OWNER_PATHS = {
    "PodCliqueSet": _path(PodCliqueSet),
    "DynamoGraphDeployment": _path(DynamoGraphDeployment),
    "PodGang": _path(PodGang),
    "Job": ResourcePath("batch", "v1", "jobs"),
    "Deployment": ResourcePath("apps", "v1", "deployments"),
    "StatefulSet": ResourcePath("apps", "v1", "statefulsets"),
    "JobSet": ResourcePath("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "LeaderWorkerSet": ResourcePath("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "PyTorchJob": ResourcePath("kubeflow.org", "v1", "pytorchjobs"),
    "MPIJob": ResourcePath("kubeflow.org", "v2beta1", "mpijobs"),
    "RayCluster": ResourcePath("ray.io", "v1", "rayclusters"),
    "RayJob": ResourcePath("ray.io", "v1", "rayjobs"),
}
"""Kinds whose objects may exist before they have pods."""
_OTHER_KINDS = ("Pod", "PodGroup", "PodClique", "PodCliqueScalingGroup", "ReplicaSet", "TrainJob", "Service")
_KINDS = frozenset(kind.lower() for kind in (*OWNER_PATHS, *_OTHER_KINDS))


_FEW_NOTES = 3
_NO_GROUP = "none of its pods is in a PodGroup"


class _Conditions(Slim, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Policy(Slim, frozen=True):
    suspend: bool | None = None


class _OwnerSpec(Slim, frozen=True):
    suspend: bool | None = None
    run_policy: _Policy = _Policy()


class _Owner(Slim, frozen=True):
    """The fields of any owner that show whether it is suspended."""

    spec: _OwnerSpec = _OwnerSpec()
    status: _Conditions = _Conditions()

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.suspend or self.spec.run_policy.suspend)


async def read_explanation(client: ApiClient, namespace: str, name: str, kind: str) -> WorkloadExplanation:
    """Read a workload. Raises WorkloadNotFound, and ClientError if the cluster or the workload cannot be read."""
    if dns_label(namespace) or dns_subdomain(name):
        raise _nobody(namespace, name, kind)  # no server has an object of such a name
    listed = await _list_groups(client, namespace)
    listed_pods = await client.list(Selection(_PODS, namespace), Pod)
    groups, pods = listed.items, listed_pods.items
    found, names = find(groups, pods, name, kind) or ("", frozenset())
    if not found:
        _refuse_unreadable("PodGroup", _GROUPS, listed.broken, {name}, kind)
        _refuse_unreadable("Pod", _PODS, listed_pods.broken, {name}, kind)
        raise await _missing(client, namespace, name, kind)
    if not names:
        return _ungrouped(pods, found, namespace, name)
    chosen = [group for group in groups if group.metadata.name in names]
    if not chosen:
        _refuse_unreadable("PodGroup", _GROUPS, listed.broken, names)
        raise WorkloadNotFound(f"PodGroup {namespace}/{min(names)}, which {found} {name} names, does not exist")
    members = {group.metadata.name: _members(pods, group) for group in chosen}
    nodes, notes = await _nodes(client, {pod.spec.node_name for each in members.values() for pod in each})
    levels = {each: await _levels(client, each) for each in _topologies(chosen)}
    notes = notes or _lost([pod for each in members.values() for pod in each], nodes)
    notes += _ungrouped_notes(pods, found, name)
    notes += _left_out(_GROUPS, [each for each in listed.broken if each.key[1] in names])
    notes += _left_out(_PODS, [each for each in listed_pods.broken if each.annotations.get(POD_GROUP_NAME) in names])
    known = {each: node for each, node in nodes.items() if isinstance(node, Node)}
    cases = [(group, members[group.metadata.name]) for group in chosen]
    gangs = await _with_best_scores(client, cases, [explain_gang(*case, known, levels) for case in cases])
    paused = not any(gang.members for gang in gangs) and await _is_suspended(client, found, namespace, name)
    ordered = sorted(gangs, key=lambda gang: natural(gang.name))
    queues = await _queues_of(client, {gang.queue for gang in ordered if gang.waits})
    return WorkloadExplanation(found, namespace, name, tuple(ordered), tuple(notes), paused, queues)


async def _queues_of(client: ApiClient, names: Collection[str]) -> tuple[QueueRow, ...]:
    """These queues and those above them that bound anything, if they may be read; none if nothing is bounded."""
    try:
        found = (await client.list(Selection(QUEUES), Queue)).items if names else []
    except (NotFound, Forbidden):
        return ()
    rows = with_those_above(queue_rows(found), names)
    is_bounded = any(row.is_bounded for row in rows)
    return tuple([row for row in rows if is_bounded and (row.is_bounded or row.name in names)])


@dataclass(frozen=True, slots=True)
class GangList:
    """The gangs of a cluster or namespace, and what could not be read."""

    rows: tuple[GangRow, ...]
    notes: tuple[str, ...] = ()


async def read_gangs(client: ApiClient, namespace: str = "") -> GangList:
    """Read all gangs; `namespace`: only those of it. Raises ClientError if they cannot be read."""
    groups, pods = await _list_groups(client, namespace), await client.list(Selection(_PODS, namespace), Pod)
    members: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods.items:
        if name := pod.metadata.annotations.get(POD_GROUP_NAME, ""):
            members.setdefault((pod.metadata.namespace, name), []).append(pod)
    nodes, notes = await _nodes(client, {pod.spec.node_name for each in members.values() for pod in each})
    levels = {each: await _levels(client, each) for each in sorted(_topologies(groups.items))}
    known = {each: node for each, node in nodes.items() if isinstance(node, Node)}
    cases = [(group, members.get((group.metadata.namespace, group.metadata.name), [])) for group in groups.items]
    explained = await _with_best_scores(client, cases, [explain_gang(*case, known, levels) for case in cases])
    rows = [row_of(group, each, own) for (group, own), each in zip(cases, explained, strict=True)]
    rows += [mistake_row(each) for each in by_workload(pods.items).values()]
    return GangList(tuple(rows), tuple(notes))


async def _list_groups(client: ApiClient, namespace: str) -> Listing[PodGroup]:
    try:
        return await client.list(Selection(_GROUPS, namespace), PodGroup)
    except NotFound:
        served = f"{PodGroup.PLURAL}.{PodGroup.GROUP}"
        raise ConfigError(f"the cluster does not serve {served}: apply `spinney manifests crds` first") from None


async def _is_suspended(client: ApiClient, kind: str, namespace: str, name: str) -> bool:
    path = OWNER_PATHS.get(kind)
    reported = await _lookup(client, path, name, namespace, _Owner) if path is not None else None
    return reported is not None and reported.is_suspended


def _refuse_unreadable(
    found: str, path: ResourcePath, broken: Sequence[Broken], names: Collection[str], kind: str = ""
) -> None:
    """Raises Undecodable if the requested object exists but cannot be decoded."""
    thing = next((each for each in broken if each.key[1] in names), None)
    if thing is not None and is_kind(found, kind):
        raise Undecodable(str(Complaint(path, thing)))


def _left_out(path: ResourcePath, broken: Sequence[Broken]) -> list[str]:
    return [f"left out: {Complaint(path, each)}" for each in broken[:_FEW_NOTES]]


def _lost(members: Sequence[Pod], nodes: Mapping[str, Node | Broken]) -> list[str]:
    """Notes about pods that are bound to deleted nodes and have not been deleted yet."""
    bound = [pod for pod in members if pod.spec.node_name and not pod.is_over]
    return [
        f"node {pod.spec.node_name} of pod {pod.metadata.name} does not exist any more"
        for pod in bound
        if pod.spec.node_name not in nodes
    ][:_FEW_NOTES]


def _ungrouped_notes(pods: Sequence[Pod], kind: str, name: str) -> list[str]:
    """Notes about pending pods of the workload that are in no gang."""
    alone = [
        pod
        for pod in pods
        if belongs(pod, kind, name) and not pod.spec.node_name and POD_GROUP_NAME not in pod.metadata.annotations
    ]
    reported = [(pod.metadata.name, pod.condition(POD_SCHEDULED)) for pod in alone[:_FEW_NOTES]]
    return [
        f"pod {each} is in no gang yet{f': {scheduled.message}' if scheduled and scheduled.message else ''}"
        for each, scheduled in reported
    ]


def _ungrouped(pods: Sequence[Pod], kind: str, namespace: str, name: str) -> WorkloadExplanation:
    kept_out = [pod for pod in pods if is_mistaken(pod) and belongs(pod, kind, name)]
    if kept_out and kind != "Pod":
        return WorkloadExplanation(kind, namespace, name, (explain_mistake(kept_out),))
    pod = next((pod for pod in pods if pod.metadata.name == name and kind == "Pod"), None)
    if pod is None:
        reported = (pod.condition(POD_SCHEDULED) for pod in pods if belongs(pod, kind, name))
        scheduled = next((one.message for one in reported if one is not None and one.message), _NO_GROUP)
        raise WorkloadNotFound(f"{kind} {namespace}/{name} has no gang yet: {scheduled}")
    return lone_pod(pod)


def _members(pods: Iterable[Pod], group: PodGroup) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.annotations.get(POD_GROUP_NAME) == group.metadata.name]


async def _missing(client: ApiClient, namespace: str, name: str, kind: str) -> WorkloadNotFound:
    """The error: the object exists but has no pods yet, or it does not exist."""
    wanted = {each: path for each, path in OWNER_PATHS.items() if is_kind(each, kind)}
    for each, path in wanted.items():
        found = await _lookup(client, path, name, namespace, _Owner)
        if found is not None and found.is_suspended:
            return WorkloadNotFound(f"{each} {namespace}/{name} is suspended and has no pods")
        if found is not None:
            ready = condition(found.status.conditions, "Ready")
            why = ready.message if ready is not None and ready.status == "False" and ready.message else _NO_GROUP
            return WorkloadNotFound(f"{each} {namespace}/{name} has no gang yet: {why}")
    return _nobody(namespace, name, kind)


def _nobody(namespace: str, name: str, kind: str) -> WorkloadNotFound:
    return WorkloadNotFound(f"there is no {kind or 'workload or pod'} {namespace}/{name}")


async def _lookup(client: ApiClient, path: ResourcePath, name: str, namespace: str, kind: type[T]) -> T | None:
    """The object; None if it does not exist or we may not read it. Raises ClientError if it cannot be read."""
    try:
        return await client.get(path.ref(name, namespace), kind)
    except (NotFound, Forbidden):
        return None


async def _nodes(client: ApiClient, names: set[str]) -> tuple[dict[str, Node | Broken], list[str]]:
    """The nodes that exist (an undecodable one as `Broken`), and notes."""
    wanted = sorted(names - {""})
    try:
        if len(wanted) > _FEW:
            listed = await client.list(Selection(_NODES), Node)
            there: dict[str, Node | Broken] = {node.metadata.name: node for node in listed.items}
            there |= {thing.key[1]: thing for thing in listed.broken}
            return {name: there[name] for name in wanted if name in there}, []
        found = {name: await client.look_up(_NODES.ref(name), Node) for name in wanted}
    except Forbidden:
        return {}, ["nodes may not be read: domains are those written to pods when they were bound"]
    return {name: node for name, node in found.items() if node is not None}, []


def _topologies(groups: Iterable[PodGroup]) -> set[str]:
    """The topologies named by the constraints of the gangs and their sub-groups."""
    named = set()
    for group in groups:
        parts = [each.topology_constraint for each in group.spec.sub_groups]
        named |= {each.topology for each in (group.spec.topology_constraint, *parts) if each is not None}
    return named - {""}


async def _levels(client: ApiClient, name: str) -> Levels:
    """The keys of a topology and their short names."""
    cluster = await _grove_topology(client, name)
    short = {level.key: level.domain for level in cluster.spec.levels} if cluster is not None else {}
    own = await _topology(client, Topology, name)
    keys = tuple(level.node_label for level in own.spec.levels) if own is not None else tuple(short)
    return Levels(keys, short)


async def _with_best_scores(
    client: ApiClient, cases: Sequence[tuple[PodGroup, list[Pod]]], explained: Sequence[GangExplanation]
) -> list[GangExplanation]:
    """All nodes are read only if a gang has less than the best of all scores, and may be read."""
    if not any(each.score is not None and each.score < 1 for each in explained):
        return list(explained)
    cluster = Cluster()
    try:
        for node in (await client.list(Selection(_NODES), Node)).items:
            cluster.put_node(node.metadata.name, node)
    except Forbidden:
        return list(explained)
    for name in sorted(_topologies(group for group, _ in cases)):
        cluster.put_kai_topology(name, await _topology(client, Topology, name))
        cluster.put_cluster_topology(name, await _grove_topology(client, name))
    cluster.settle()
    return [with_best_score(each, *case, cluster) for case, each in zip(cases, explained, strict=True)]


async def _grove_topology(client: ApiClient, name: str) -> ClusterTopology | ClusterTopologyBinding | None:
    named = await _topology(client, ClusterTopologyBinding, name)
    return in_force(named, await _topology(client, ClusterTopology, name))


async def _topology(client: ApiClient, kind: type[K], name: str) -> K | None:
    """The topology; None if it does not exist, we may not read it or it cannot be decoded."""
    try:
        found = await client.look_up(_path(kind).ref(name), kind)
    except Forbidden:
        return None
    return None if isinstance(found, Broken) else found
