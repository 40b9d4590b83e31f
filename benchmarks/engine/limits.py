"""Gangs that cannot be placed: refused at once where counting proves it, and at the budget where only search could."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from benchmarks.engine.checked import Book
from benchmarks.engine.clocks import Figures, Row, Series, settled
from benchmarks.engine.clusters import RACK, RESOURCES, TOPOLOGIES, TOPOLOGY, empty, node, pod_set
from benchmarks.engine.contenders import Ours
from spinney.api.placement.problem import DEFAULT_BUDGET, Gang, Group, Node, Options
from spinney.core.inventory.inventory import Inventory

Say = Callable[[str], None]

MILLION = "infeasible at once: a million pods on fifty nodes are never a million objects"
ADVERSARIAL = f"stops at its budget of {DEFAULT_BUDGET:,} steps and says so, or proves it before"


def run(say: Say, repeats: int = 3) -> list[Row]:
    say("a million pods on fifty nodes ...")
    million = Gang("million", Group("", pods=(pod_set("worker", 1_000_000),), topology=TOPOLOGY.name, required=RACK))
    rows = [("a million pods on 50 nodes", _refusal(empty(50).nodes, million, repeats), MILLION)]
    say("an adversarial infeasible gang ...")
    nodes, gang = adversarial()
    return [*rows, ("adversarial, infeasible, 56 groups on 20 racks", _refusal(nodes, gang, repeats), ADVERSARIAL)]


def adversarial() -> tuple[list[Node], Gang]:
    """Twenty racks of 14 to 26 slots, and groups that fill them to the last slot by sum, but not in fact.

    No rack has a multiple of three, so that each needs a group that is none either; of those there are seventeen.
    """
    rooms = [14 + 3 * (rack % 5) for rack in range(20)]
    free = [[room // 5 + (host < room % 5) for host in range(5)] for room in rooms]
    nodes = [node(f"r{rack}h{host}", rack, 8 - free[rack][host]) for rack in range(20) for host in range(5)]
    sizes = [5, 6, 8, 9] * 8 + [5] + [6] * 12 + [9] * 11
    inside = tuple(Group(f"g{at}", required=RACK, pods=(pod_set("worker", size),)) for at, size in enumerate(sizes))
    return nodes, Gang("adversarial", Group("", groups=inside, topology=TOPOLOGY.name))


def _refusal(nodes: list[Node], gang: Gang, repeats: int) -> Figures:
    series = Series()
    outcomes, reasons = set(), set()
    for _ in range(repeats):
        ours = Ours(Inventory.of(RESOURCES, (TOPOLOGY,), nodes), TOPOLOGIES, Options())
        with settled():
            decision = series.timed(ours, gang)
        outcomes.add(decision.outcome)
        reasons.add(decision.explanation.reason if decision.explanation else "")
        members = ours.members(decision)
        if members is not None:
            series.violations += Book(nodes, TOPOLOGIES).enter(gang, members)
    return {
        "outcome": " ".join(sorted(outcomes)),
        "cpu_ms": round(median(series.cpu_s) * 1e3, 2),
        "wall_ms": round(median(series.wall_s) * 1e3, 2),
        "reason": " ".join(sorted(reasons)),
        "violations": series.violations,
    }
