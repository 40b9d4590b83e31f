"""The scheduler with gangs of eight: how many pods a second get their nodes, how long one gang waits for them, and both
beside a real API server's own rate of binds.

`python -m benchmarks.scheduler [PODS [NODES [REAL_PODS]]]` prints the figures; with `--profile` where the time of
the embedded one goes. No kubelets and no heartbeats: what is measured ends with the bind.
"""

from __future__ import annotations

import logging
import os

import structlog
import uvloop

from benchmarks.scheduler.embedded import (
    backlog_on_embedded,
    creates_on_embedded,
    podgroups_on_embedded,
    sets_on_embedded,
    waits_on_embedded,
)
from benchmarks.scheduler.objects import GANG
from benchmarks.scheduler.real import on_real_server
from benchmarks.scheduler.steps import Row, Say

__all__ = ["GANG", "run"]

PODS, NODES, REAL_PODS, SINGLE_GANGS = 10_000, 5_000, 2_000, 300


def run(
    progress: Say, pods: int = PODS, nodes: int = NODES, real_pods: int = REAL_PODS, gangs: int = SINGLE_GANGS
) -> list[Row]:
    """Every figure with the goal that stands beside it; without real pods only those of the embedded server."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    rows: list[Row] = [
        ("machine", {"cores": os.cpu_count(), "load_average": load}, "goals are for 2 cores and nothing else running")
    ]
    progress(f"embedded, {pods:,} pods on {nodes:,} nodes ...")
    rows.append(uvloop.run(creates_on_embedded(pods)))
    rows.append(uvloop.run(podgroups_on_embedded(pods, nodes, progress)))
    rows.append(uvloop.run(backlog_on_embedded(pods, nodes)))
    rows.append(uvloop.run(waits_on_embedded(gangs, nodes)))
    rows.append(uvloop.run(sets_on_embedded(pods, nodes, progress)))
    if real_pods:
        progress(f"real API server, {real_pods:,} pods ...")
        rows += on_real_server(real_pods, progress)
    return rows
