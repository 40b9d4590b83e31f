"""Gangs made from gangs: one part alone, another level for a part, another number of pods.

Values only: what a gang asks for is rewritten, nothing is decided here.
"""

from __future__ import annotations

from msgspec.structs import replace

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.core.placement.parts import Level, Part, Parts


def alone(parts: Parts, part: Part, within: Level | None = None) -> Gang:
    """A gang of one part with its running members; `within`: a level that all of it must share besides its own."""
    found = _outline(parts)[part.index]
    if isinstance(found, Group) and within is None:
        root, cut = replace(found, name=""), len(part.path) + 1 if part.path else 0
    else:
        root = Group("", groups=(found,)) if isinstance(found, Group) else Group("", pods=(found,))
        cut = len(part.path) - len(found.name)
    if within is not None:
        root = replace(root, topology=within.topology, required=within.key)
    names = {leaf.path: leaf.path[cut:] for leaf in parts.below(part)}
    running = tuple([Running(names[one.pods], one.node) for one in parts.gang.running if one.pods in names])
    return replace(parts.gang, root=root, running=running, tied_to=None)


def with_level(parts: Parts, part: Part, level: str | None) -> Gang:
    """The gang with another required level (None: without one) for a part."""
    outline = _outline(parts)
    return _put(parts, outline, part, replace(outline[part.index], required=level))


def with_count(parts: Parts, leaf: Part, count: int) -> Gang:
    """The gang with another number of pods in a pod set, all of them needed."""
    assert leaf.pods is not None
    outline = _outline(parts)
    return _put(parts, outline, leaf, replace(leaf.pods, count=count, min=count))


def _outline(parts: Parts) -> list[Group | PodSet]:
    """Groups and pod sets in the order of the parts, each with the topology it has or inherits."""
    found: list[Group | PodSet] = []
    _list(parts.gang.root, None, found)
    return found


def _list(group: Group, inherited: str | None, found: list[Group | PodSet]) -> None:
    topology = group.topology if group.topology is not None else inherited
    found.append(replace(group, topology=topology))
    for kid in group.groups:
        _list(kid, topology, found)
    found.extend(pods if pods.topology is not None else replace(pods, topology=topology) for pods in group.pods)


def _put(parts: Parts, outline: list[Group | PodSet], part: Part, changed: Group | PodSet) -> Gang:
    """Build the tree anew from a changed part up to the root."""
    while part.parent >= 0:
        above = parts.all[part.parent]
        group = outline[above.index]
        assert isinstance(group, Group)
        at = above.kids.index(part.index)
        if isinstance(changed, Group):
            group = replace(group, groups=(*group.groups[:at], changed, *group.groups[at + 1 :]))
        else:
            at -= len(group.groups)
            group = replace(group, pods=(*group.pods[:at], changed, *group.pods[at + 1 :]))
        part, changed = above, group
    assert isinstance(changed, Group)
    return replace(parts.gang, root=changed)
