"""Affinity between the pods of one gang, read literally from the contract: as sentences and in a CP-SAT model.

Shares no code with the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ortools.sat.python import cp_model

from placement_oracle.filters import selected
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
    if not new:
        return
    yield from _not_together(world, gang, [*live, *new], new)
    yield from _not_near(world, gang, [*live, *new], new)
    yield from _not_spread(world, gang, live, new)
    everybody = [(member, False) for member in live] + [(member, True) for member in new]
    for key, one, other in sorted(pairs_apart(gang)):
        for at, ((path, node), fresh) in enumerate(everybody):
            for (path2, node2), fresh2 in everybody[at + 1 :]:
                value = label(world, node, key)
                judged = (fresh or fresh2) and {path, path2} == {one, other}
                if judged and value is not None and value == label(world, node2, key):
                    yield f"pods of {path} and {path2} share {key}={value}"


def groups_together(gang: Gang) -> list[tuple[str, set[str]]]:
    """Label key and pod sets that are all in one domain; groups of one key that overlap are one."""
    groups: list[tuple[str, set[str]]] = []
    for path, leaf in gang.leaf.items():
        for term in leaf.spec.get("podAffinity") or []:
            if path in term["pods"]:
                groups.append((term["topologyKey"], set(term["pods"])))
    merged = True
    while merged:
        merged = False
        for at, (key, paths) in enumerate(groups):
            for other in range(at + 1, len(groups)):
                if groups[other][0] == key and groups[other][1] & paths:
                    groups[at] = (key, paths | groups[other][1])
                    del groups[other]
                    merged = True
                    break
            if merged:
                break
    return groups


def near_terms(gang: Gang) -> list[tuple[str, str, list[str], list[str]]]:
    return [
        (path, term["topologyKey"], term["pods"], term.get("domains") or [])
        for path, leaf in gang.leaf.items()
        for term in leaf.spec.get("podAffinity") or []
        if path not in term["pods"]
    ]


def spread_terms(gang: Gang) -> list[tuple[str, str, int, int]]:
    return [
        (path, term["topologyKey"], term["maxSkew"], term.get("minDomains", 1))
        for path, leaf in gang.leaf.items()
        for term in leaf.spec.get("topologySpreadConstraints") or []
    ]


def spread_domains(world: World, gang: Gang, path: str, key: str) -> dict[str, list[str]]:
    """The domains that count: those of nodes that the selector and the affinity admit, whatever state they are in."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, node in world.nodes.items():
        if selected(gang.leaf[path], node) and key in node.labels:
            found[node.labels[key]].append(name)
    return found


def _not_together(world: World, gang: Gang, everybody: Sequence[Member], new: Sequence[Member]) -> Iterator[str]:
    for key, paths in groups_together(gang):
        values = {label(world, node, key) for path, node in everybody if path in paths}
        if any(path in paths for path, _ in new) and (None in values or len(values) > 1):
            yield f"pods of {sorted(paths)} are not together in one {key}"


def _not_near(world: World, gang: Gang, everybody: Sequence[Member], new: Sequence[Member]) -> Iterator[str]:
    for path, key, others, domains in near_terms(gang):
        there = {label(world, node, key) for other, node in everybody if other in others} - {None} | {*domains}
        for node in (node for other, node in new if other == path):
            if label(world, node, key) not in there:
                yield f"a pod of {path} on {node} has nobody of {others} in its {key}"


def _not_spread(world: World, gang: Gang, live: Sequence[Member], new: Sequence[Member]) -> Iterator[str]:
    for path, key, skew, least in spread_terms(gang):
        domains = spread_domains(world, gang, path, key)
        counts = dict.fromkeys(domains, 0)
        fresh = set()
        for members, is_new in ((live, False), (new, True)):
            for other, node in members:
                value = label(world, node, key)
                if other != path:
                    continue
                if is_new and value not in domains:
                    yield f"a pod of {path} is on {node} without {key}"
                elif value in domains and node in domains[value]:
                    counts[value] += 1
                    fresh |= {value} if is_new else set()
        low = min(counts.values(), default=0) if len(domains) >= least else 0
        for value in fresh:
            if counts[value] - low > skew:
                yield f"{counts[value]} pods of {path} in {key}={value}, as few as {low} elsewhere"


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

        for key, paths in groups_together(gang):
            self._bring_together(key, paths)
        for path, key, others, there in near_terms(gang):
            self._keep_near(path, key, others, there)
        for path, key, skew, least in spread_terms(gang):
            self._spread(path, key, skew, least)

    def _bring_together(self, key: str, paths: set[str]) -> None:
        domains = by_value(self.world, key)
        mine = [(member, count) for member, count in self.count.items() if member[0] in paths]
        chosen = {value: self.cp.new_bool_var("") for value in domains}
        self.cp.add(sum(chosen.values()) <= 1)
        for (_, node), count in mine:
            value = label(self.world, node, key)
            if value is None:
                self.cp.add(count == 0)
            else:
                self.cp.add(count == 0).only_enforce_if(~chosen[value])
        running = {label(self.world, node, key) for path, node in self.running if path in paths}
        if running and (None in running or len(running) > 1):
            for _, count in mine:
                self.cp.add(count == 0)
        for value in running - {None}:
            assert value is not None
            self.cp.add(chosen[value] == 1) if len(running) == 1 else None

    def _keep_near(self, path: str, key: str, others: list[str], there: list[str]) -> None:
        for node in self.world.nodes:
            if label(self.world, node, key) is None and (path, node) in self.count:
                self.cp.add(self.count[path, node] == 0)
        for value, nodes in by_value(self.world, key).items():
            if value in there or not self._there(path, nodes) or any(self._runs(other, nodes) for other in others):
                continue
            company = [self.used(other, key, value, nodes) for other in others if self._there(other, nodes)]
            self.cp.add(self.used(path, key, value, nodes) <= sum(company))

    def _spread(self, path: str, key: str, skew: int, least: int) -> None:
        domains = spread_domains(self.world, self.gang, path, key)
        for (other, node), count in self.count.items():
            if other == path and label(self.world, node, key) not in domains:
                self.cp.add(count == 0)
        totals = {value: sum(self._there(path, nodes)) + self._runs(path, nodes) for value, nodes in domains.items()}
        low = self.cp.new_int_var(0, 10_000, "") if len(domains) >= least else self.cp.new_constant(0)
        for value, nodes in domains.items():
            if len(domains) >= least:
                self.cp.add(low <= totals[value])
            if self._there(path, nodes):
                used = self.used(path, f"spread {key}", value, nodes)
                self.cp.add(totals[value] - low <= skew).only_enforce_if(used)

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
