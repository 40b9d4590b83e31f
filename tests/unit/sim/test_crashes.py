"""Crash at every write: whoever comes after finds everything in the store and ends where nobody crashed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule, When
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from unit.sim.worlds import workload

PARTS = Parts(
    behaviour=NodeBehaviour(heartbeat_s=0), controllers=("deployment", "replicaset"), binds=lambda scheduler_name: True
)
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def _outcome(crash: CrashPoint | None) -> tuple[Counter[str], int, int, bool]:
    """What was created and deleted, the pods that are ready, the writes of the first life, and whether it crashed."""

    async def main(sim: Sim) -> tuple[Counter[str], int, int, bool]:
        transports: list[FaultyTransport] = []

        def wrap(inner: Any) -> FaultyTransport:
            transports.append(FaultyTransport(inner, sim.dice, Schedule(crash=crash)))
            return transports[0]

        counts: Counter[str] = Counter()

        def seen(collection: str, event: Any) -> None:
            if event.old is None or event.new is None:
                counts[f"{'create' if event.old is None else 'delete'} {collection}"] += 1

        async with World(sim.clock, sim.dice, PARTS, wrap=wrap) as world:
            world.on_write(seen)
            await world.apply([NODE, workload("Deployment", "web", replicas=2)])
            crashed = False
            try:
                await world.settle(quiet_s=10)
            except BaseExceptionGroup as group:
                assert group.split(Crash)[1] is None
                crashed = True
                await world.restart()
                await world.settle(quiet_s=10)
            deployment = await world.get("Deployment", "web") or {}
            return counts, deployment["status"]["availableReplicas"], transports[0].writes, crashed

    return run(main, limit_s=10_000)


CALM = _outcome(None)


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("write", range(1, CALM[2] + 1))
def test_a_crash_at_any_write_changes_nothing_in_the_end(write: int, when: When) -> None:
    counts, ready, _, crashed = _outcome(CrashPoint(write, when))
    assert crashed or when is When.AFTER
    assert ready == 2
    assert counts == CALM[0]
