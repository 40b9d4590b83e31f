"""Terms about other pod sets of the same gang, strewn into a random gang."""

from __future__ import annotations

from random import Random

from placement_oracle.clusters import BLOCK, HOST, RACK, ZONE
from placement_oracle.oddities import pod_set_paths
from placement_oracle.reading import Document

KEYS = (HOST, HOST, HOST, RACK, RACK, BLOCK, ZONE)


def add_affinity(random: Random, gang: Document) -> None:
    """One worker per host for all, or some terms of some pod sets; sizes shrink so that many of them fit."""
    sets = dict(pod_set_paths(gang))
    if random.random() < 0.3:
        for path in sets:
            sets[path]["podAntiAffinity"] = [{"topologyKey": HOST, "pods": sorted(sets)}]
    else:
        for _ in range(random.randint(1, 3)):
            random.choice((_keep_apart, _keep_apart, _bring_together, _keep_near, _spread))(random, sets)
    for pods in sets.values():
        if random.random() < 0.5:
            pods["count"] = max(1, pods.get("count", 1) // random.choice((1, 2, 3)))
        if random.random() < 0.2 or pods.get("min", 1) > pods.get("count", 1):
            pods["min"] = random.randint(1, pods.get("count", 1))


def _keep_apart(random: Random, sets: dict[str, Document]) -> None:
    path = random.choice(sorted(sets))
    others = random.sample(sorted(sets), random.randint(1, min(3, len(sets))))
    terms = sets[path].setdefault("podAntiAffinity", [])
    terms.append({"topologyKey": random.choice(KEYS), "pods": others})


def _bring_together(random: Random, sets: dict[str, Document]) -> None:
    path = random.choice(sorted(sets))
    others = {path, *random.sample(sorted(sets), random.randint(1, min(3, len(sets))))}
    terms = sets[path].setdefault("podAffinity", [])
    terms.append({"topologyKey": random.choice(KEYS[2:]), "pods": sorted(others)})


def _keep_near(random: Random, sets: dict[str, Document]) -> None:
    path = random.choice(sorted(sets))
    others = set(random.sample(sorted(sets), random.randint(1, min(3, len(sets))))) - {path}
    if others:
        terms = sets[path].setdefault("podAffinity", [])
        term: Document = {"topologyKey": random.choice(KEYS[1:]), "pods": sorted(others)}
        if random.random() < 0.2:
            term["domains"] = random.choice((["r0"], ["z0", "b1"], ["n1", "n2", "r1"]))
        terms.append(term)


def _spread(random: Random, sets: dict[str, Document]) -> None:
    term: Document = {"topologyKey": random.choice(KEYS[1:]), "maxSkew": random.choice((1, 1, 2, 3))}
    if random.random() < 0.1:
        term["minDomains"] = random.randint(1, 4)
    sets[random.choice(sorted(sets))].setdefault("topologySpreadConstraints", []).append(term)
