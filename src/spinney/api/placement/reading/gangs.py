"""The gangs of a problem: trees of groups and pod sets, and their members that already run.

Mistakes that have an answer (`invalid`) are not judged here: unknown levels, a minimum above the count, equal names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spinney.api.placement.problem import Gang, Group, NodeFilter, PodSet, Running, Tie
from spinney.api.placement.reading.errors import MAX_DEPTH, Path, refused, too_deep
from spinney.api.placement.reading.fields import MAX_AMOUNT, Scale, distinct, ports, whole
from spinney.api.placement.reading.node_filters import read_filter, unsupported
from spinney.api.placement.reading.wire import WireGang, WireGroup, WirePodSet, WireRunning

Nodes = Mapping[str, frozenset[str]]
"""Names of the nodes that exist, and of their zones."""


def read_gangs(wire: tuple[WireGang, ...], scale: Scale, nodes: Nodes) -> tuple[Gang, ...]:
    distinct([one.name for one in wire], ("gangs",), "name")
    reader = _Gangs(scale, nodes)
    return tuple(reader.gang(one, ("gangs", index)) for index, one in enumerate(wire))


class _Gangs:
    """Knows the nodes that exist and the filters seen so far: equal ones become one value."""

    def __init__(self, scale: Scale, nodes: Nodes) -> None:
        self._scale = scale
        self._nodes = nodes
        self._filters: dict[NodeFilter, NodeFilter] = {}

    def gang(self, wire: WireGang, path: Path) -> Gang:
        root = self._group(wire, "", path, path, 0)
        return Gang(
            name=wire.name,
            root=root,
            priority=_priority(wire.priority, (*path, "priority")),
            preemptible=wire.preemptible is not False,
            tied_to=Tie(wire.tied_to.gang, wire.tied_to.level) if wire.tied_to else None,
            running=self._running(wire.running, root, path) if wire.running else (),
        )

    def _group(self, wire: WireGang | WireGroup, name: str, path: Path, gang: Path, depth: int) -> Group:
        if depth > MAX_DEPTH:
            raise too_deep(gang)
        groups, pods = enumerate(wire.groups or ()), enumerate(wire.pods or ())
        return Group(
            name=name,
            groups=tuple(self._child(one, (*path, "groups", index), gang, depth + 1) for index, one in groups),
            pods=tuple(self._pod_set(one, (*path, "pods", index)) for index, one in pods),
            min_groups=wire.min_groups,
            topology=wire.topology,
            required=wire.required,
            preferred=wire.preferred,
        )

    def _child(self, wire: WireGroup, path: Path, gang: Path, depth: int) -> Group:
        return self._group(wire, _step(wire.name, path), path, gang, depth)

    def _pod_set(self, wire: WirePodSet, path: Path) -> PodSet:
        count = whole(wire.count, 1, (*path, "count"))
        found = read_filter(wire, path)
        return PodSet(
            name=_step(wire.name, path),
            request=self._scale.request(wire.request, (*path, "request")),
            count=count,
            min=whole(wire.min, count, (*path, "min")),
            filter=self._filters.setdefault(found, found),
            host_ports=ports(wire.host_ports, (*path, "hostPorts")),
            anti_affinity=tuple(dict.fromkeys(wire.anti_affinity or ())),
            topology=wire.topology,
            required=wire.required,
            preferred=wire.preferred,
            unsupported=unsupported(wire.affinity),
        )

    def _running(self, wire: tuple[WireRunning, ...], root: Group, path: Path) -> tuple[Running, ...]:
        known = frozenset(_paths(root, ""))
        for index, one in enumerate(wire):
            if one.pods not in known:
                raise refused((*path, "running", index, "pods"), one.pods, "the path of a pod set of this gang")
            if one.node not in self._nodes:
                raise refused((*path, "running", index, "node"), one.node, "the name of a node of this problem")
            if one.zone and one.zone not in self._nodes[one.node]:
                raise refused((*path, "running", index, "zone"), one.zone, f"the name of a zone of node {one.node}")
        return tuple(Running(one.pods, one.node, one.zone or "") for one in wire)


def _priority(number: int | None, path: Path) -> int:
    if number is None:
        return 0
    if abs(number) > MAX_AMOUNT:
        raise refused(path, number, f"a whole number from -{MAX_AMOUNT} to {MAX_AMOUNT}")
    return number


def _step(name: str, path: Path) -> str:
    """Names are joined by `/` into paths, so they are there and hold none."""
    if not name or "/" in name:
        raise refused((*path, "name"), name, "a name without /")
    return name


def _paths(group: Group, prefix: str) -> Iterator[str]:
    for pods in group.pods:
        yield prefix + pods.name
    for child in group.groups:
        yield from _paths(child, f"{prefix}{child.name}/")
