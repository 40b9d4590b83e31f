"""Best fit at random: the domain at the level reached is the one with the least room, or the most when spread."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from placement_oracle.clusters import GPU, random_cluster
from unit.placement.engine_kit import decided
from unit.placement.problem_kit import HOST, RACK, answer, gang, node, nodes_of, pods

Json = dict[str, Any]
Path = tuple[str, ...]
CHUNK = 100


def one_pod_set(seed: int) -> Json:
    """One pod set on a cluster where many hosts, racks and blocks have the same room."""
    random = Random(f"fit-{seed}")
    cluster = random_cluster(random, random.choice((6, 10, 16, 24)))
    for each in cluster.nodes:
        most = int(each["allocatable"][GPU])
        each["used"] = {GPU: str(min(most, random.choice((0, 0, 4, 8))) if most >= 8 else 0)}
        each["allocatable"]["pods"] = "110"
    levels = cluster.topologies["main"]
    depth, kind = random.randint(1, len(levels)), random.choice(("none", "preferred", "required", "both"))
    asked: Json = {"name": "g", "topology": "main"}
    if kind in ("preferred", "both"):
        asked["preferred"] = levels[(random.randint(depth, len(levels)) if kind == "both" else depth) - 1]
    if kind in ("required", "both"):
        asked["required"] = levels[depth - 1]
    request = {GPU: str(random.choice((1, 2, 4)))}
    asked["pods"] = [{"name": "p", "count": random.choice((1, 1, 2, 3)), "request": request}]
    return {
        "version": 1,
        "resources": cluster.resources,
        "topologies": [{"name": "main", "levels": levels}],
        "nodes": cluster.nodes,
        "gangs": [asked],
        "options": {"strategy": random.choice(("binpack", "binpack", "spread"))},
    }


class Fit:
    """The rooms of a problem's domains, read without the engine."""

    def __init__(self, problem: Json) -> None:
        self.levels = problem["topologies"][0]["levels"]
        self.sign = -1 if problem["options"]["strategy"] == "spread" else 1
        self.free = {n["name"]: int(n["allocatable"][GPU]) - int(n["used"][GPU]) for n in problem["nodes"]}
        self.path = {n["name"]: self._path(n["labels"]) for n in problem["nodes"]}
        self.inside: dict[Path, list[str]] = defaultdict(list)
        for name, path in self.path.items():
            for depth in range(1, len(path) + 1):
                self.inside[path[:depth]].append(name)

    def _path(self, labels: dict[str, str]) -> Path:
        known = [level in labels for level in self.levels]
        depth = known.index(False) if False in known else len(known)
        return tuple(labels[level] for level in self.levels[:depth])

    def rooms(self, path: Path) -> list[tuple[int, int]]:
        """GPUs, then places for pods, of a domain and then of each one around it."""
        around = [self.inside[path[:depth]] for depth in range(len(path), 0, -1)]
        return [(self.sign * sum(map(self.free.__getitem__, names)), self.sign * 110 * len(names)) for names in around]

    def holds(self, names: list[str], count: int, size: int) -> bool:
        return sum(self.free[name] // size for name in names) >= count


def misfit(problem: Json) -> str:
    found, asked, fit = decided(problem)["gangs"][0], problem["gangs"][0], Fit(problem)
    if found["outcome"] != "placed":
        return ""
    hosts = [placement["node"] for placement in found["placements"]]
    pod_set = asked["pods"][0]
    count, size = pod_set["count"], int(pod_set["request"][GPU])
    levels = [level for level in (asked.get("preferred"), asked.get("required")) if level]
    if not levels and any(len(path) < len(fit.levels) for path in fit.path.values()):
        return ""  # the domains around a node that lacks a label cannot be compared with those of others
    if not levels:
        fitting = [name for name in fit.free if fit.free[name] >= size]
        rooms = {name: (fit.sign * fit.free[name], fit.rooms(fit.path[name])) for name in fitting}
        return "" if count > 1 or rooms[hosts[0]] == min(rooms.values()) else f"{hosts[0]} in {rooms}"
    deepest = max(fit.levels.index(level) + 1 for level in levels)
    shared = fit.path[hosts[0]][:deepest]
    while any(fit.path[host][: len(shared)] != shared for host in hosts):
        shared = shared[:-1]
    if not shared:
        return ""
    rooms_of = {
        path: fit.rooms(path)
        for path, names in fit.inside.items()
        if len(path) == len(shared) and fit.holds(names, count, size)
    }
    return "" if rooms_of[shared] == min(rooms_of.values()) else f"{shared} in {rooms_of}"


@pytest.mark.parametrize("start", range(0, 600, CHUNK))
def test_the_fullest_domain_is_taken_and_where_domains_tie_the_one_in_the_fuller_parent(start: int) -> None:
    wrong = {seed: said for seed in range(start, start + CHUNK) if (said := misfit(one_pod_set(seed)))}
    assert not wrong


@pytest.mark.parametrize("wish", [{}, {"preferred": HOST}, {"required": HOST}])
def test_where_hosts_tie_the_fuller_rack_wins_and_then_the_fuller_block(wish: Json) -> None:
    nodes = [node("a", "z/b0/r0"), node("b", "z/b0/r0"), node("c", "z/b1/r1"), node("d", "z/b1/r1", used=8)]
    assert nodes_of(answer(nodes, gang(pods("p"), **wish))) == {"c": 1}
    nodes = [node("a", "z/b0/r0"), node("b", "z/b0/r2"), node("c", "z/b1/r1")]
    assert nodes_of(answer(nodes, gang(pods("p"), **wish))) == {"c": 1}


def test_where_racks_tie_the_fuller_block_wins() -> None:
    nodes = [node("a", "z/b0/r0"), node("b", "z/b0/r2"), node("c", "z/b1/r1")]
    assert nodes_of(answer(nodes, gang(pods("p"), required=RACK))) == {"c": 1}
    assert nodes_of(answer(nodes, gang(pods("p"), required=RACK), strategy="spread")) == {"a": 1}
