"""The sub-groups of a PodGroup as a validated tree: what is not valid raises an error that users see.

Never looks at pods, and never repairs a tree: names are compared as written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from spinney.api.kinds.podgroup import PodGroupSpec, PodGroupTopologyConstraint, SubGroup
from spinney.api.placement.problem import Topology
from spinney.core.placement.gang.gang_tree import UNNAMED
from spinney.core.suggestions import did_you_mean

DEFAULT_LEAF = UNNAMED
DEEPEST = 64


class SubGroupError(ValueError):
    """The PodGroup contradicts itself or names what does not exist; the text is for its author."""


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """A field is None if nothing is requested."""

    topology: str | None = None
    required: str | None = None
    preferred: str | None = None


class SubGroupNode(msgspec.Struct, frozen=True):
    """A sub-group; the root has the empty name. A leaf has no `kids` and needs `min_member` pods together.

    0 is a leaf that may be empty, such as a group of workers that an autoscaler fills later.
    """

    name: str
    path: str
    constraint: Constraint
    min_member: int = 1
    min_groups: int | None = None
    kids: tuple[SubGroupNode, ...] = ()

    def leaves(self) -> Iterator[SubGroupNode]:
        if not self.kids:
            yield self
        for kid in self.kids:
            yield from kid.leaves()


@lru_cache(maxsize=1024)
def read_tree(spec: PodGroupSpec) -> SubGroupNode:
    """The tree; raises SubGroupError. Without sub-groups all pods are in the leaf `default`."""
    constraint = _constraint(spec.topology_constraint, "workload")
    if not spec.sub_groups:
        if spec.min_sub_group is not None:
            raise SubGroupError(f"minSubGroup is {spec.min_sub_group}, but there are no subGroups")
        leaf = SubGroupNode(DEFAULT_LEAF, DEFAULT_LEAF, Constraint(), max(spec.min_member or 0, 1))
        return SubGroupNode("", "", constraint, kids=(leaf,))
    below = _by_parent(spec.sub_groups)
    _check_reach(below, spec.sub_groups)
    kids = tuple([_branch(kid, below, "") for kid in below[None]])
    _check_minima("workload", spec.min_member, spec.min_sub_group, len(kids))
    return SubGroupNode("", "", constraint, min_groups=spec.min_sub_group, kids=kids)


def check_levels(root: SubGroupNode, topologies: Mapping[str, Topology]) -> None:
    """Every topology must exist and have the requested levels; raises SubGroupError."""
    stack = [root]
    while stack:
        branch = stack.pop()
        stack.extend(reversed(branch.kids))
        _check_constraint(branch, topologies)


def loosened(branch: SubGroupNode, topologies: Mapping[str, Topology]) -> SubGroupNode:
    """The tree without invalid constraints: it tells which members run where, but is not valid for placement."""
    try:
        _check_constraint(branch, topologies)
        constraint = branch.constraint
    except SubGroupError:
        constraint = Constraint()
    kids = tuple([loosened(kid, topologies) for kid in branch.kids])
    return msgspec.structs.replace(branch, constraint=constraint, kids=kids)


def who(name: str) -> str:
    return f"sub-group {name}" if name else "workload"


def unknown_topology(name: str, known: Collection[str]) -> str:
    return f"Requested topology {name} does not exist{did_you_mean(name, known)}"


def unknown_level(owner: str, level: str, kind: str, topology: str, known: Collection[str]) -> str:
    return (
        f"topology constraint error: {owner} specified '{level}' as the {kind} topology constraint level, but the "
        f"topology tree '{topology}' does not contain a level with this name{did_you_mean(level, known)}"
    )


def _check_constraint(branch: SubGroupNode, topologies: Mapping[str, Topology]) -> None:
    name = branch.constraint.topology
    if name is None:
        return
    topology = topologies.get(name)
    if topology is None:
        raise SubGroupError(unknown_topology(name, topologies))
    for kind, level in (("required", branch.constraint.required), ("preferred", branch.constraint.preferred)):
        if level is not None and level not in topology.levels:
            raise SubGroupError(unknown_level(who(branch.name), level, kind, name, topology.levels))


def _by_parent(groups: Sequence[SubGroup]) -> dict[str | None, list[SubGroup]]:
    names: set[str] = set()
    for group in groups:
        if group.name in names:
            raise SubGroupError(f"duplicate subgroup name {group.name}")
        if "/" in group.name:
            raise SubGroupError(f"subgroup name {group.name} has a slash")
        names.add(group.name)
    below: dict[str | None, list[SubGroup]] = {None: []}
    for group in groups:
        parent = group.parent or None
        if parent is not None and parent not in names:
            raise SubGroupError(f"parent {parent} of {group.name} was not found")
        below.setdefault(parent, []).append(group)
    return below


def _check_reach(below: Mapping[str | None, list[SubGroup]], groups: Sequence[SubGroup]) -> None:
    """A sub-group that cannot be reached from the root is on a cycle, or below one."""
    reached, layer, depth = 0, below[None], 0
    while layer:
        reached += len(layer)
        depth += 1
        if depth > DEEPEST:
            raise SubGroupError(f"subgroup {layer[0].name} is nested deeper than {DEEPEST} levels")
        layer = [kid for group in layer for kid in below.get(group.name, ())]
    if reached < len(groups):
        raise SubGroupError("cycle detected in subgroups")


def _branch(group: SubGroup, below: Mapping[str | None, list[SubGroup]], prefix: str) -> SubGroupNode:
    path = f"{prefix}{group.name}"
    kids = tuple([_branch(kid, below, f"{path}/") for kid in below.get(group.name, ())])
    _check_minima(who(group.name), group.min_member, group.min_sub_group, len(kids))
    return SubGroupNode(
        name=group.name,
        path=path,
        constraint=_constraint(group.topology_constraint, who(group.name)),
        min_member=1 if group.min_member is None else max(group.min_member, 0),
        min_groups=group.min_sub_group,
        kids=kids,
    )


def _check_minima(owner: str, min_member: int | None, min_sub_group: int | None, kids: int) -> None:
    if min_sub_group is None:
        return
    if min_member is not None:
        raise SubGroupError(
            f"{owner} has both minMember {min_member} and minSubGroup {min_sub_group}, expected one of them"
        )
    if not 0 <= min_sub_group <= kids:
        raise SubGroupError(f"minSubGroup of {owner} is {min_sub_group}, but it has {kids} sub-groups")


def _constraint(asked: PodGroupTopologyConstraint | None, owner: str) -> Constraint:
    if asked is None:
        return Constraint()
    levels = (("required", asked.required_topology_level), ("preferred", asked.preferred_topology_level))
    if not asked.topology:
        for kind, level in levels:
            if level:
                raise SubGroupError(
                    f"topology constraint error: {owner} specified '{level}' as the {kind} topology constraint level, "
                    "but no topology"
                )
        return Constraint()
    if not any(level for _, level in levels):
        subject = owner.replace("sub-group", "subgroup")
        raise SubGroupError(f"no topology constraints were found for {subject}, with topology name {asked.topology}")
    return Constraint(asked.topology, asked.required_topology_level or None, asked.preferred_topology_level or None)
