"""The kinds of the scheduler: PodGroups, a tree of sub-groups and levels that their topologies have (K3), and Queues.

What an operator made from a PodGang, or a pod-grouper from a workload, is only warned of where its topology does not
fit: no user has written it, and the scheduler says on it what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube_apimachinery.admission import AdmissionRequest, Lookup
from kube_apimachinery.field_errors import FieldError, invalid, required
from spinney.api.kinds.clustertopology import Topology
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup, PodGroupTopologyConstraint, SubGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import KAI_TOP_OWNER_METADATA
from spinney.core.admission.clustertopology import find_topology
from spinney.core.admission.decoding import read
from spinney.core.admission.findings import Findings, choice
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.scheduling.gang.subgroup_tree import DEEPEST

# Queue: a share has to say of what.


def check_queue(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    queue = read(request.object, Queue)
    if isinstance(queue, FieldError):
        found.refuse(queue)
        return
    old = read(request.old_object, Queue) if request.operation == "UPDATE" else None
    if isinstance(old, Queue) and old.spec == queue.spec:
        return
    if queue.spec.resources is None:
        found.refuse(required("spec.resources", "resources must be specified"))
    if queue.spec.parent_queue == request.name:
        found.refuse(invalid("spec.parentQueue", request.name, "a queue cannot be its own parent"))


_MAX_LOOKUPS = 6
"""Topologies of one PodGroup that are looked at; each takes two reads."""

Constraint = tuple[str, PodGroupTopologyConstraint]


def check_podgroup(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    """What is wrong now and was not before."""
    group = read(request.object, PodGroup)
    if isinstance(group, FieldError):
        found.refuse(group)
        return
    old = read(request.old_object, PodGroup) if request.operation == "UPDATE" else None
    known = old if isinstance(old, PodGroup) else None
    if known is not None and known.spec == group.spec:
        return
    before = {str(error) for error in _structure(known)} if known is not None else set()
    found.refuse_all(error for error in _structure(group) if str(error) not in before)
    checked = {constraint for _, constraint in _constraints(known)} if known is not None else set()
    asked = [(path, each) for path, each in _constraints(group) if each not in checked]
    errors = list(_unknown(asked, lookup))
    if _is_generated(group):
        for error in errors:
            found.warn(str(error))
    else:
        found.refuse_all(errors)


def _is_generated(group: PodGroup) -> bool:
    if KAI_TOP_OWNER_METADATA in group.metadata.annotations:
        return True
    owner = group.metadata.controller
    return owner is not None and owner.kind == PodGang.KIND and owner.api_version.startswith(f"{PodGang.GROUP}/")


def _structure(group: PodGroup) -> Iterator[FieldError]:
    """A tree: names that differ, parents that are there, no circle; minima of one kind."""
    groups = group.spec.sub_groups
    names: set[str] = set()
    for index, each in enumerate(groups):
        if each.name in names:
            path = f"spec.subGroups[{index}].name"
            yield invalid(path, each.name, f"duplicate subgroup name {each.name}")
        names.add(each.name)
    for index, each in enumerate(groups):
        if each.parent is not None and each.parent not in names:
            path = f"spec.subGroups[{index}].parent"
            yield invalid(path, each.parent, f"parent {each.parent} of {each.name} was not found")
    if circle := _circle(groups):
        yield invalid("spec.subGroups", circle, "cycle detected in subgroups")
    elif deep := _deepest(groups):
        yield invalid("spec.subGroups", deep, f"nested deeper than {DEEPEST} levels")
    yield from _minima(group)


def _circle(groups: tuple[SubGroup, ...]) -> str:
    """The first sub-group that is above itself; empty if there is none. Takes each step once."""
    parents = {each.name: each.parent for each in groups}
    checked: set[str] = set()
    for each in groups:
        walked: dict[str, None] = {}
        name: str | None = each.name
        while name is not None and name not in checked and name in parents:
            if name in walked:
                return name
            walked[name] = None
            name = parents[name]
        checked.update(walked)
    return ""


def _deepest(groups: tuple[SubGroup, ...]) -> str:
    """A sub-group that is nested too deeply; empty if there is none. Level by level, for there is no circle."""
    below: dict[str | None, list[str]] = {}
    for each in groups:
        below.setdefault(each.parent, []).append(each.name)
    layer = below.get(None, [])
    for _ in range(DEEPEST):
        layer = [kid for name in layer for kid in below.get(name, ())]
    return layer[0] if layer else ""


def _minima(group: PodGroup) -> Iterator[FieldError]:
    spec = group.spec
    children: dict[str | None, int] = {}
    for each in spec.sub_groups:
        children[each.parent] = children.get(each.parent, 0) + 1
    yield from _minimum("spec", spec.min_member, spec.min_sub_group, children.get(None, 0))
    for index, each in enumerate(spec.sub_groups):
        path = f"spec.subGroups[{index}]"
        yield from _minimum(path, each.min_member, each.min_sub_group, children.get(each.name, 0))


def _minimum(path: str, members: int | None, groups: int | None, children: int) -> Iterator[FieldError]:
    if groups is None:
        return
    if members is not None:
        yield invalid(f"{path}.minSubGroup", groups, "minMember and minSubGroup are mutually exclusive")
    if groups > children:
        yield invalid(f"{path}.minSubGroup", groups, f"must be at most the number of direct sub-groups, {children}")


def _constraints(group: PodGroup) -> Iterator[Constraint]:
    spec = group.spec
    if spec.topology_constraint != PodGroupTopologyConstraint():
        yield "spec.topologyConstraint", spec.topology_constraint
    for index, each in enumerate(spec.sub_groups):
        if each.topology_constraint not in (None, PodGroupTopologyConstraint()):
            assert each.topology_constraint is not None
            yield f"spec.subGroups[{index}].topologyConstraint", each.topology_constraint


@dataclass(frozen=True, slots=True)
class _Levels:
    keys: tuple[str, ...]
    domains: Mapping[str, str]


def _unknown(constraints: Iterable[Constraint], lookup: Lookup) -> Iterator[FieldError]:
    """Topologies that do not exist, and levels that their topology does not have."""
    seen: dict[str, _Levels | None] = {}
    for path, constraint in constraints:
        name = constraint.topology
        levels = {
            "requiredTopologyLevel": constraint.required_topology_level,
            "preferredTopologyLevel": constraint.preferred_topology_level,
        }
        asked = {field: level for field, level in levels.items() if level}
        if not name:
            yield required(f"{path}.topology", "a level is asked for, and levels are those of a topology")
            continue
        if not asked:
            yield required(
                f"{path}.requiredTopologyLevel", f"a topology alone asks for nothing: name a level of {name}"
            )
            continue
        if name not in seen:
            if len(seen) == _MAX_LOOKUPS:
                continue
            seen[name] = _levels(name, lookup)
        known = seen[name]
        if known is None:
            yield invalid(f"{path}.topology", name, f"Requested topology {name} does not exist")
        else:
            yield from _bad_levels(path, name, asked, known)


def _bad_levels(path: str, topology: str, asked: Mapping[str, str], known: _Levels) -> Iterator[FieldError]:
    for field, level in asked.items():
        if level in known.keys or level in known.domains.values():
            continue
        if level in known.domains:
            hint = f'"{level}" is the short name of a level: a PodGroup names its node label, "{known.domains[level]}"'
        else:
            hint = f"the topology tree '{topology}' does not contain a level with this name: [{choice(known.keys)}]"
        yield invalid(f"{path}.{field}", level, hint)


def _levels(name: str, lookup: Lookup) -> _Levels | None:
    topology = read(lookup(Topology.GROUP, Topology.PLURAL, "", name), Topology)
    if isinstance(topology, FieldError):
        return None
    cluster = find_topology(lookup, name)
    domains = {each.domain: each.key for each in cluster.spec.levels} if cluster is not None else {}
    return _Levels(tuple(level.node_label for level in topology.spec.levels), domains)
