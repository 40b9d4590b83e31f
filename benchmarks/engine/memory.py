"""Memory of an inventory, measured in a process of its own.

`python -m benchmarks.engine.memory NODES` prints the figures of one such process as JSON.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.engine.clocks import Row
from benchmarks.engine.clusters import RESOURCES, TOPOLOGIES, TOPOLOGY, flat, full, numbered
from spinney.api.placement.problem import Options
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine

GOAL = "<= 300 MB for 100,000 nodes with 4 resources"


def run(say: Callable[[str], None], nodes: int = 100_000) -> list[Row]:
    say(f"memory, {nodes:,} nodes ...")
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine.memory", str(nodes)],
        cwd=Path(__file__).resolve().parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    return [(f"memory, {nodes:,} nodes, {len(RESOURCES)} resources", json.loads(child.stdout), GOAL)]


def measure(number: int) -> dict[str, float]:
    """Resident megabytes: of the process, and what the inventory adds to the interpreter and the caller's nodes."""
    interpreter = _resident_mb()
    nodes = full(number).nodes
    given = _resident_mb()
    inventory = Inventory.of(RESOURCES, (TOPOLOGY,), nodes)
    engine = Engine(inventory, TOPOLOGIES, Options())
    placed = [engine.decide(gang).outcome for gang in numbered(flat(), 10)]
    whole = _resident_mb()
    return {
        "process_mb": round(whole, 1),
        "inventory_mb": round(whole - given, 1),
        "nodes_as_given_mb": round(given - interpreter, 1),
        "interpreter_mb": round(interpreter, 1),
        "placed": placed.count("placed"),
    }


def _resident_mb() -> float:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
