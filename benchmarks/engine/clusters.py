"""Synthetic clusters and gangs: zones of eight blocks of sixteen racks of sixteen nodes with eight GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from spinney.api.placement.problem import Amounts, Gang, Group, Node, PodSet, Topology

GPU = "nvidia.com/gpu"
RESOURCES = ("cpu", "memory", "pods", GPU)
ZONE, BLOCK, RACK, HOST = (
    "topology.kubernetes.io/zone",
    "example.com/block",
    "example.com/rack",
    "kubernetes.io/hostname",
)
TOPOLOGY = Topology("network", (ZONE, BLOCK, RACK, HOST))
TOPOLOGIES = {TOPOLOGY.name: TOPOLOGY}

HOSTS_PER_RACK, RACKS_PER_BLOCK, BLOCKS_PER_ZONE = 16, 16, 8
CAPACITY: Amounts = (128_000, 1 << 40, 110, 8)
NOTHING: Amounts = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    nodes: list[Node]


def node(name: str, rack: int, gpus_used: int, racks_per_block: int = RACKS_PER_BLOCK) -> Node:
    block = rack // racks_per_block
    labels = {ZONE: f"z{block // BLOCKS_PER_ZONE}", BLOCK: f"b{block}", RACK: f"r{rack}", HOST: name}
    used = (gpus_used * 8_000, gpus_used << 36, gpus_used, gpus_used)
    return Node(name, labels, CAPACITY, used, NOTHING)


def empty(number: int) -> Cluster:
    return Cluster("empty", [node(f"n{at}", at // HOSTS_PER_RACK, 0) for at in range(number)])


def full(number: int, seed: int = 1) -> Cluster:
    """Every node is in use: one rack in ten has 2..6 GPUs free on each node, the others at most 7 in all."""
    random = Random(seed)
    racks = -(-number // HOSTS_PER_RACK)
    roomy = set(random.sample(range(racks), max(1, racks // 10)))
    nodes = []
    for rack in range(racks):
        spots = random.choices(range(HOSTS_PER_RACK), k=7)
        for at in range(rack * HOSTS_PER_RACK, min(number, (rack + 1) * HOSTS_PER_RACK)):
            free = random.randint(2, 6) if rack in roomy else spots.count(at % HOSTS_PER_RACK)
            nodes.append(node(f"n{at}", rack, 8 - free))
    return Cluster("full", nodes)


def request(gpus: int, cpu_m: int = 4_000) -> Amounts:
    return (cpu_m, 16 << 30, 1, gpus)


def pod_set(name: str, count: int, gpus: int = 1, required: str | None = None, cpu_m: int = 4_000) -> PodSet:
    return PodSet(name, request(gpus, cpu_m), count, count, required=required)


def flat(gpus: int = 1, preferred: str | None = None, cpu_m: int = 4_000) -> Group:
    """Eight equal pods in one rack."""
    pods = (pod_set("worker", 8, gpus, cpu_m=cpu_m),)
    return Group("", pods=pods, topology=TOPOLOGY.name, required=RACK, preferred=preferred)


def nested(groups: int, each: int) -> Group:
    """A block, racks in it, in each rack half of the pods on one host and half anywhere."""
    inside = tuple(
        Group(f"g{at}", required=RACK, pods=(pod_set("tight", each // 2, required=HOST), pod_set("loose", each // 2)))
        for at in range(groups)
    )
    return Group("", groups=inside, topology=TOPOLOGY.name, required=BLOCK)


def numbered(root: Group, number: int, prefix: str = "gang") -> list[Gang]:
    """Gangs of one template."""
    return [Gang(f"{prefix}-{at}", root) for at in range(number)]
