"""API objects reduced to what the invariants are about, and the state of the server made of them write by write.

A plan is based on a state slightly older than its record, so nodes and topologies keep their history. Shares no code
with the scheduler except the format and signature of its plans.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kube_apimachinery import quantity
from spinney.api.labels import KAI_STALE_TIMESTAMP, KAI_SUBGROUP_NAME, PLAN, POD_GROUP_NAME, TIED_TO
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan, PlanError, decode
from spinney.core.scheduling.plan_records import claimed, verify
from spinney.sim.invariants.queue_shares import QueueFacts
from spinney.sim.objects import Json

Key = tuple[str, str]
Amounts = Mapping[str, int]
LONE_LEAF = "default"


@dataclass(frozen=True, slots=True)
class PodFacts:
    key: Key
    uid: str
    group: Key | None
    leaf: str
    node: str
    asks: Amounts
    scheduler: str
    is_gated: bool
    is_leaving: bool
    is_over: bool
    is_explained: bool
    has_owner: bool

    @property
    def is_live(self) -> bool:
        return not self.is_leaving and not self.is_over

    @property
    def holds_room(self) -> bool:
        return bool(self.node) and not self.is_over


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a gang's tree: `least` pods for a leaf, `some` children for a group (None: all)."""

    name: str
    parent: str
    topology: str
    required: str
    least: int
    some: int | None = None


NOBODY: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class GangFacts:
    key: Key
    uid: str
    queue: str
    priority_class: str
    preemptibility: str
    parts: tuple[Part, ...]  # the root first
    plan: Plan | None
    epoch: int
    lease: str  # under which the epoch was counted
    tied_to: tuple[Key, str] | None
    is_broken: bool  # has a plan that cannot be decoded, or is not signed with a known key
    is_stale: bool  # is marked as running below its minimum

    @property
    def root(self) -> Part:
        return self.parts[0]

    def children(self, part: Part) -> list[Part]:
        return [one for one in self.parts[1:] if one.parent == part.name]

    def around(self, leaf: str) -> Iterator[Part]:
        """The leaf and everything above it, the root last."""
        by_name = {part.name: part for part in self.parts[1:]}
        at = by_name.get(leaf)
        for _ in self.parts:
            if at is None:
                break
            yield at
            at = by_name.get(at.parent)
        yield self.root

    def topology_of(self, part: Part) -> str:
        """The part's own topology, or that of its nearest ancestor."""
        return next((one.topology for one in self.around(part.name) if one.topology), "")

    def is_inside(self, pod: PodFacts, part: Part) -> bool:
        return part is self.root or any(one is part for one in self.around(pod.leaf or LONE_LEAF))

    def is_whole(self, part: Part, bound: Counter[str], *, strict: bool = True, lost: Counter[str] = NOBODY) -> bool:
        """Whether enough of a part is bound, counting those that were `lost`.

        With `strict`, every child that has bound pods must itself be whole.
        """
        children = self.children(part)
        if not children:
            return bound[part.name] + lost[part.name] >= part.least
        whole = sum(self.is_whole(child, bound, strict=strict, lost=lost) for child in children)
        begun = sum(self.has_begun(child, bound) for child in children) if strict else 0
        return whole >= max(begun, len(children) if part.some is None else part.some)

    def has_begun(self, part: Part, bound: Counter[str]) -> bool:
        children = self.children(part)
        return bound[part.name] > 0 if not children else any(self.has_begun(child, bound) for child in children)


