"""How the time for one gang grows with the cluster, as figures and as a plot in text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from benchmarks.engine.clocks import Figures, Row, milliseconds
from benchmarks.engine.clusters import Cluster, empty, flat, full, nested, numbered
from benchmarks.engine.speed import duel
from spinney.api.placement.problem import Group

Say = Callable[[str], None]

SIZES = (1_000, 10_000, 100_000)
GOAL = "10x nodes <= 3x time"
WIDTH = 50


def run(say: Say, sizes: Sequence[int] = SIZES, times: int = 60, repeats: int = 5) -> list[Row]:
    rows = []
    kinds: tuple[tuple[str, Callable[[int], Cluster], Group], ...] = (
        ("8 pods in a rack, empty", empty, flat()),
        ("8 pods in a rack, full", full, flat()),
        ("nested, 8 pods in 2 groups, empty", empty, nested(2, 4)),
    )
    for title, cluster, root in kinds:
        found: dict[int, Figures] = {}
        for size in sizes:
            say(f"growth, {title}, {size:,} nodes ...")
            found[size] = duel(cluster(size), [numbered(root, times)] * repeats, milliseconds, window=0)
        rows.append((f"growth, {title}", _figures(found), GOAL))
    return rows


def _figures(found: dict[int, Figures]) -> Figures:
    sizes = sorted(found)
    steps = list(pairwise(sizes))
    return {
        **{f"cpu_ms_at_{size}": found[size]["cpu_ms"] for size in sizes},
        **{f"wall_ms_at_{size}": found[size]["wall_ms"] for size in sizes},
        **{f"greedy_cpu_ms_at_{size}": found[size]["greedy_cpu_ms"] for size in sizes},
        "times_per_step": [round(found[b]["best_cpu_ms"] / found[a]["best_cpu_ms"], 2) for a, b in steps],
        "violations": sum(figures["violations"] for figures in found.values()),
        "plot": plot({size: (found[size]["cpu_ms"], found[size]["greedy_cpu_ms"]) for size in sizes}),
    }


def plot(points: dict[int, tuple[float, float]]) -> str:
    """Bars of milliseconds: ours over greedy's for every size."""
    longest = max(max(pair) for pair in points.values())
    lines = [""]
    for size, pair in sorted(points.items()):
        for name, value, mark in zip(("spinney", "greedy"), pair, "#-", strict=True):
            bar = mark * max(1, round(value / longest * WIDTH))
            lines.append(f"      {size:>9,} nodes {name:>8} |{bar} {value:.3f} ms")
    return "\n".join(lines)
