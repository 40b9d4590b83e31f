"""A gang as a flat list of parts: the tree of groups and pod sets, with every topology level resolved.

Where `minGroups` leaves a choice of children, the choices are listed here as well. Independent of nodes: what a gang
asks for is the same in any cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from spinney.api.placement.problem import Gang, Group, PodSet, Topology
from spinney.core.placement.gang.pod_affinity import (
    NO_AFFINITY,
    GangAffinity,
    UnknownPodSet,
    check_preferences,
    read_gang_affinity,
)

UNNAMED = "default"
"""The name of a gang's only pod set when the user gave none."""


class Invalid(ValueError):
    """The gang contradicts itself or refers to something that does not exist; the text says what and where."""

    def __init__(self, reason: str, group: str = "", level: str | None = None) -> None:
        super().__init__(reason)
        self.group = group
        self.level = level


class Level(NamedTuple):
    """A level of a topology; depth 1 is the broadest."""

    topology: str
    depth: int
    key: str


@dataclass(slots=True, eq=False)
class Part:
    """A group or a pod set of a gang. `children` are groups before pod sets, in the order of the problem."""

    index: int
    path: str
    parent: int
    depth: int
    pods: PodSet | None = None
    children: tuple[int, ...] = ()
    need: int = 0  # how many children must be satisfied
    required: Level | None = None
    preferred: Level | None = None
    topology: str | None = None
    kind: int = 0  # equal kinds ask for the same


@dataclass(slots=True)
class GangTree:
    """All parts, parents before children; `preferences`: those with a preferred level, in order of precedence."""

    gang: Gang
    all: list[Part] = field(default_factory=list)
    leaves: list[Part] = field(default_factory=list)
    preferences: list[Part] = field(default_factory=list)
    affinity: GangAffinity = NO_AFFINITY
    prefers_affinity: bool = False

    def of(self, gang: Gang) -> GangTree:
        """The same parts for another gang of the same template."""
        return GangTree(gang, self.all, self.leaves, self.preferences, self.affinity, self.prefers_affinity)

    def leaf(self, path: str) -> Part:
        return next(part for part in self.leaves if part.path == path)

    def below(self, part: Part) -> list[Part]:
        """The pod sets at or below a part."""
        found: list[Part] = []
        stack = [part.index]
        while stack:
            at = self.all[stack.pop()]
            if at.pods is not None:
                found.append(at)
            stack.extend(reversed(at.children))
        return found

    def above(self, part: Part) -> list[Part]:
        """The part and its ancestors, narrow to broad."""
        found = [part]
        while part.parent >= 0:
            part = self.all[part.parent]
            found.append(part)
        return found


def read_gang_tree(gang: Gang, topologies: Mapping[str, Topology]) -> GangTree:
    """Resolve a gang, or raise Invalid with the first error in the order of the tree."""
    parts = GangTree(gang)
    _add_group(parts, gang.root, None, "", -1, 0, topologies)
    _check_running(parts)
    parts.prefers_affinity = any(leaf.pods.affinity_preferences for leaf in parts.leaves if leaf.pods)
    parts.affinity = _affinity(parts)
    _set_kinds(parts)
    parts.preferences = sorted((part for part in parts.all if part.preferred), key=_order_of_preferences)
    return parts


def _affinity(parts: GangTree) -> GangAffinity:
    try:
        if parts.prefers_affinity:
            check_preferences([(part.path, part.pods) for part in parts.leaves if part.pods])
        return read_gang_affinity([(part.index, part.path, part.pods) for part in parts.leaves if part.pods])
    except UnknownPodSet as error:
        raise Invalid(str(error)) from None


def asked_resources(parts: GangTree, resources: Sequence[str]) -> list[int]:
    """The resources a gang requests in the order of best fit: extended ones by name, then cpu, memory, pods."""
    last = {"cpu": 1, "memory": 2, "pods": 3}
    wanted = {r for leaf in parts.leaves if leaf.pods for r, amount in enumerate(leaf.pods.request) if amount}
    return sorted(wanted, key=lambda r: (last.get(resources[r], 0), resources[r]))


def _order_of_preferences(part: Part) -> tuple[int, bool, int]:
    return part.depth, part.pods is not None, part.index


def _add_group(
    parts: GangTree,
    group: Group,
    inherited: str | None,
    path: str,
    parent: int,
    depth: int,
    topologies: Mapping[str, Topology],
) -> int:
    part = Part(len(parts.all), path, parent, depth)
    parts.all.append(part)
    topology = group.topology if group.topology is not None else inherited
    part.topology = topology
    part.required, part.preferred = _levels(group, topology, path, topologies)
    _check_names(group, path)
    prefix = f"{path}/" if path else ""
    children = [
        _add_group(parts, child, topology, prefix + child.name, part.index, depth + 1, topologies)
        for child in group.groups
    ]
    children += [
        _add_pods(parts, pods, topology, prefix + pods.name, part.index, depth + 1, topologies) for pods in group.pods
    ]
    part.children = tuple(children)
    part.need = _needed_children(group, len(children), path)
    return part.index


