"""Random clusters with zones below the host: nodes that are divided, nodes with another policy, and what zones share.

Zones account for some resources only; of the others, and of pods, a node often has too little for all its zones.
"""

from __future__ import annotations

from random import Random

from placement_oracle.clusters import GPU, HOST, RACK, Cluster
from placement_oracle.quantities import base_units
from placement_oracle.reading import SINGLE, Document

NUMA = "example.com/numa"


def divide(random: Random, cluster: Cluster) -> None:
    """Give the cluster a level of zones, and most of its nodes zones."""
    cluster.topologies["main"].append(NUMA)
    counted = [GPU] if random.random() < 0.3 else [name for name in cluster.resources if name != "pods"]
    tight = random.random() < 0.5
    for node in cluster.nodes:
        if tight and random.random() < 0.6:
            node["allocatable"]["pods"] = str(random.randint(1, 5))
        if tight and "cpu" in cluster.resources and GPU in counted[:1] and random.random() < 0.5:
            node["allocatable"]["cpu"] = random.choice(("8", "16", "30"))
        if random.random() < 0.85:
            node["zones"] = _zones(random, node, counted)
            node["zonePolicy"] = SINGLE if random.random() < 0.85 else random.choice(("restricted", "best-effort"))
    cluster.largest = max(1, cluster.largest // 2)


def _zones(random: Random, node: Document, counted: list[str]) -> list[Document]:
    number = random.choice((1, 2, 2, 2, 3, 4))
    zones: list[Document] = [{"name": f"node-{at}", "allocatable": {}, "used": {}} for at in range(number)]
    for name in counted:
        have = base_units(name, node["allocatable"].get(name, 0), up=False)
        used = base_units(name, node["used"].get(name, 0), up=True)
        for at, zone in enumerate(zones):
            mine = have // number + (at < have % number)
            taken = min(mine, used) if random.random() < 0.5 else min(mine, used // (number - at))
            used -= taken
            zone["allocatable"][name] = _written(name, mine)
            zone["used"][name] = _written(name, taken)
    random.shuffle(zones)
    return zones


def cut_zones(random: Random) -> tuple[Cluster, list[Document]]:
    """A gang that fills zones to the last, on nodes with just enough of what zones do not account for."""
    levels = [RACK, HOST, NUMA] if random.random() < 0.7 else [RACK, NUMA]
    nodes: list[Document] = []
    groups: list[Document] = []
    for at in range(random.randint(1, 3)):
        zones = [random.choice((2, 3, 4, 6)) for _ in range(random.choice((1, 2, 2, 3)))]
        cut = [_cut(random, f"n{at}z{zone}", free) for zone, free in enumerate(zones)]
        nodes.append(_filled(random, at, zones, cut))
        groups += _grouped(random, at, cut)
    random.shuffle(nodes)
    random.shuffle(groups)
    if random.random() < 0.5:
        _too_much(random, groups)
    gang: Document = {"name": "ns/gang-0", "topology": "main", "groups": groups}
    if random.random() < 0.3:
        gang["preferred"] = random.choice(levels)
    return Cluster(["cpu", "pods", GPU], {"main": levels}, nodes, 4), [gang]


def _cut(random: Random, name: str, free: int) -> list[Document]:
    """Pods that fill a zone; some have a port."""
    found: list[Document] = []
    while free > 0:
        size = random.choice([size for size in (1, 2, 3) if size <= free])
        request = {GPU: str(size), "cpu": str(random.choice((1, 1, 2, 3, 5)))}
        found.append({"name": f"{name}p{len(found)}", "request": request})
        if random.random() < 0.08:
            found[-1]["hostPorts"] = [random.choice((80, 443))]
        free -= size
    return found


def _filled(random: Random, at: int, zones: list[int], cut: list[list[Document]]) -> Document:
    pods = [pod for zone in cut for pod in zone]
    cpu = sum(int(pod["request"]["cpu"]) for pod in pods) + random.choice((0, 0, 1))
    return {
        "name": f"n{at}",
        "labels": {RACK: f"r{at % 2}", HOST: f"n{at}"},
        "allocatable": {"cpu": str(cpu), "pods": str(len(pods) + random.choice((0, 0, 2))), GPU: str(sum(zones))},
        "used": {},
        "zones": [{"name": f"node-{zone}", "allocatable": {GPU: str(free)}} for zone, free in enumerate(zones)],
        "zonePolicy": SINGLE if random.random() < 0.9 else "none",
    }


def _grouped(random: Random, at: int, cut: list[list[Document]]) -> list[Document]:
    """The pods of each zone as a group of their own, or all pods of the node together."""
    if random.random() < 0.5:
        found = [{"name": f"g{at}-{zone}", "pods": pods} for zone, pods in enumerate(cut)]
        return [{**group, "required": NUMA} if random.random() < 0.7 else group for group in found]
    level = random.choice((RACK, None))
    return [{"name": f"g{at}", "pods": [pod for pods in cut for pod in pods]} | ({"required": level} if level else {})]


def _too_much(random: Random, groups: list[Document]) -> None:
    request = random.choice(random.choice(groups)["pods"])["request"]
    resource = random.choice(("cpu", GPU))
    request[resource] = str(int(request[resource]) + 1)


def _written(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)


def settle_running(random: Random, problem: Document) -> None:
    """Most running members are in a zone that is known; it has room for them, or they have taken a stranger's."""
    nodes = {node["name"]: node for node in problem["nodes"]}
    requests = {(gang["name"], path): pods for gang in problem["gangs"] for path, pods in _pod_sets(gang, "")}
    for gang in problem["gangs"]:
        for member in gang.get("running") or []:
            zones = nodes[member["node"]].get("zones")
            if zones and random.random() < 0.8:
                zone = random.choice(zones)
                member["zone"] = zone["name"]
                wanted = int(requests[gang["name"], member["pods"]]["request"].get(GPU, 0))
                zone["used"][GPU] = str(max(0, int(zone["used"].get(GPU, 0)) - wanted))


def release_in_zones(random: Random, problem: Document) -> None:
    """What a node releases leaves its zones as well, in most cases."""
    for node in problem["nodes"]:
        left = int((node.get("releasing") or {}).get(GPU, 0))
        for zone in node.get("zones") or []:
            here = min(left, int(zone["used"].get(GPU, 0)))
            if here and random.random() < 0.8:
                zone["releasing"] = {GPU: str(here)}
                left -= here


def _pod_sets(group: Document, prefix: str) -> list[tuple[str, Document]]:
    found = [(prefix + pods["name"], pods) for pods in group.get("pods") or []]
    for child in group.get("groups") or []:
        found += _pod_sets(child, f"{prefix}{child['name']}/")
    return found
