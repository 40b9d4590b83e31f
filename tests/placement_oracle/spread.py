"""How far one tree node's pods are spread over its preferred level, as variables of a CP-SAT model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from placement_oracle.reading import Path, TreeNode, World
from placement_oracle.values import Value

Expression = Any
"""A linear expression; the solver's own types do not know sums."""

Place = tuple[Path, str]
"""A domain of the preferred level, or a node outside it under the levels it does carry."""


class Spread:
    """`cost` is the value in one number; every part of it is exact in every solution that minimises it."""

    def __init__(
        self,
        cp: cp_model.CpModel,
        world: World,
        node: TreeNode,
        hosts: Mapping[str, list[cp_model.IntVar]],
        running: set[str],
    ) -> None:
        assert node.topology is not None and node.preferred is not None
        self.cp = cp
        self.depth = world.depth(node, node.preferred)
        most = len(running) + sum(leaf.min for leaf in node.leaves())
        places: dict[Place, list[str]] = defaultdict(list)
        for host in sorted({*hosts, *running}):
            path = world.path(node.topology, host)
            places[(path[: self.depth], "") if len(path) >= self.depth else (path, world.home(host))].append(host)
        self.used = {place: self._in_use(names, hosts, running) for place, names in places.items()}
        self.opened = [(places[place], used) for place, used in self.used.items()]
        self.number = sum(self.used.values())
        self.missed = sum(self._split_at(level) for level in range(1, self.depth + 1))
        self.outside = self._any([used for (path, _), used in self.used.items() if not path])
        most = min(most, len(self.used))
        self.distance = self._distance(most)
        farthest = self.depth * most * (most - 1)
        self.cost = ((self.missed * 2 + self.outside) * (most + 1) + self.number) * (farthest + 1) + self.distance

    def value(self, solver: cp_model.CpSolver) -> Value:
        missed, outside, number, distance = (
            solver.value(part) for part in (self.missed, self.outside, self.number, self.distance)
        )
        return missed, outside, number, distance

    def fix(self, solver: cp_model.CpSolver) -> None:
        parts = (self.missed, self.outside, self.number, self.distance)
        for part, value in zip(parts, self.value(solver), strict=True):
            if not isinstance(part, int):
                self.cp.add(part == value)

    def _in_use(
        self, names: list[str], hosts: Mapping[str, list[cp_model.IntVar]], running: set[str]
    ) -> cp_model.IntVar:
        if running & set(names):
            return self.cp.new_constant(1)
        used = self.cp.new_bool_var("")
        for count in (count for name in names for count in hosts.get(name, ())):
            self.cp.add(count == 0).only_enforce_if(~used)
        return used

    def _any(self, used: list[cp_model.IntVar]) -> cp_model.IntVar:
        some = self.cp.new_bool_var("")
        for each in used:
            self.cp.add_implication(each, some)
        return some

    def _below(self, level: int) -> dict[Path, list[cp_model.IntVar]]:
        """Places per domain of a level; places outside that level under the empty path."""
        below: dict[Path, list[cp_model.IntVar]] = defaultdict(list)
        for (path, _), used in self.used.items():
            below[path[:level] if len(path) >= level else ()].append(used)
        return below

    def _split_at(self, level: int) -> cp_model.IntVar:
        """True where the pods are not in one domain of the level."""
        below = self._below(level)
        split = self._any(below.pop((), []))
        domains = [self._any(used) for used in below.values()]
        self.cp.add(sum(domains) <= 1).only_enforce_if(~split)
        return split

    def _distance(self, most: int) -> Expression:
        """2 per pair and level that the pair does not share."""
        pairs = self._pairs(list(self.used.values()), most)
        total: Expression = 2 * self.depth * pairs
        for level in range(1, self.depth):
            below = self._below(level)
            below.pop((), None)
            total = total - 2 * sum(self._pairs(used, most) for used in below.values() if len(used) > 1)
        return total

    def _pairs(self, used: list[cp_model.IntVar], most: int) -> Expression:
        """How many pairs there are among the used ones: 0 + 1 + 2 + ... over a unary count."""
        steps = [self.cp.new_bool_var("") for _ in range(min(most, len(used)))]
        for step, following in pairwise(steps):
            self.cp.add_implication(following, step)
        self.cp.add(sum(used) == sum(steps))
        return sum(number * step for number, step in enumerate(steps))
