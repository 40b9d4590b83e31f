"""A light rule check for runs too large for the full checker: amounts, numbers of pods and required domains.

Reads nodes and gangs only, never the inventory or the engine, and keeps its own account of what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks.engine.contenders import Members
from spinney.api.placement.problem import Gang, Group, Node, PodSet, Topology


class Book:
    """What is free on every node, and who sits in which domain."""

    def __init__(self, nodes: Sequence[Node], topologies: Mapping[str, Topology]) -> None:
        self._index = {node.name: at for at, node in enumerate(nodes)}
        self._free = np.array([node.allocatable for node in nodes], np.int64)
        self._free -= np.array([node.used for node in nodes], np.int64)
        self._domains = {
            (topology.name, level): _domains(nodes, topology.levels[: depth + 1])
            for topology in topologies.values()
            for depth, level in enumerate(topology.levels)
        }

    def enter(self, gang: Gang, members: Members) -> int:
        """Book a placed gang; how many rules it breaks."""
        self._add(gang, members, -1)
        nodes = sorted({self._index[name] for _, name in members})
        broken = int((self._free[nodes] < 0).sum())
        wrong_numbers = Counter(path for path, _ in members)
        wrong_numbers.subtract({path: pods.min for path, pods in _leaves(gang.root, "")})
        broken += sum(number != 0 for number in wrong_numbers.values())
        return broken + self._split(gang.root, "", "", members)

    def leave(self, gang: Gang, members: Members) -> None:
        self._add(gang, members, 1)

    def _add(self, gang: Gang, members: Members, sign: int) -> None:
        leaves = dict(_leaves(gang.root, ""))
        for (path, name), pods in Counter(members).items():
            self._free[self._index[name]] += sign * pods * np.array(leaves[path].request, np.int64)

    def _split(self, part: Group | PodSet, path: str, topology: str, members: Members) -> int:
        """Tree nodes whose pods are not in one domain of their required level."""
        topology = part.topology or topology
        broken = 0
        if part.required is not None:
            at = [self._index[name] for where, name in members if not path or where == path or _below(where, path)]
            found = set(self._domains[topology, part.required][at].tolist())
            broken += len(found) > 1 or -1 in found
        inside: list[Group | PodSet] = [*part.groups, *part.pods] if isinstance(part, Group) else []
        for kid in inside:
            broken += self._split(kid, f"{path}/{kid.name}" if path else kid.name, topology, members)
        return broken


def _below(where: str, path: str) -> bool:
    return where.startswith(f"{path}/")


def _leaves(group: Group, path: str) -> Iterable[tuple[str, PodSet]]:
    prefix = f"{path}/" if path else ""
    for pods in group.pods:
        yield f"{prefix}{pods.name}", pods
    for inner in group.groups:
        yield from _leaves(inner, f"{prefix}{inner.name}")


def _domains(nodes: Sequence[Node], levels: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number per node for its domain, the tuple of its labels; -1 where a label is missing."""
    numbers: dict[tuple[str, ...], int] = {}
    found = np.full(len(nodes), -1, np.int64)
    for at, node in enumerate(nodes):
        if all(level in node.labels for level in levels):
            path = tuple(node.labels[level] for level in levels)
            found[at] = numbers.setdefault(path, len(numbers))
    return found
