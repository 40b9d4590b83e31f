"""Speed of small gangs: one at a time, a shape never seen, and streams of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.engine.checked import Book
from benchmarks.engine.clocks import Figures, Row, Series, milliseconds, rates, settled, stream
from benchmarks.engine.clusters import HOST, TOPOLOGIES, Cluster, empty, flat, full, nested, numbered
from benchmarks.engine.contenders import both
from spinney.api.placement.problem import Gang, Group

REPEATS = 5

Say = Callable[[str], None]
Summary = Callable[[Sequence[Series], Sequence[Series]], Figures]

ONE_GANG = {
    2_500: "<= 0.15 ms (Kueue 1.0 ms, KAI 40 ms a cycle)",
    10_000: "<= 0.3 ms (at 5,000 nodes Kueue 3.4-4.3 ms, KAI 83 ms a cycle)",
    100_000: "<= 1.5 ms",
}
STREAM = ">= 5,000 eight-pod gangs/s (Kueue 410-480, KAI 19-31)"
NESTED = ">= 1,500 three-level nested gangs/s"
WISHES = ">= 2,000/s with preferred host beside required rack"


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of gang to send through a cluster; the goal may hold for one load only or for both."""

    title: str
    root: Group
    goal: str


FLAT = Template("8 pods in a rack", flat(), STREAM)
TEMPLATES = (
    FLAT,
    Template("8 pods of a node each in a rack", flat(gpus=8), "no goal of its own; " + STREAM),
    Template("nested block > rack > host, 8 pods in 2 groups", nested(2, 4), NESTED),
    Template("nested block > rack > host, 24 pods in 3 groups", nested(3, 8), NESTED),
    Template("8 pods in a rack, preferred host", flat(preferred=HOST), WISHES),
    Template("8 pods of 4 GPUs in a rack, preferred host", flat(gpus=4, preferred=HOST), WISHES),
)


def run(say: Say, gangs: int = 300, repeats: int = REPEATS, most_nodes: int = 100_000) -> list[Row]:
    rows: list[Row] = []
    for number, goal in ONE_GANG.items():
        if number <= most_nodes:
            rows += _one_gang(say, number, goal, min(gangs, 100), repeats)
    if most_nodes >= 100_000:
        rows += [_new_shape(say, 100_000, repeats)]
    for cluster in (empty(min(5_000, most_nodes)), full(min(5_000, most_nodes))):
        templates = [one for one in TEMPLATES if cluster.name == "empty" or not _needs_empty_nodes(one.root)]
        rows += _streams(say, cluster, templates, gangs, repeats)
    if most_nodes >= 100_000:
        large = Template(FLAT.title, FLAT.root, ">= 3,000 eight-pod gangs/s at 100,000 nodes")
        for cluster in (empty(100_000), full(100_000)):
            rows += _streams(say, cluster, [large], gangs, repeats)
    return rows


def _needs_empty_nodes(root: Group) -> bool:
    return any(pods.request[-1] >= 4 for pods in root.pods)


def _one_gang(say: Say, number: int, goal: str, times: int, repeats: int) -> list[Row]:
    """A gang comes, is decided, and leaves again."""
    rows = []
    for cluster in (empty(number), full(number)):
        say(f"one gang, {number:,} nodes, {cluster.name} ...")
        figures = duel(cluster, [numbered(FLAT.root, times)] * repeats, milliseconds, window=0)
        rows.append((f"one gang, {number:,} nodes, {cluster.name}", figures, goal))
    return rows


def _new_shape(say: Say, number: int, repeats: int) -> Row:
    say(f"shapes never seen, {number:,} nodes ...")
    roots = [flat(cpu_m=4_001 + at) for at in range(4 * repeats)]
    gangs = [Gang(f"new-{at}", root) for at, root in enumerate(roots)]
    figures = duel(full(number), [gangs[at::repeats] for at in range(repeats)], milliseconds, window=0)
    return f"a shape never seen, {number:,} nodes, full", figures, "<= 5 ms"


def _streams(say: Say, cluster: Cluster, templates: Sequence[Template], gangs: int, repeats: int) -> list[Row]:
    rows = []
    for template in templates:
        title = f"stream, {len(cluster.nodes):,} nodes, {cluster.name}: {template.title}"
        say(f"{title} ...")
        number = gangs if template.root.pods else max(3, gangs // 5)
        figures = duel(cluster, [numbered(template.root, number)] * repeats, rates)
        rows.append((title, figures, template.goal))
    return rows


def duel(cluster: Cluster, runs: Sequence[Sequence[Gang]], summary: Summary, window: int = 40) -> Figures:
    """The same gangs for both, turn by turn; a first gang of a known shape goes untimed."""
    contenders = both(cluster.nodes)
    books = [Book(cluster.nodes, TOPOLOGIES) for _ in contenders]
    series: list[list[Series]] = [[] for _ in contenders]
    warm = numbered(FLAT.root if len({gang.root for gang in runs[0]}) > 1 else runs[0][0].root, 1, "warm")
    with settled():
        for gangs in (warm, *runs):
            for contender, book, mine in zip(contenders, books, series, strict=True):
                mine.append(stream(contender, book, gangs, window))
    return summary(series[0][1:], series[1][1:])