def _add_pods(
    parts: GangTree,
    pods: PodSet,
    inherited: str | None,
    path: str,
    parent: int,
    depth: int,
    topologies: Mapping[str, Topology],
) -> int:
    part = Part(len(parts.all), path, parent, depth, pods=pods)
    parts.all.append(part)
    parts.leaves.append(part)
    topology = pods.topology if pods.topology is not None else inherited
    part.topology = topology
    part.required, part.preferred = _levels(pods, topology, path, topologies)
    if pods.min > pods.count:
        raise Invalid(f"{_name(path)}: min {pods.min} is more than count {pods.count}", path)
    if pods.unsupported:
        raise Invalid(f"{_name(path)}: {pods.unsupported}", path)
    return part.index


def _levels(
    asked: Group | PodSet, topology: str | None, path: str, topologies: Mapping[str, Topology]
) -> tuple[Level | None, Level | None]:
    if topology is None:
        for field_name, key in (("required", asked.required), ("preferred", asked.preferred)):
            if key is not None:
                raise Invalid(f"{_name(path)}: {field_name} level {key} is given without a topology", path, key)
        return None, None
    known = topologies.get(topology)
    if known is None:
        raise Invalid(f"{_name(path)}: topology {topology} does not exist, {_known('topologies', topologies)}", path)
    if not known.levels:
        raise Invalid(f"{_name(path)}: topology {topology} has no levels", path)
    return _level(known, "required", asked.required, path), _level(known, "preferred", asked.preferred, path)


def _level(topology: Topology, field_name: str, key: str | None, path: str) -> Level | None:
    if key is None:
        return None
    if key not in topology.levels:
        levels = ", ".join(topology.levels)
        raise Invalid(
            f"{_name(path)}: {field_name} level {key} is not a level of topology {topology.name}, which has {levels}",
            path,
            key,
        )
    return Level(topology.name, topology.levels.index(key) + 1, key)


def _known(what: str, names: Mapping[str, object]) -> str:
    return f"known {what}: {', '.join(sorted(names)) or 'none'}"


def _check_names(group: Group, path: str) -> None:
    seen: set[str] = set()
    for name in [child.name for child in group.groups] + [pods.name for pods in group.pods]:
        if name in seen:
            raise Invalid(f"{_name(path)}: two children have the name {name}", path)
        seen.add(name)


def _needed_children(group: Group, children: int, path: str) -> int:
    if group.min_groups is None:
        return children
    if not 0 <= group.min_groups <= children:
        raise Invalid(
            f"{_name(path)}: minGroups is {group.min_groups}, allowed are 0 to {children}, its children", path
        )
    return group.min_groups


def _check_running(parts: GangTree) -> None:
    counts: dict[str, int] = {}
    for running in parts.gang.running:
        counts[running.pods] = counts.get(running.pods, 0) + 1
    for part in parts.leaves:
        assert part.pods is not None
        if counts.get(part.path, 0) > part.pods.count:
            raise Invalid(
                f"{_name(part.path)}: {counts[part.path]} pods are running, more than count {part.pods.count}",
                part.path,
            )


def _set_kinds(parts: GangTree) -> None:
    """Equal subtrees get equal kinds; parts with running members are of their own kind."""
    kinds: dict[object, int] = {}
    runs = {running.pods for running in parts.gang.running}
    for part in reversed(parts.all):
        pods = part.pods
        asked: object = ()
        if pods is not None:
            affinity = parts.affinity.kind(part.index) if parts.affinity else ()
            asked = (pods.request, pods.min, pods.count, pods.filter, pods.host_ports, pods.anti_affinity, affinity)
        own = part.path if part.path in runs else ""
        key = (
            asked,
            part.need,
            part.required,
            part.preferred,
            tuple(parts.all[child].kind for child in part.children),
            own,
        )
        part.kind = kinds.setdefault(key, len(kinds))


def _name(path: str) -> str:
    return path or "the gang"


ChosenChildren = dict[int, tuple[int, ...]]
"""For every group (by index of its part) the children that count."""


def all_children(parts: GangTree) -> ChosenChildren:
    return {part.index: part.children for part in parts.all if part.pods is None}


def has_choice(parts: GangTree) -> bool:
    return any(part.need < len(part.children) for part in parts.all)


