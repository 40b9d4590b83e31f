"""The brute-force twin of preemption: every lawful set of victims, cheapest first, until the gang fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from typing import Any

from placement_oracle import exact
from placement_oracle.reading import Gang, read
from placement_oracle.rules import satisfied
from placement_oracle.state import Member, State, state_after

GPU = "nvidia.com/gpu"
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"

Document = dict[str, Any]
Loss = tuple[Gang, tuple[Member, ...], bool]
"""A gang, the pods it loses, and whether it loses all."""


def cheapest(problem: Document, number: int = 0) -> list[Document] | None:
    """The victims that the contract asks for, None where none help."""
    world = read(problem)
    state, gang = state_after(world, ()), world.gangs[number]
    others = [other for other in world.gangs if _may_lose(gang, other)]
    sets = sorted(product(*(list(_losses(state, gang, other)) for other in others)), key=_price)
    for losses in sets:
        victims = _victims(losses)
        if exact.feasible(world, number, (), releasing=True, victims=victims):
            return victims
    return None


def _may_lose(gang: Gang, other: Gang) -> bool:
    return other is not gang and other.preemptible and other.priority < gang.priority


def _losses(state: State, gang: Gang, other: Gang) -> Iterator[Loss]:
    yield other, (), False
    running = sorted(state.running[other.name])
    tied = gang.tied_to is not None and gang.tied_to["gang"] == other.name
    for size in range(1, len(running) + 1):
        for lost in sorted(set(combinations(running, size))):
            left = list((Counter(state.live(other.name)) - Counter(lost)).elements())
            if (not left and not tied) or (left and satisfied(other.root, left)):
                yield other, lost, not left


def _price(losses: tuple[Loss, ...]) -> tuple[Any, ...]:
    hit = [(gang, lost, whole) for gang, lost, whole in losses if lost]
    names = sorted((gang.name, path, node) for gang, lost, _ in hit for path, node in lost)
    priority = max((gang.priority for gang, _, _ in hit), default=-1)
    return priority, sum(whole for _, _, whole in hit), len(names), names


def _victims(losses: tuple[Loss, ...]) -> list[Document]:
    names = sorted((gang.name, path, node) for gang, lost, _ in losses for path, node in lost)
    return [{"gang": name, "pods": path, "node": node} for name, path, node in names]


def crowded(seed: int) -> Document:
    """Four small nodes in two racks full of running gangs, and a gang that is worth more than most of them."""
    random = Random(f"crowded-{seed}")
    room = {f"n{index}": random.choice((3, 4, 4, 6)) for index in range(random.choice((2, 3, 4)))}
    nodes = [
        {
            "name": name,
            "labels": {RACK: f"r{index // 2}", HOST: name},
            "allocatable": {GPU: str(gpus)},
        }
        for index, (name, gpus) in enumerate(room.items())
    ]
    gangs = [_wanting(random), *(_running(random, index, room) for index in range(random.randint(2, 4)))]
    return {
        "version": 1,
        "resources": [GPU],
        "topologies": [{"name": "main", "levels": [RACK, HOST]}],
        "nodes": nodes,
        "gangs": gangs,
        "options": {"preempt": True, "extras": "skip"},
    }


def _wanting(random: Random) -> Document:
    gang: Document = {"name": "ns/wanting", "priority": 50, "topology": "main", "pods": []}
    for index in range(random.choice((1, 1, 2))):
        pods = {"name": f"s{index}", "count": random.randint(1, 3), "request": {GPU: str(random.choice((1, 2, 3, 4)))}}
        gang["pods"].append({**pods, **random.choice(({}, {}, {"required": HOST}))})
    return {**gang, **random.choice(({}, {"required": RACK}, {"required": RACK}, {"preferred": RACK}))}


def _running(random: Random, index: int, room: dict[str, int]) -> Document:
    sets, running = [], []
    for name in ("a", "b")[: random.choice((1, 1, 2))]:
        size, count = random.choice((1, 1, 2, 3)), random.randint(1, 3)
        hosts = [host for host in room for _ in range(room[host] // size)]
        hosts = random.sample(hosts, min(count, len(hosts)))
        for host in hosts:
            if room[host] >= size:
                room[host] -= size
                running.append({"pods": name, "node": host})
        sets.append({"name": name, "count": count, "min": random.randint(0, count), "request": {GPU: str(size)}})
    gang = {"name": f"ns/low-{index}", "topology": "main", "pods": sets, "running": running}
    if len(sets) > 1 and random.random() < 0.5:
        gang["minGroups"] = 1  # type: ignore[assignment]
    return {**gang, "priority": random.choice((0, 0, 10, 60)), "preemptible": random.random() < 0.9}
