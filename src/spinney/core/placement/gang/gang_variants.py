"""Variants of a gang for probes: one part alone, another level for a part, another number of pods.

Only rewrites what a gang asks for; decides nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part


class GangVariants:
    """The groups and pod sets of a gang in the order of its parts, each with its own or inherited topology."""

    def __init__(self, parts: GangTree) -> None:
        self.parts = parts
        self._found: list[Group | PodSet] = []
        self._list(parts.gang.root, None)

    def alone(self, part: Part, within: Level | None = None) -> Gang:
        """A gang of one part with its running members; `within`: a level that all of it must share in addition to its
        own.
        """
        found = self._found[part.index]
        if isinstance(found, Group) and within is None:
            root, cut = replace(found, name=""), len(part.path) + 1 if part.path else 0
        else:
            root = Group("", groups=(found,)) if isinstance(found, Group) else Group("", pods=(found,))
            cut = len(part.path) - len(found.name)
        if within is not None:
            root = replace(root, topology=within.topology, required=within.key)
        return replace(self.parts.gang, root=root, running=self._running(part, cut), tied_to=None)

    def with_level(self, part: Part, level: str | None) -> Gang:
        """The gang with another required level for a part (None: no required level)."""
        return self._with(part, replace(self._found[part.index], required=level))

    def with_count(self, leaf: Part, count: int) -> Gang:
        """The gang with another number of pods in a pod set, all of them part of the minimum."""
        assert leaf.pods is not None
        return self._with(leaf, replace(leaf.pods, count=count, min=count))

    def _list(self, group: Group, inherited: str | None) -> None:
        topology = group.topology if group.topology is not None else inherited
        self._found.append(replace(group, topology=topology))
        for child in group.groups:
            self._list(child, topology)
        for pods in group.pods:
            self._found.append(pods if pods.topology is not None else replace(pods, topology=topology))

    def _running(self, part: Part, cut: int) -> tuple[Running, ...]:
        """The running members of a part, with the first `cut` characters of their paths removed."""
        if not self.parts.gang.running:
            return ()
        names = {leaf.path: leaf.path[cut:] for leaf in self.parts.below(part)}
        return tuple([Running(names[one.pods], one.node) for one in self.parts.gang.running if one.pods in names])

    def _with(self, part: Part, changed: Group | PodSet) -> Gang:
        """Rebuild the tree from a changed part up to the root."""
        while part.parent >= 0:
            above = self.parts.all[part.parent]
            group = self._found[above.index]
            assert isinstance(group, Group)
            at = above.children.index(part.index)
            if isinstance(changed, Group):
                group = replace(group, groups=(*group.groups[:at], changed, *group.groups[at + 1 :]))
            else:
                at -= len(group.groups)
                group = replace(group, pods=(*group.pods[:at], changed, *group.pods[at + 1 :]))
            part, changed = above, group
        assert isinstance(changed, Group)
        return replace(self.parts.gang, root=changed)
