"""Affinity between the pods of one gang, read literally from the contract: as sentences and in a CP-SAT model.

Shares no code with the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ortools.sat.python import cp_model

from placement_oracle.reading import Gang, World

Member = tuple[str, str]


def pairs_apart(gang: Gang) -> set[tuple[str, str, str]]:
    """Label key and two pod sets that never share a value of it; one pod set twice where it keeps its own apart."""
    found = set()
    for path, leaf in gang.leaf.items():
        for key in leaf.spec.get("antiAffinity") or []:
            found.add((key, path, path))
        for term in leaf.spec.get("podAntiAffinity") or []:
            for other in term["pods"]:
                found.add((term["topologyKey"], *sorted((path, other))))
    return found


def broken(world: World, gang: Gang, live: Sequence[Member], new: Sequence[Member]) -> Iterator[str]:
    """Rules that a new pod breaks; what only pods that ran before break is nobody's fault."""
    everybody = [(member, False) for member in live] + [(member, True) for member in new]
    for key, one, other in sorted(pairs_apart(gang)):
        for at, ((path, node), fresh) in enumerate(everybody):
            for (path2, node2), fresh2 in everybody[at + 1 :]:
                value = label(world, node, key)
                judged = (fresh or fresh2) and {path, path2} == {one, other}
                if judged and value is not None and value == label(world, node2, key):
                    yield f"pods of {path} and {path2} share {key}={value}"


def label(world: World, node: str, key: str) -> str | None:
    return world.nodes[node].labels.get(key)


def by_value(world: World, key: str) -> dict[str, list[str]]:
    """The nodes of each value of a label."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in world.nodes:
        value = label(world, name, key)
        if value is not None:
            found[value].append(name)
    return found


class Between:
    """Adds the rules of one gang to a model. `count`: pods of a set on a node."""

    def __init__(
        self,
        cp: cp_model.CpModel,
        world: World,
        gang: Gang,
        count: Mapping[Member, cp_model.IntVar],
        running: Sequence[Member],
    ) -> None:
        self.cp, self.world, self.gang, self.count, self.running = cp, world, gang, count, running
        self._used: dict[tuple[str, str, str], cp_model.IntVar] = {}
        for key, one, other in sorted(pairs_apart(gang)):
            for value, nodes in by_value(world, key).items():
                self._keep_apart(key, value, nodes, one, other)

    def _keep_apart(self, key: str, value: str, nodes: list[str], one: str, other: str) -> None:
        first, second = self._there(one, nodes), self._there(other, nodes)
        if one == other:
            self._at_most(first, 0 if self._runs(one, nodes) else 1)
            return
        for mine, other_path in ((first, other), (second, one)):
            if self._runs(other_path, nodes):
                self._at_most(mine, 0)
        if first and second:
            self.cp.add(self.used(one, key, value, nodes) + self.used(other, key, value, nodes) <= 1)

    def used(self, path: str, key: str, value: str, nodes: list[str]) -> cp_model.IntVar:
        """Whether a new pod of the set is on one of these nodes."""
        name = (path, key, value)
        if name not in self._used:
            used = self._used[name] = self.cp.new_bool_var("")
            there = self._there(path, nodes)
            for each in there:
                self.cp.add(each == 0).only_enforce_if(~used)
            self.cp.add(sum(there) >= 1).only_enforce_if(used)
        return self._used[name]

    def _there(self, path: str, nodes: list[str]) -> list[cp_model.IntVar]:
        return [self.count[path, node] for node in nodes if (path, node) in self.count]

    def _runs(self, path: str, nodes: list[str]) -> int:
        return sum(other == path and node in nodes for other, node in self.running)

    def _at_most(self, counts: list[cp_model.IntVar], most: int) -> None:
        if counts:
            self.cp.add(sum(counts) <= most)
