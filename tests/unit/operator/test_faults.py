"""A server and a network that fail now and then: the operator ends where a calm one ends, and then it rests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spinney.sim.event_loop import Sim
from spinney.sim.faults import FaultyTransport, Schedule
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, podcliqueset, writes_at_rest
from unit.operator.topologies import packed, settings

WHOLE = podcliqueset(
    "d",
    [clique("a", 2), clique("w", 2)],
    [group("g", ["w"], replicas=2, topologyConstraint=packed("rack"))],
    replicas=2,
    topologyConstraint=packed("zone"),
)


@pytest.mark.parametrize("seed", range(6))
def test_live1_r4_faults_do_not_change_where_it_ends(seed: int) -> None:
    transports: list[FaultyTransport] = []

    def wrap(sim: Sim) -> Any:
        def around(inner: Any) -> Any:
            transports.append(FaultyTransport(inner, sim.dice, Schedule(otherwise=0.03)))
            return transports[-1]

        return around

    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        transports[0].calm()
        await world.settle()
        pods = await world.list("Pod")
        assert {each["status"]["phase"] for each in pods} == {"Running"}
        places = Counter(
            (labels["grove.io/podclique"], labels["grove.io/podclique-pod-index"])
            for each in pods
            if (labels := each["metadata"]["labels"])
        )
        assert len(places) == 12
        assert set(places.values()) == {1}
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 2
        assert await writes_at_rest(world) == []

    in_world(scenario, settings(), seed=seed, wrap=wrap)
    assert transports[0].log
