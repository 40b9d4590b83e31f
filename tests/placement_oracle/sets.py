"""Seeded random sets, a base gang with zero to six gangs that are tied to it, and what is exactly true of them.

The clusters are nearly full: a set asks for about as much as one of the roomier domains of its level has.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from placement_oracle import exact
from placement_oracle.checker import violations
from placement_oracle.clusters import GPU, HOST, Cluster, random_cluster
from placement_oracle.reading import Document, read

BASE = "ns/base"
MOST_SCALED = 6


def random_set(seed: int) -> Document:
    """The problem of a seed; the same seed always gives the same problem."""
    random = Random(f"set-{seed}")
    cluster = random_cluster(random, random.choice((4, 8, 12, 16, 24)))
    levels = cluster.topologies["main"]
    depth = random.randint(1, len(levels) - (levels[-1] == HOST))
    number = random.randint(0, MOST_SCALED)
    budget = max(1, int(cluster.free_gpus(random, "main", depth) * random.uniform(0.6, 1.1)))
    groups = [_group(random, cluster, f"g{at}", depth, budget, number) for at in range(random.choice((1, 1, 2)))]
    base: Document = {"name": BASE, "topology": "main", "required": levels[depth - 1], "groups": groups, "pods": []}
    if random.random() < 0.5:
        base["preferred"] = random.choice(levels[depth - 1 :])
    if random.random() < 0.5:
        base["pods"].append({"name": "router", "count": random.randint(1, 2), "request": {GPU: "1"}})
    tie = {"gang": BASE, "level": levels[depth - 1]}
    scaled = [_scaled(random.choice(groups), f"ns/scaled-{at}", tie, levels[depth - 1]) for at in range(number)]
    return {
        "version": 1,
        "resources": cluster.resources,
        "topologies": [{"name": "main", "levels": levels}],
        "nodes": cluster.nodes,
        "gangs": [base, *scaled],
        "options": {"extras": "skip"},
    }


def _group(random: Random, cluster: Cluster, name: str, depth: int, budget: int, number: int) -> Document:
    levels = cluster.topologies["main"]
    share = max(1, budget // (number + 2) + random.randint(-1, 1))
    group: Document = {"name": name, "pods": []}
    if random.random() < 0.6:
        group["required"] = levels[random.randint(depth, len(levels)) - 1]
    if random.random() < 0.3:
        group["preferred"] = levels[-1]
    for at in range(random.choice((1, 1, 2))):
        size = random.choice([each for each in (1, 1, 2, 3, 4, 8) if each <= max(1, min(share, cluster.largest))])
        count = random.randint(1, max(1, share // size))
        group["pods"].append({"name": f"s{at}", "count": count, "request": {GPU: str(size)}})
        share = max(1, share - size * count)
    return group


def _scaled(group: Document, name: str, tie: Document, level: str) -> Document:
    fields = {key: value for key, value in group.items() if key in ("required", "preferred")}
    return {"name": name, "topology": "main", "required": level, **fields, "pods": group["pods"], "tiedTo": tie}


def most_beside(problem: Document) -> int | None:
    """How many of the tied gangs one domain holds beside the base gang; None: not even the base gang fits."""
    base, *scaled = problem["gangs"]
    for count in range(len(scaled), -1, -1):
        groups = [{**_part(base), "name": "base"}, *_optional(scaled, count)]
        whole = {"name": "ns/all", "topology": "main", "required": base["required"], "groups": groups}
        if exact.feasible({**problem, "gangs": [whole]}):
            return count
    return None


def _optional(scaled: list[Document], count: int) -> list[Document]:
    if not count:
        return []
    parts = [{**_part(each), "name": f"scaled-{at}"} for at, each in enumerate(scaled)]
    return [{"name": "scaled", "minGroups": count, "groups": parts}]


def _part(gang: Document) -> Document:
    return {key: value for key, value in gang.items() if key in ("required", "groups", "pods")}


def judged_set(problem: Document, result: Document) -> tuple[Counter[str], list[str]]:
    """Figures, and a sentence for everything that is wrong with an answer."""
    figures, wrong = Counter({"sets": 1, "scaled gangs": len(problem["gangs"]) - 1}), []
    wrong += violations(read(problem), result)
    base, *scaled = result["gangs"]
    most = most_beside(problem)
    if most is None or not scaled:
        return figures, wrong
    figures["placeable"] += 1
    placed = sum(each["outcome"] == "placed" for each in scaled)
    if base["outcome"] != "placed":
        return figures, [*wrong, f"base gang {base['outcome']}, {most} of {len(scaled)} fit beside it"]
    figures["proved"] += base["proved"]
    if most == len(scaled):
        figures["one domain holds all"] += 1
        if placed < most:
            wrong.append(f"one domain holds all {most}, {placed} run")
    elif most > placed and not _leaves_room(problem, base, most):
        wrong.append(f"one domain holds {most} of {len(scaled)}, the one that was chosen holds fewer")
    return figures, wrong


def _leaves_room(problem: Document, base: Any, most: int) -> bool:
    """Whether so many tied gangs fit beside the base gang where it was placed."""
    first, *scaled = problem["gangs"]
    rest = {"name": "ns/rest", "topology": "main", "tiedTo": scaled[0]["tiedTo"], "groups": _optional(scaled, most)}
    return exact.feasible({**problem, "gangs": [first, rest]}, 1, [base])
