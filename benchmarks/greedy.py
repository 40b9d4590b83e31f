"""The baseline: gangs placed as greedy gang schedulers do it, on the engine's own inventory.

Groups one after the other in the given order, each into the most packed domain whose count says that its largest pod
fits as often as it has pods; a failure tries the next domain of an ancestor, but a sibling that has its place is never
moved. Mistakes that are not greed are left out: labels, taints and broad levels are read as the engine reads them.

Places minimums only, of gangs with one topology and without running members. Nodes and topologies must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import ANY_NODE, Amounts, Gang, Group, PodSet, Topology
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory

Ids = npt.NDArray[np.intp]
Ratios = npt.NDArray[np.float64]
Members = list[tuple[str, int]]
"""Path of the pod set and slot of the node, one per pod."""

Area = tuple[int, int]
"""Depth and domain id; (0, 0) is the cluster."""

STEPS = 10
PLAIN = ("cpu", "memory", "pods")
_TEMPLATES = 256


@dataclass(slots=True)
class _Ask:
    """A gang, group or pod set: `shape` is its largest pod, None when its pods differ in kind."""

    path: str
    pods: PodSet | None
    kids: list[_Ask]
    number: int
    total: Amounts
    largest: Amounts
    shape: Shape | None
    topology: str
    required: int
    preferred: int


@dataclass(slots=True)
class _Scores:
    """Emptiest preferred-level domains first, in ten steps over all of them."""

    depth: int
    topology: str
    steps: npt.NDArray[np.int64]


class Greedy:
    """Places gangs one after the other and never revisits a choice among siblings.

    Two favours may be done to it: `by_sums` judges domains for pods of different sizes by sums instead of by the
    largest pod, `largest_first` takes siblings by size instead of in the given order.
    """

    def __init__(
        self,
        inventory: Inventory,
        topologies: Mapping[str, Topology],
        by_sums: bool = False,
        largest_first: bool = False,
    ) -> None:
        self.by_sums = by_sums
        self.largest_first = largest_first
        self.inventory = inventory
        self.topologies = topologies
        self._asks: dict[Group, _Ask] = {}
        self._ancestors: dict[tuple[str, int, int], Ids] = {}

    def place(self, gang: Gang) -> Members | None:
        """The members of a placed gang, taken from the inventory; None and no trace when a first choice fails."""
        ask = self._asks.get(gang.root)
        if ask is None:
            if len(self._asks) >= _TEMPLATES:
                self._asks.clear()
            ask = self._asks[gang.root] = self._read(gang.root, "", "")
        return self._place(ask, (0, 0), None)

    # What is asked

    def _read(self, part: Group | PodSet, path: str, topology: str) -> _Ask:
        topology = part.topology or topology
        own = part if isinstance(part, PodSet) else None
        kids = []
        if isinstance(part, Group):
            inside: list[Group | PodSet] = [*part.groups, *part.pods]
            kids = [self._read(kid, f"{path}/{kid.name}" if path else kid.name, topology) for kid in inside]
            if self.largest_first:
                kids.sort(key=lambda kid: kid.total[::-1], reverse=True)
        total, largest, number, uniform = _sums(own, kids, self.inventory.resources)
        if self.by_sums and any(kid.shape is None or kid.largest != largest for kid in kids):
            uniform = False
        return _Ask(
            path=path,
            pods=own,
            kids=kids,
            number=number,
            total=total,
            largest=largest,
            shape=Shape(largest, own.filter if own else ANY_NODE) if uniform else None,
            topology=topology,
            required=self._depth(topology, part.required),
            preferred=self._depth(topology, part.preferred),
        )

    def _depth(self, topology: str, level: str | None) -> int:
        return 0 if level is None else self.topologies[topology].levels.index(level) + 1

    # Placing

    def _place(self, ask: _Ask, area: Area, scores: _Scores | None) -> Members | None:
        """The first candidate in which everything finds its place."""
        own: _Scores | None = None
        for candidate in self._candidates(ask, area):
            if candidate[0] < ask.preferred and own is None:
                own = self._scores(ask, area)
            known = own if candidate[0] < ask.preferred else scores
            taken = self._fill(ask, candidate, known) if ask.pods else self._place_kids(ask, candidate, known)
            if taken is not None:
                return taken
        return None

    def _place_kids(self, ask: _Ask, area: Area, scores: _Scores | None) -> Members | None:
        if len(ask.kids) == 1:
            return self._place(ask.kids[0], area, scores)
        mark = self.inventory.checkpoint()
        taken: Members = []
        for kid in ask.kids:
            more = self._place(kid, area, scores)
            if more is None:
                self.inventory.rollback(mark)
                return None
            taken += more
        self.inventory.commit(mark)
        return taken

    def _fill(self, ask: _Ask, area: Area, scores: _Scores | None) -> Members | None:
        """Pod by pod the highest step, then the fullest node that still fits: the same as node by node."""
        pods = ask.pods
        assert pods is not None
        inventory = self.inventory
        per_node = inventory.counts(Shape(pods.request, pods.filter)).per_node
        slots = self._slots(ask, area, per_node)
        fits = per_node[slots].tolist()
        if sum(fits) < pods.min:
            return None
        step = self._step_of(scores)
        main = _main_resource(pods.request, inventory.resources)
        nodes = [
            (-step(slot), inventory.idle[slot][main], at, slot, fit)
            for at, (slot, fit) in enumerate(zip(slots, fits, strict=True))
            if fit
        ]
        nodes.sort()
        taken: Members = []
        for _, _, _, slot, fit in nodes:
            here = min(fit, pods.min - len(taken))
            inventory.take(slot, pods.request, pods.host_ports, here)
            taken += [(ask.path, slot)] * here
            if len(taken) == pods.min:
                break
        return taken

    def _slots(self, ask: _Ask, area: Area, per_node: npt.NDArray[np.int32]) -> list[int]:
        """The nodes of an area by name."""
        if area[0]:
            return self.inventory.trees[ask.topology].members(*area)
        slots: list[int] = np.flatnonzero(per_node).tolist()
        return sorted(slots, key=self.inventory.name)

    # Candidates

    def _candidates(self, ask: _Ask, area: Area) -> Iterator[Area]:
        """Finest level first, down to the required one; inside a level the most packed ancestors first."""
        finest = ask.preferred or ask.required
        if not finest:
            yield area
            return
        if not self._fitting(ask, np.array([area[1]]), area[0]).any():
            return
        for depth in range(max(finest, ask.required), ask.required - 1, -1):
            if depth <= area[0]:
                yield area
                return
            ids = self._inside(ask, area, depth)
            ids = ids[self._fitting(ask, ids, depth)]
            if len(ids):
                yield depth, self._most_packed(ask, ids, area, depth)
            if len(ids) > 1:
                yield from ((depth, int(domain)) for domain in self._sorted(ask, ids, area, depth)[1:])

    def _inside(self, ask: _Ask, area: Area, depth: int) -> Ids:
        above = self._up(ask.topology, depth, area[0])
        return np.flatnonzero(above == area[1]) if area[0] else np.arange(len(above))

    def _fitting(self, ask: _Ask, ids: Ids, depth: int) -> npt.NDArray[np.bool_]:
        """By count of the largest pod, or by sums when pods differ in kind."""
        if ask.shape is None:
            return self._ratio(ask, ids, depth) <= 1
        counts = self.inventory.counts(ask.shape)
        held = counts.at(ask.topology, depth)[ids] if depth else np.array([counts.total])
        fitting: npt.NDArray[np.bool_] = held >= ask.number
        return fitting

    def _ratio(self, ask: _Ask, ids: Ids, depth: int) -> Ratios:
        """Of what is asked to what is free, for the scarcest resource; pods do not count."""
        resources = self.inventory.resources
        wanted = tuple(at for at, amount in enumerate(ask.total) if amount and resources[at] != "pods")
        room = self.inventory.room(frozenset((ANY_NODE,)), wanted)
        ratio = np.zeros(len(ids))
        for resource in wanted:
            free = room.at(ask.topology, depth, resource)[ids] if depth else np.array([room.total(resource)])
            np.maximum(ratio, ask.total[resource] / np.maximum(free, 1e-3), out=ratio)
        return ratio

    def _most_packed(self, ask: _Ask, ids: Ids, area: Area, depth: int) -> int:
        """The first of `_sorted`, without sorting."""
        for level in range(area[0] + 1, depth + 1):
            if len(ids) == 1:
                break
            up, rank = self._up(ask.topology, depth, level), self.inventory.trees[ask.topology].rank(level)
            ratios = self._ratio(ask, up[ids], level)
            ids = ids[ratios == ratios.max()]
            ranks = rank[up[ids]]
            ids = ids[ranks == ranks.min()]
        return int(ids[0])

    def _sorted(self, ask: _Ask, ids: Ids, area: Area, depth: int) -> Ids:
        """Every level by ratio, most packed first, ties by path."""
        keys: list[npt.NDArray[np.generic]] = []
        for level in range(depth, area[0], -1):
            at = self._up(ask.topology, depth, level)[ids]
            keys += [self.inventory.trees[ask.topology].rank(level)[at], -self._ratio(ask, at, level)]
        return ids[np.lexsort(keys)]

    def _up(self, topology: str, depth: int, above: int) -> Ids:
        """By domain id at a depth: the domain further up that holds it."""
        known = self._ancestors.get((topology, depth, above))
        if known is None:
            tree = self.inventory.trees[topology]
            known = np.arange(tree.domains(depth))
            for level in range(depth, above, -1):
                known = np.array(tree.parents(level))[known]
            self._ancestors[topology, depth, above] = known
        return known

    # Preferred levels

    def _scores(self, ask: _Ask, area: Area) -> _Scores:
        ids = self._inside(ask, area, ask.preferred)
        order = self._sorted(ask, ids, area, ask.preferred)
        steps = np.zeros(self.inventory.trees[ask.topology].domains(ask.preferred), np.int64)
        steps[order] = (np.arange(len(order)) + 1) * STEPS // len(order)
        return _Scores(ask.preferred, ask.topology, steps)

    def _step_of(self, scores: _Scores | None) -> Callable[[int], int]:
        if scores is None:
            return lambda slot: 0
        domain_of = self.inventory.trees[scores.topology].domain_of(scores.depth)
        steps = scores.steps
        return lambda slot: int(steps[domain_of[slot]]) if domain_of[slot] >= 0 else -1


def _sums(own: PodSet | None, kids: list[_Ask], resources: tuple[str, ...]) -> tuple[Amounts, Amounts, int, bool]:
    """Total request, largest pod, number of pods, and whether all pods are of one kind."""
    if own is not None:
        return tuple(amount * own.min for amount in own.request), own.request, own.min, True
    total = tuple(map(sum, zip(*(kid.total for kid in kids), strict=True)))
    largest = tuple(map(max, zip(*(kid.largest for kid in kids), strict=True)))
    extended = [at for at, name in enumerate(resources) if name not in PLAIN]
    kinds = {tuple(kid.largest[at] > 0 for at in extended) for kid in kids}
    return total, largest, sum(kid.number for kid in kids), len(kinds) == 1 and all(kid.shape for kid in kids)


def _main_resource(request: Amounts, resources: tuple[str, ...]) -> int:
    """What decides which node is fuller: an extended resource if one is asked for, else cpu."""
    extended = [at for at, name in enumerate(resources) if name not in PLAIN and request[at]]
    asked = [at for at, amount in enumerate(request) if amount]
    return (extended or asked or [0])[0]