def choices(parts: GangTree, needs: Mapping[int, int], top: Part | None = None) -> Iterator[ChosenChildren]:
    """Every selection of children that satisfies the minimum; children that need nothing more come for free.

    With `top` only groups at or below that part have a choice.
    """
    free = _satisfied(parts, needs)
    choosers = [
        part for part in parts.all if part.need < len(part.children) and (top is None or top in parts.above(part))
    ]
    start = all_children(parts)
    if not choosers:
        yield start
        return
    trail = [_selections(parts, choosers[0], free)]
    chosen: list[tuple[int, ...]] = []
    while trail:
        selection = next(trail[-1], None)
        if selection is None:
            trail.pop()
            if chosen:
                chosen.pop()
            continue
        chosen.append(selection)
        if len(chosen) == len(choosers):
            yield start | {part.index: children for part, children in zip(choosers, chosen, strict=True)}
            chosen.pop()
            continue
        following = choosers[len(chosen)]
        if _is_active(parts, following, choosers, chosen):
            trail.append(_selections(parts, following, free))
        else:
            trail.append(iter([()]))  # the group itself is not chosen, so its children do not matter


def may_need_more(parts: GangTree) -> bool:
    """Whether a gang could fit only with more children than its minimum has: some of them have to be near to others."""
    return bool(parts.affinity.near) and has_choice(parts)


def larger_choices(parts: GangTree, needs: Mapping[int, int]) -> Iterator[ChosenChildren]:
    """The selections that could be satisfiable where none of `choices` is, those with the fewest more first."""
    return grown(parts, choices(parts, needs), needs) if may_need_more(parts) else iter(())


def every_choice(parts: GangTree, needs: Mapping[int, int]) -> Iterator[ChosenChildren]:
    """Every selection that could be satisfiable, the minimal ones first."""
    return chain(choices(parts, needs), larger_choices(parts, needs))


def grown(parts: GangTree, start: Iterable[ChosenChildren], needs: Mapping[int, int]) -> Iterator[ChosenChildren]:
    """The given selections with more children, those with the fewest more first.

    Only children are added that have pods which a chosen pod set has to be near to: others only take room.
    """
    layer = list(start)
    while layer:
        larger = [more for each in layer for more in _with_company(parts, each, needs)]
        layer = list({tuple(each.items()): each for each in larger}.values())
        yield from layer


def _with_company(parts: GangTree, children: ChosenChildren, needs: Mapping[int, int]) -> Iterator[ChosenChildren]:
    near = [one for one in parts.affinity.near if needs.get(one.leaf) and is_chosen(parts, one.leaf, children)]
    wanted = {leaf for one in near for leaf in one.others if needs.get(leaf)}
    for child in sorted({_left_out(parts, leaf, children) for leaf in wanted} - {-1}):
        yield from with_child(parts, children, parts.all[child], needs)


def with_child(
    parts: GangTree, children: ChosenChildren, child: Part, needs: Mapping[int, int]
) -> Iterator[ChosenChildren]:
    """A selection with one more child, of a chosen part; below the child all selections that satisfy it."""
    below = [each.index for each in parts.all if each.pods is None and child in parts.above(each)]
    beside = tuple(sorted((*children[child.parent], child.index)))
    for inside in choices(parts, needs, child):
        yield children | {child.parent: beside} | {group: inside[group] for group in below}


def is_chosen(parts: GangTree, index: int, children: ChosenChildren) -> bool:
    """Whether a part and all its ancestors are chosen."""
    return _left_out(parts, index, children) < 0


def _left_out(parts: GangTree, index: int, children: ChosenChildren) -> int:
    """The broadest part, at or above the given one, that its parent does without; -1 if there is none."""
    found = -1
    while (parent := parts.all[index].parent) >= 0:
        if children[parent] is not parts.all[parent].children and index not in children[parent]:
            found = index
        index = parent
    return found


def _satisfied(parts: GangTree, needs: Mapping[int, int]) -> set[int]:
    done: set[int] = set()
    for part in reversed(parts.all):
        if part.pods is not None:
            if needs.get(part.index, 0) == 0:
                done.add(part.index)
        elif sum(1 for child in part.children if child in done) >= part.need:
            done.add(part.index)
    return done


def _is_active(parts: GangTree, part: Part, choosers: list[Part], chosen: list[tuple[int, ...]]) -> bool:
    picked = {chooser.index: children for chooser, children in zip(choosers, chosen, strict=False)}
    at = part
    while at.parent >= 0:
        if at.parent in picked and at.index not in picked[at.parent]:
            return False
        at = parts.all[at.parent]
    return True


def _selections(parts: GangTree, part: Part, free: set[int]) -> Iterator[tuple[int, ...]]:
    """Combinations of the children that still need pods, in order; of equal children the first ones are chosen."""
    open_children = [child for child in part.children if child not in free]
    missing = part.need - (len(part.children) - len(open_children))
    if missing <= 0:
        yield ()
        return
    stack: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while stack:
        at, picked = stack.pop()
        if len(picked) == missing:
            yield picked
            continue
        if len(open_children) - at < missing - len(picked):
            continue
        kind = parts.all[open_children[at]].kind
        beside = at + 1
        while beside < len(open_children) and parts.all[open_children[beside]].kind == kind:
            beside += 1
        stack.append((beside, picked))
        stack.append((at + 1, (*picked, open_children[at])))