def read_pod(obj: Json) -> PodFacts:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    name = (metadata.get("annotations") or {}).get(POD_GROUP_NAME)
    explained = any(
        one["type"] == "PodScheduled" and one["status"] == "False" and one.get("message")
        for one in status.get("conditions") or ()
    )
    return PodFacts(
        key=(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        group=(metadata["namespace"], name) if name else None,
        leaf=(metadata.get("labels") or {}).get(KAI_SUBGROUP_NAME, ""),
        node=spec.get("nodeName", ""),
        asks=_asks(spec),
        scheduler=spec.get("schedulerName", ""),
        is_gated=bool(spec.get("schedulingGates")),
        is_leaving=bool(metadata.get("deletionTimestamp")),
        is_over=status.get("phase") in ("Succeeded", "Failed"),
        is_explained=explained,
        has_owner=any(each.get("controller") for each in metadata.get("ownerReferences") or ()),
    )


def read_gang(obj: Json, keys: Sequence[bytes] = ()) -> GangFacts:
    """The facts of a PodGroup. With keys, a plan that was not signed with one of them is ignored."""
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = metadata.get("annotations") or {}
    groups = spec.get("subGroups") or []
    parts = [_part({**spec, "name": ""}, ""), *(_part(one, one.get("parent") or "") for one in groups)]
    if not groups:
        parts.append(Part(LONE_LEAF, "", "", "", max(1, spec.get("minMember") or 1)))
    namespace = metadata["namespace"]
    about = ObjectMeta(metadata["name"], namespace, metadata["uid"], annotations=annotations)
    mark = verify(keys, about) if keys else claimed(about)
    is_believed = mark is not None or not keys
    plan, is_broken = _read_plan(annotations.get(PLAN)) if is_believed else (None, PLAN in annotations)
    base, _, level = annotations.get(TIED_TO, "").partition(",")
    return GangFacts(
        key=(namespace, metadata["name"]),
        uid=metadata["uid"],
        queue=spec.get("queue", ""),
        priority_class=spec.get("priorityClassName", ""),
        preemptibility=spec.get("preemptibility", ""),
        parts=tuple(parts),
        plan=plan,
        epoch=mark.term.epoch if mark is not None else 0,
        lease=mark.term.lease if mark is not None else "",
        tied_to=((namespace, base), level) if level else None,
        is_broken=is_broken,
        is_stale=KAI_STALE_TIMESTAMP in annotations,
    )


def read_amounts(amounts: Mapping[str, str | int | float] | None) -> dict[str, int]:
    return {name: quantity.milli(text) for name, text in (amounts or {}).items()}


def _read_plan(text: str | None) -> tuple[Plan | None, bool]:
    if text is None:
        return None, False
    try:
        return decode(text), False
    except PlanError:
        return None, True


def _part(spec: Json, parent: str) -> Part:
    asked = spec.get("topologyConstraint") or {}
    return Part(
        name=spec["name"],
        parent=parent,
        topology=asked.get("topology", ""),
        required=asked.get("requiredTopologyLevel", ""),
        least=max(0, spec.get("minMember", 1)),
        some=spec.get("minSubGroup"),
    )


def _asks(spec: Json) -> dict[str, int]:
    total = _sum(_requests(one) for one in spec.get("containers") or ())
    for one in spec.get("initContainers") or ():
        for name, amount in _requests(one).items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in read_amounts(spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    total["pods"] = 1000
    return total


def _requests(container: Json) -> dict[str, int]:
    return read_amounts((container.get("resources") or {}).get("requests"))


def _sum(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in maps:
        total.update(each)
    return dict(total)


T = TypeVar("T")
K = TypeVar("K")


@dataclass(slots=True)
class History(Generic[T]):
    """Values and since when each held, newest last. None: the object did not exist."""

    versions: list[tuple[float, T | None]] = field(default_factory=list)

    def put(self, now_s: float, value: T | None) -> None:
        if not self.versions or self.versions[-1][1] != value:
            self.versions.append((now_s, value))

    @property
    def now(self) -> T | None:
        return self.versions[-1][1] if self.versions else None

    def forget(self, before_s: float) -> bool:
        """Drop values that ended before that moment; whether nothing is left but that it does not exist."""
        ended = sum(at_s < before_s for at_s, _ in self.versions[1:])
        del self.versions[:ended]
        return self.now is None and all(at_s < before_s for at_s, _ in self.versions)

    def since(self, moment_s: float) -> Iterator[T | None]:
        """Every value that held at that moment or later."""
        for (_, value), (end_s, _) in zip(self.versions, [*self.versions[1:], (float("inf"), None)], strict=True):
            if end_s >= moment_s:
                yield value


@dataclass(frozen=True, slots=True)
class NodeFacts:
    labels: Mapping[str, str]
    amounts: Amounts
    is_open: bool = True


@dataclass(slots=True)
class RecordedState:
    """Pods and gangs are written by `put_pod`, `remove_pod`, `put_gang` and `remove_gang`, which keep the indexes."""

    nodes: dict[str, History[NodeFacts]] = field(default_factory=lambda: defaultdict(History))
    levels: dict[str, History[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(History))
    pods: dict[Key, PodFacts] = field(default_factory=dict)
    gangs: dict[Key, GangFacts] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    queues: dict[str, History[QueueFacts]] = field(default_factory=lambda: defaultdict(History))
    gone: list[tuple[PodFacts, str, float]] = field(default_factory=list)  # deleted members, their queues and when
    _of_gang: dict[Key | None, dict[Key, PodFacts]] = field(default_factory=lambda: defaultdict(dict))
    _on_node: dict[str, dict[Key, PodFacts]] = field(default_factory=lambda: defaultdict(dict))
    _of_uid: dict[str, PodFacts] = field(default_factory=dict)
    _planned: dict[Key, GangFacts] = field(default_factory=dict)

    def put_pod(self, pod: PodFacts) -> None:
        self.remove_pod(pod.key)
        self.pods[pod.key] = self._of_uid[pod.uid] = pod
        self._of_gang[pod.group][pod.key] = self._on_node[pod.node][pod.key] = pod

    def remove_pod(self, key: Key) -> PodFacts | None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            del self._of_uid[pod.uid]
            _unlist(self._of_gang, pod.group, key)
            _unlist(self._on_node, pod.node, key)
        return pod

    def put_gang(self, gang: GangFacts) -> None:
        self.remove_gang(gang.key)
        self.gangs[gang.key] = gang
        if gang.plan is not None:
            self._planned[gang.key] = gang

    def remove_gang(self, key: Key) -> GangFacts | None:
        self._planned.pop(key, None)
        return self.gangs.pop(key, None)

    def members(self, gang: Key) -> list[PodFacts]:
        return list(self._of_gang[gang].values()) if gang in self._of_gang else []

    def pods_with(self, uids: Iterable[str]) -> list[PodFacts]:
        return [self._of_uid[uid] for uid in uids if uid in self._of_uid]

    def plans(self) -> list[Plan]:
        return [gang.plan for gang in self._planned.values() if gang.plan is not None]

    def usage(self, node: str, *, reserved: bool = False) -> dict[str, int]:
        """What bound pods request, in thousandths; with `reserved` also the pods that recorded plans assign there."""
        total: dict[str, int] = defaultdict(int)
        bound = [pod for pod in self._on_node.get(node, {}).values() if pod.holds_room]
        assigned = self.pods_with(self._assigned(node)) if reserved else []
        for pod in [*bound, *(pod for pod in assigned if pod.is_live and not pod.node)]:
            for name, amount in pod.asks.items():
                total[name] += amount
        return total

    def offered(self, node: str, since_s: float) -> list[Amounts]:
        """The node's allocatable now and at any time since that moment; empty if it did not exist."""
        return [facts.amounts for facts in self.nodes[node].since(since_s) if facts is not None]

    def domains(self, topology: str, level: str, node: str, since_s: float) -> set[tuple[str, ...]]:
        """The domains that the node is in, or has been in since that moment."""
        return {
            path
            for keys in self.levels[topology].since(since_s)
            for facts in self.nodes[node].since(since_s)
            if keys is not None and facts is not None and (path := _path(keys, level, facts.labels)) is not None
        }

    def stays(self, node: str, since_s: float) -> bool:
        """Whether the node exists and has existed all the time since that moment."""
        return bool(self.nodes[node].versions) and None not in self.nodes[node].since(since_s)

    def _assigned(self, node: str) -> frozenset[str]:
        plans = [plan for plan in self.plans() if plan.state == "bind"]
        return frozenset(assignment.uid for plan in plans for assignment in plan.assignments if assignment.node == node)

    def forget(self, before_s: float) -> None:
        """Drop what held before that moment only."""
        self.gone = [each for each in self.gone if each[2] >= before_s]
        for histories in (self.nodes, self.levels, self.queues):
            for name in [name for name, history in histories.items() if history.forget(before_s)]:
                del histories[name]


def _unlist(index: dict[K, dict[Key, PodFacts]], name: K, key: Key) -> None:
    index[name].pop(key, None)
    if not index[name]:
        del index[name]


def most(amounts: Iterable[Amounts], resource: str) -> int:
    return max((each.get(resource, 0) for each in amounts), default=0)


def _path(keys: tuple[str, ...], level: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    if level not in keys:
        return None
    path = [labels.get(key) for key in keys[: keys.index(level) + 1]]
    return tuple(str(value) for value in path) if None not in path else None
