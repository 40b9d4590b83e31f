"""Seeded random problems in the exchange format.

`core`: one gang, required and preferred, mixed sizes, tight; min equals count. `hard`: cut to fit exactly, then perhaps
a hair too much. `tiny`: small enough for brute force. `full`: everything the format can say. `preempt`: a cluster full
of running gangs, and one that is worth more. `zones`: nodes with zones; `small-zones`: few enough for brute force;
`hard-zones`: a gang cut to fit zones and nodes exactly, then perhaps a hair too much. `affinity`: pods of one gang that
ask about each other.
"""

from __future__ import annotations

from random import Random
from typing import Literal, get_args

from placement_oracle.clusters import GPU, HOST, Cluster, random_cluster
from placement_oracle.divided import NUMA, cut_zones, divide, release_in_zones, settle_running
from placement_oracle.oddities import add_oddities
from placement_oracle.pod_terms import add_affinity
from placement_oracle.reading import Document

Profile = Literal["core", "hard", "tiny", "full", "preempt", "zones", "small-zones", "hard-zones", "affinity"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

SIZES = (1, 2, 3, 4, 5, 6, 8)


def instance(seed: int, profile: Profile = "core") -> Document:
    """The problem of a seed; the same seed always gives the same problem."""
    random = Random(f"{profile}-{seed}")
    match profile:
        case "core":
            cluster = random_cluster(random, random.choice((4, 6, 8, 12, 16, 24, 40)))
            gangs = [_tight_gang(random, cluster, "ns/gang-0", 40, 8)]
        case "hard":
            cluster = random_cluster(random, random.choice((4, 8, 12, 20)))
            gangs = [_cut_gang(random, cluster)]
        case "tiny":
            cluster = random_cluster(random, random.randint(2, 6))
            gangs = [_tight_gang(random, cluster, "ns/gang-0", 6, 2)]
        case "full":
            cluster = random_cluster(random, random.choice((4, 6, 10, 16, 24)))
            number = random.choice((1, 1, 2, 3))
            gangs = [_tight_gang(random, cluster, f"ns/gang-{index}", 24 // number, 5) for index in range(number)]
        case "affinity":
            cluster = random_cluster(random, random.choice((4, 6, 8, 12, 16)))
            gangs = [_tight_gang(random, cluster, "ns/gang-0", random.choice((6, 10, 16)), random.choice((2, 4)))]
        case "preempt":
            cluster = random_cluster(random, random.choice((4, 6, 10)))
            gangs = [_tight_gang(random, cluster, "ns/gang-0", 10, 3), *_running_gangs(random, cluster)]
            gangs[0]["priority"] = 100
        case "zones":
            cluster = random_cluster(random, random.choice((2, 4, 6, 10, 16)))
            divide(random, cluster)
            number = random.choice((1, 1, 2))
            gangs = [_tight_gang(random, cluster, f"ns/gang-{index}", 24 // number, 5) for index in range(number)]
        case "hard-zones":
            cluster, gangs = cut_zones(random)
        case "small-zones":
            cluster = random_cluster(random, random.randint(1, 2))
            divide(random, cluster)
            gangs = [_tight_gang(random, cluster, "ns/gang-0", 5, 2)]
    problem: Document = {
        "version": 1,
        "resources": cluster.resources,
        "topologies": [_topology(name, levels) for name, levels in cluster.topologies.items()],
        "nodes": cluster.nodes,
        "gangs": gangs,
        "options": {"preempt": True, "extras": random.choice(("place", "skip"))} if profile == "preempt" else {},
    }
    if profile == "full" or (profile == "tiny" and random.random() < 0.5):
        add_oddities(random, problem, preempt=profile == "full" and random.random() < 0.25)
    if profile == "affinity":
        if random.random() < 0.4:
            add_oddities(random, problem, preempt=False)
        add_affinity(random, gangs[0])
    if profile in ("zones", "small-zones") and random.random() < 0.5:
        add_oddities(random, problem, preempt=profile == "zones" and random.random() < 0.25)
        settle_running(random, problem)
        release_in_zones(random, problem)
    return problem


def _topology(name: str, levels: list[str]) -> Document:
    return {"name": name, "levels": levels} | ({"zones": True} if levels[-1] == NUMA else {})


def _levels(random: Random, cluster: Cluster, above: int) -> tuple[int, Document]:
    """A constraint not broader than the one above it, as depth of the required level and fields."""
    levels = cluster.topologies["main"]
    fields: Document = {}
    if random.random() < 0.6:
        above = random.randint(max(1, above), len(levels))
        fields["required"] = levels[above - 1]
    if random.random() < 0.55:
        fields["preferred"] = levels[random.randint(max(1, above), len(levels)) - 1]
    return above, fields


def _tight_gang(random: Random, cluster: Cluster, name: str, most_pods: int, most_groups: int) -> Document:
    """A gang that asks for about as much as one domain of its required level has."""
    depth, fields = _levels(random, cluster, 0)
    gang: Document = {"name": name, "topology": "main", **fields, "groups": [], "pods": []}
    room = cluster.free_gpus(random, "main", depth if "required" in fields else 0)
    budget = max(1, int(room * random.uniform(0.7, 1.15)))
    number = random.randint(1, most_groups)
    for index in range(number):
        share = max(1, budget // (number - index) + random.randint(-2, 2))
        share = min(share, budget)
        pods, spent = _pod_sets(random, cluster, share, max(1, most_pods // number), depth)
        budget -= spent
        if random.random() < 0.3:
            pods[0]["name"] = f"p{index}"
            gang["pods"].append(pods[0])
        else:
            gang["groups"].append({"name": f"g{index}", **_levels(random, cluster, depth)[1], "pods": pods})
        if budget <= 0:
            break
    return gang


def _pod_sets(random: Random, cluster: Cluster, share: int, most: int, depth: int) -> tuple[list[Document], int]:
    sets: list[Document] = []
    spent = 0
    for index in range(random.choice((1, 1, 2, 3))):
        size = random.choice([size for size in SIZES if size <= max(1, min(share - spent, cluster.largest))])
        count = min(most, max(1, random.randint(1 + (share - spent) // size // 2, max(1, (share - spent) // size))))
        constraint = _levels(random, cluster, depth)[1] if random.random() < 0.3 else {}
        sets.append({"name": f"s{index}", "count": count, "request": _request(random, cluster, size), **constraint})
        spent, most = spent + size * count, most - count
        if most <= 0 or spent >= share:
            break
    return sets, spent


def _running_gangs(random: Random, cluster: Cluster) -> list[Document]:
    """Gangs that run on most of the idle room, some above their minimum, some worth as much as anybody."""
    gangs: list[Document] = []
    room = {node["name"]: cluster.free_of(node) for node in cluster.nodes}
    for index in range(random.randint(2, 6)):
        size, wanted = random.choice((1, 2, 4)), random.randint(1, 5)
        hosts = [name for name in sorted(room) for _ in range(room[name] // size)]
        start = random.randrange(max(1, len(hosts) - wanted + 1))
        hosts = hosts[start : start + wanted]
        for host in hosts:
            room[host] -= size
        pods = {"name": "s0", "count": wanted, "min": random.randint(1, wanted), "request": {GPU: str(size)}}
        gang = {"name": f"ns/low-{index}", "topology": "main", "pods": [pods], "priority": random.choice((0, 10, 100))}
        gang["running"] = [{"pods": "s0", "node": host} for host in hosts]
        gangs.append({**gang, "preemptible": random.random() < 0.85})
    return gangs


def _request(random: Random, cluster: Cluster, gpus: int) -> Document:
    request = {GPU: str(gpus)}
    if "cpu" in cluster.resources and random.random() < 0.6:
        request["cpu"] = random.choice(("500m", "2", "8", "12", "15500m", str(4 * gpus)))
    if "memory" in cluster.resources and random.random() < 0.4:
        request["memory"] = random.choice(("1Gi", "64Gi", "100G", "200Gi"))
    return request


def _cut_gang(random: Random, cluster: Cluster) -> Document:
    """Groups cut out of the free room of whole racks, then perhaps one GPU or one pod too much."""
    levels = cluster.topologies["main"]
    depth = len(levels) - (levels[-1] == HOST)
    racks = cluster.rooms("main", max(1, depth))
    groups: list[Document] = []
    for index, rooms in enumerate(random.sample(racks, min(len(racks), random.randint(2, 6)))):
        pods = _cut(random, rooms, 1.0 if random.random() < 0.8 else 0.7)
        if pods:
            groups.append({"name": f"g{index}", "required": levels[max(1, depth) - 1], "pods": pods})
    if not groups:
        groups = [{"name": "g0", "pods": [{"name": "s0", "request": {GPU: "1"}}]}]
    if random.random() < 0.5:
        more = random.choice(random.choice(groups)["pods"])
        if random.random() < 0.5:
            more["count"] = more.get("count", 1) + 1
        else:
            more["request"] = {GPU: str(min(8, int(more["request"][GPU]) + 1))}
    random.shuffle(groups)
    gang: Document = {"name": "ns/gang-0", "topology": "main", "groups": groups}
    if random.random() < 0.4:
        gang["preferred"] = random.choice(levels)
    return gang


def _cut(random: Random, rooms: list[int], fill: float) -> list[Document]:
    counts: dict[int, int] = {}
    for room in rooms:
        left = int(room * fill)
        while left > 0:
            size = random.choice([size for size in SIZES if size <= left])
            counts[size] = counts.get(size, 0) + 1
            left -= size
    return [{"name": f"s{size}", "count": count, "request": {GPU: str(size)}} for size, count in counts.items()]
