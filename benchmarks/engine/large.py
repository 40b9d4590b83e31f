"""Large gangs: a thousand pods at once, and forty groups that fit forty racks in few ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from benchmarks.engine.checked import Book
from benchmarks.engine.clocks import Figures, Row, Series, milliseconds, outcome, percentile, settled
from benchmarks.engine.clusters import RACK, TOPOLOGIES, TOPOLOGY, ZONE, Cluster, empty, node, pod_set
from benchmarks.engine.contenders import both
from spinney.api.placement.problem import Gang, Group, Node

Say = Callable[[str], None]
Instance = tuple[Sequence[Node], Gang]

BIG = "1,000 pods in 100 sub-groups on 1,000 nodes <= 100 ms"
HARD = "p99 <= 50 ms at 90 % load, 40 groups on 40 racks; all of them fit"
HOSTS, RACKS, GROUPS = 8, 40, 40


def run(say: Say, repeats: int = 5, seeds: int = 100) -> list[Row]:
    rows: list[Row] = []
    for title, cluster, gang in (
        ("empty, all alike", empty(1_000), _big((4,))),
        ("half full, three sizes", _half_full(1_000), _big((1, 2, 3))),
    ):
        say(f"big gang, {title} ...")
        figures = milliseconds(*_duels([(cluster.nodes, gang)] * repeats))
        rows.append((f"big gang, 1,000 nodes, {title}", figures, BIG))
    for title, sizes in (("pods of 2 GPUs", (2,)), ("pods of 1, 2 and 4 GPUs", (1, 2, 4))):
        say(f"hard, {title}, {seeds} seeds ...")
        mine, greedy = _duels([hard(seed, sizes) for seed in range(seeds)])
        rows.append((f"hard, 40 groups on 40 racks, {title}", _percentiles(mine, greedy), HARD))
    return rows


def hard(seed: int, sizes: Sequence[int]) -> Instance:
    """The roomiest racks, nine tenths of all room, cut into forty groups: so there is a placement, but few."""
    random = Random(seed)
    used = [[random.choice((0, 0, 0, 2, 4, 6, 8)) for _ in range(HOSTS)] for _ in range(RACKS)]
    nodes = [node(f"r{r}h{h}", r, used[r][h], racks_per_block=10) for r in range(RACKS) for h in range(HOSTS)]
    racks = sorted(([8 - gpus for gpus in rack if gpus < 8] for rack in used), key=sum, reverse=True)
    groups = _cut(random, _nine_tenths(racks), sizes)
    random.shuffle(groups)
    inside = tuple(_group(f"g{at}", pods) for at, pods in enumerate(groups))
    return nodes, Gang(f"hard-{seed}", Group("", groups=inside, topology=TOPOLOGY.name, required=ZONE))


def _nine_tenths(racks: list[list[int]]) -> list[list[int]]:
    total, chosen = sum(map(sum, racks)), 0
    for at, rack in enumerate(racks):
        chosen += sum(rack)
        if chosen >= 0.9 * total:
            return racks[: at + 1]
    return racks


def _cut(random: Random, racks: list[list[int]], sizes: Sequence[int]) -> list[list[int]]:
    """Pods that fill the racks exactly, a group for each rack, and random ones in two until there are enough."""
    groups = []
    for rooms in racks:
        pods = []
        for room in rooms:
            while room >= min(sizes):
                pods.append(random.choice([size for size in sizes if size <= room]))
                room -= pods[-1]
        groups.append(pods)
    while len(groups) < GROUPS:
        cut = groups.pop(random.choice([at for at, pods in enumerate(groups) if len(pods) > 1]))
        random.shuffle(cut)
        at = random.randint(1, len(cut) - 1)
        groups += [cut[:at], cut[at:]]
    return groups


def _group(name: str, pods: list[int]) -> Group:
    sets = tuple(pod_set(f"of-{size}", pods.count(size), size) for size in sorted(set(pods)))
    return Group(name, pods=sets, required=RACK)


def _big(sizes: Sequence[int]) -> Gang:
    inside = tuple(
        Group(f"g{at}", required=RACK, pods=(pod_set("worker", 10, sizes[at % len(sizes)]),)) for at in range(100)
    )
    return Gang("big", Group("", groups=inside, topology=TOPOLOGY.name))


def _half_full(number: int) -> Cluster:
    random = Random(1)
    return Cluster("half full", [node(f"n{at}", at // 16, random.choice((0, 2, 4, 5, 8))) for at in range(number)])


def _duels(instances: Sequence[Instance]) -> tuple[list[Series], list[Series]]:
    """Every instance on inventories of its own, turn by turn."""
    series: tuple[list[Series], list[Series]] = ([], [])
    for nodes, gang in instances:
        contenders = both(nodes)
        with settled():
            for contender, mine in zip(contenders, series, strict=True):
                mine.append(Series())
                mine[-1].step(contender, Book(nodes, TOPOLOGIES), gang)
    return series


def _percentiles(mine: Sequence[Series], greedy: Sequence[Series]) -> Figures:
    cpu, wall = [run.cpu_s[0] * 1e3 for run in mine], [run.wall_s[0] * 1e3 for run in mine]
    theirs = [run.cpu_s[0] * 1e3 for run in greedy]
    return {
        "p50_cpu_ms": round(median(cpu), 2),
        "p99_cpu_ms": round(percentile(cpu, 0.99), 2),
        "p50_wall_ms": round(median(wall), 2),
        "p99_wall_ms": round(percentile(wall, 0.99), 2),
        "greedy_p50_cpu_ms": round(median(theirs), 2),
        "greedy_p99_cpu_ms": round(percentile(theirs, 0.99), 2),
        "greedy_by_ours": round(median(theirs) / median(cpu), 2),
        **outcome(mine, greedy),
    }
