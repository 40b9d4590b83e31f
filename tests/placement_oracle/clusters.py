"""Seeded random clusters: uneven racks, half-labelled nodes, any load."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random

from placement_oracle.quantities import base_units
from placement_oracle.reading import Document

GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
BLOCK = "example.com/block"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"

SHAPES = (
    [RACK, HOST],
    [BLOCK, RACK],
    [BLOCK, RACK, HOST],
    [ZONE, BLOCK, RACK],
    [ZONE, BLOCK, RACK, HOST],
)


@dataclass(slots=True)
class Cluster:
    resources: list[str]
    topologies: dict[str, list[str]]
    nodes: list[Document]
    largest: int

    def free_of(self, node: Document) -> int:
        if node.get("unschedulable") or not node.get("ready", True):
            return 0
        used = base_units(GPU, node["used"].get(GPU, 0), up=True)
        return base_units(GPU, node["allocatable"].get(GPU, 0), up=False) - used

    def rooms(self, topology: str, depth: int) -> list[list[int]]:
        """Free GPUs per node, for each domain of a level."""
        levels = self.topologies[topology][:depth]
        domains: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for node in self.nodes:
            if len(levels) == depth and depth and all(level in node["labels"] for level in levels[:-1]):
                for zone in node.get("zones") or [] if levels[-1] not in node["labels"] else []:
                    domains[node["name"], zone["name"]].append(self.free_of(zone))
            if all(level in node["labels"] for level in levels):
                domains[tuple(node["labels"][level] for level in levels)].append(self.free_of(node))
        return list(domains.values()) or [[0]]

    def free_gpus(self, random: Random, topology: str, depth: int) -> int:
        """The free GPUs of one of the roomier domains of a level."""
        sums = sorted(sum(rooms) for rooms in self.rooms(topology, depth))
        return random.choice(sums[-3:])


def random_cluster(random: Random, number: int) -> Cluster:
    levels = random.choice(SHAPES)
    resources = ["pods", GPU] if random.random() < 0.5 else ["cpu", "memory", "pods", GPU]
    largest = random.choice((4, 8, 8, 8))
    load, full = random.uniform(0.0, 0.95), random.random() < 0.3
    nodes = [_node(random, f"n{index}", labels, largest) for index, labels in enumerate(_places(random, number))]
    for node in nodes:
        _load(random, node, largest, load, full, resources)
    return Cluster(resources, {"main": list(levels)}, nodes, largest)


def _places(random: Random, number: int) -> list[Document]:
    """Labels per node; equal rack names under different blocks, values with dots, racks of uneven size."""
    places: list[Document] = []
    most = random.choice((2, 3, 5, 8))
    dotted, bare = random.random() < 0.15, random.choice((0.0, 0.0, 0.1))
    zone = block = rack = 0
    while len(places) < number:
        names = (f"z{zone}", f"b{block}", f"r{rack}")
        if dotted:
            names = random.choice((("a.b", "c", "d"), ("a", "b.c", "d"), ("a", "b", "c.d"), ("a", "b", "c")))
        for _ in range(random.randint(1, most)):
            labels = {ZONE: names[0], BLOCK: names[1], RACK: names[2], HOST: f"n{len(places)}"}
            if random.random() < bare:
                for key in random.sample([ZONE, BLOCK, RACK, HOST], random.randint(1, 4)):
                    del labels[key]
            places.append(labels)
        rack += 1
        if rack >= random.randint(1, 4):
            block, rack = block + 1, 0
        if block >= random.randint(1, 3):
            zone, block = zone + 1, 0
    return places[:number]


def _node(random: Random, name: str, labels: Document, largest: int) -> Document:
    gpus = largest if random.random() < 0.9 else random.choice((0, 2, 4))
    return {
        "name": name,
        "labels": labels,
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
        "used": {},
    }


def _load(random: Random, node: Document, largest: int, load: float, full: bool, resources: list[str]) -> None:
    """Either most nodes are full and the rest empty, or all are partly used."""
    gpus = int(node["allocatable"][GPU])
    if full:
        used = gpus if random.random() < load else random.choice((0, 0, min(1, gpus)))
    else:
        used = min(gpus, max(0, round(gpus * load + random.uniform(-0.5, 0.5) * largest * 0.8)))
    node["used"][GPU] = str(used)
    if random.random() < 0.3:
        node["used"]["cpu"] = random.choice(("16", "40", "55500m"))
    if random.random() < 0.2:
        node["used"]["memory"] = random.choice(("100Gi", "400Gi"))
    if random.random() < 0.1:
        node["allocatable"]["pods"] = str(random.randint(0, 3))
    for part in ("allocatable", "used"):
        node[part] = {name: amount for name, amount in node[part].items() if name in resources}
