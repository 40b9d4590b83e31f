"""What counting alone tells of a gang: which domains could hold it, and when none can.

Upper bounds only: pods of different shapes are counted each for themselves, so yes means perhaps and no means no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import NodeFilter
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.state import Inventory
from spinney.core.placement.parts import Level, Part, Parts, asked_resources
from spinney.core.placement.spans import Spans

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Profile:
    """What counting has to know of a gang. `simple`: counting may even give the answer."""

    simple: bool
    topology: str = ""
    wish: Level | None = None
    elastic: bool = False
    wanted: tuple[int, ...] = ()
    filters: frozenset[NodeFilter] = frozenset()
    shapes: list[tuple[tuple[Shape, int], ...]] = field(default_factory=list)  # per part: pods needed of each shape
    order: list[tuple[int, ...]] = field(default_factory=list)  # per part: its children, hardest first
    all_shapes: frozenset[Shape] = frozenset()
    extras: dict[Shape, int] = field(default_factory=dict)


def profile(parts: Parts, resources: Sequence[str]) -> Profile:
    pods = [leaf.pods for leaf in parts.leaves if leaf.pods is not None]
    levels = {level for part in parts.all for level in (part.required, part.preferred) if level is not None}
    topologies = {level.topology for level in levels}
    wishes = {part.preferred for part in parts.wishes}
    plain = not any(one.host_ports or one.anti_affinity or one.filter.preferred or not one.min for one in pods)
    found = Profile(
        simple=plain
        and bool(pods)
        and not parts.gang.running
        and not parts.gang.tied_to
        and len(topologies) <= 1
        and (not wishes or (len(wishes) == 1 and len(pods) == 1))
        and all(part.need == len(part.kids) for part in parts.all),
        topology=min(topologies, default=""),
        wish=next(iter(wishes), None),
        elastic=any(one.count > one.min for one in pods),
        wanted=tuple(asked_resources(parts, resources)),
        filters=frozenset(one.filter for one in pods),
    )
    _add_up(parts, found)
    return found


def _add_up(parts: Parts, found: Profile) -> None:
    """Pods that are needed for certain: children that `minGroups` may leave out count nothing."""
    runs: dict[str, int] = {}
    for member in parts.gang.running:
        runs[member.pods] = runs.get(member.pods, 0) + 1
    totals: list[dict[Shape, int]] = [{} for _ in parts.all]
    shapes: list[Shape] = []
    for part in reversed(parts.all):
        mine = totals[part.index]
        if part.pods is not None:
            shape = Shape(part.pods.request, part.pods.filter, part.pods.host_ports)
            shapes.append(shape)
            need = part.pods.min - runs.get(part.path, 0)
            if need > 0:
                mine[shape] = need
            if part.pods.count > part.pods.min:
                found.extras[shape] = found.extras.get(shape, 0) + part.pods.count - part.pods.min
        if part.need < len(part.kids):
            continue
        for kid in part.kids:
            for shape, need in totals[kid].items():
                mine[shape] = mine.get(shape, 0) + need
    found.shapes = [tuple(mine.items()) for mine in totals]
    found.all_shapes = frozenset(shapes)
    if len(parts.all) > 2:
        sizes = [[-sum(need * shape.request[r] for shape, need in mine) for r in found.wanted] for mine in found.shapes]
        found.order = [tuple(sorted(part.kids, key=sizes.__getitem__)) for part in parts.all]


class Counting:
    """Counts over an inventory; `spans` remembers what is asked again and again."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.spans = Spans()

    def could_hold(self, parts: Parts, asked: Profile, part: Part, depth: int, waiting: bool) -> Flags:
        """By domain id of the part's own topology at a depth: could everything below the part be there?"""
        assert part.required is not None
        topology = part.required.topology
        tree = self.inventory.trees[topology]
        fits = np.ones(tree.domains(depth), np.bool_)
        for shape, need in asked.shapes[part.index]:
            fits &= self.inventory.counts(shape, waiting).at(topology, depth) >= need
        if part.need < len(part.kids):
            return fits
        for kid in {parts.all[kid].kind: parts.all[kid] for kid in part.kids}.values():
            level = kid.required
            if level is None or level.topology != topology or level.depth <= depth or _is_one_pod(asked, kid):
                continue
            inside = np.flatnonzero(self.could_hold(parts, asked, kid, level.depth, waiting))
            reachable = np.zeros(len(fits), np.bool_)
            reachable[self.spans.ancestors(tree, level.depth, depth)[inside]] = True
            fits &= reachable
        return fits

    def is_hopeless(self, parts: Parts, asked: Profile, waiting: bool) -> bool:
        """Whether counting proves that the minimum cannot be placed."""
        root = asked.shapes[0]
        if any(self.inventory.counts(shape, waiting).total < need for shape, need in root):
            return True
        certain = [True] * len(parts.all)
        for part in parts.all:
            if part.parent >= 0:
                above = parts.all[part.parent]
                certain[part.index] = certain[above.index] and above.need == len(above.kids)
            if part.required is None or not certain[part.index] or not asked.shapes[part.index]:
                continue
            if not self.could_hold(parts, asked, part, part.required.depth, waiting).any():
                return True
        return False


def _is_one_pod(asked: Profile, part: Part) -> bool:
    """One pod is where there is room for one pod: its own level adds nothing."""
    shapes = asked.shapes[part.index]
    return part.pods is not None and len(shapes) == 1 and shapes[0][1] == 1
