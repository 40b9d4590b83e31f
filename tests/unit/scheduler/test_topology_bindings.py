"""The scheduler goes by ClusterTopologyBindings as by ClusterTopologies (T8), with all roles at work."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.sim.world import World
from unit.operator.operator_world import CRDS, clique, podcliqueset
from unit.operator.test_topology_bindings import binding
from unit.operator.topologies import ZONE, packed, settings
from unit.scheduler.scheduler_world import GPU, QUEUES, bound, domains, in_world, podgroup, pods

SERVING = {
    "containers": [{"name": "main", "image": "serve", "resources": {"limits": {GPU: "8"}, "requests": {GPU: "8"}}}]
}


def user(name: str = "") -> dict[str, Any]:
    template = {"clusterTopologyName": name} if name else {}
    made = podcliqueset("d", [clique("w", 2)], topologyConstraint=packed("rack"), **template)  # type: ignore[arg-type]
    made["spec"]["template"]["cliques"][0]["spec"]["podSpec"] = SERVING
    return made


async def racks(world: World) -> int:
    """How many racks the two pods of the set are in."""
    found = await bound(world, "d-0-")
    assert len(found) == 2
    return len(await domains(world, found.values()))


@pytest.mark.parametrize("references", [{}, {"kai_scheduler": "tree"}], ids=["its own", "one that is there"])
def test_t8_a_set_is_placed_by_a_binding(references: dict[str, str]) -> None:
    async def scenario(world: World) -> None:
        await world.apply([binding("a", **references), user("a")])  # type: ignore[arg-type]
        await world.settle()
        assert await racks(world) == 1

    in_world(scenario, operator=settings())


def test_t8_a_set_is_placed_where_the_server_knows_bindings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [each for each in CRDS if each["spec"]["names"]["kind"] != "ClusterTopology"]
    monkeypatch.setattr("unit.scheduler.scheduler_world.CRDS", kinds)

    async def scenario(world: World) -> None:
        await world.apply(user())
        await world.settle()
        assert await racks(world) == 1

    in_world(scenario, operator=settings())


@pytest.mark.parametrize("named", [True, False], ids=["by name", "by reference"])
def test_t8_segments_know_the_short_names_of_a_binding(named: bool) -> None:
    annotations = {
        "kai.scheduler/segment-size": "2",
        "kai.scheduler/segment-topology-required-placement": "rack",
    }

    async def scenario(world: World) -> tuple[int, int]:
        gang = podgroup("g", 4, required=ZONE, annotations=annotations)
        await world.apply([*QUEUES, gang, *pods("g", 4)])
        await world.settle()
        before = len(await bound(world, "g-"))
        await world.apply(binding("tree") if named else binding("a", kai_scheduler="tree"))
        await world.settle()
        return before, len(await bound(world, "g-"))

    assert in_world(scenario, operator=settings()) == (0, 4)
