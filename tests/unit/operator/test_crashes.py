"""Crash at every write of the operator: whoever comes after ends where nobody crashed, with the same objects made."""

from __future__ import annotations

from copy import deepcopy

import pytest

from spinney.drive.apply.write import ANY
from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.crash_world import Outcome, Play, Step, outcome
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import packed, settings, topology

NODES = "levels: [{name: zone, label: topology.kubernetes.io/zone, count: 1}, {name: host, count: 2}]\n"
LEVELS = {"zone": "topology.kubernetes.io/zone", "host": "kubernetes.io/hostname"}
WHOLE = podcliqueset(
    "d",
    [clique("a", autoScalingConfig={"maxReplicas": 2}), clique("w")],
    [group("g", ["w"], replicas=2)],
    cliqueStartupType="CliqueStartupTypeInOrder",
    topologyConstraint=packed("zone"),
)
SMALL = podcliqueset("d", [clique("a"), clique("w")], [group("g", ["w"], replicas=2)])


async def _create(world: World) -> None:
    await world.apply(WHOLE)


async def _scale(world: World, replicas: int) -> None:
    found = await world.get("PodCliqueScalingGroup", "d-0-g") or {}
    await world.door.scale(world.ref(found), replicas, ANY)


async def _update(world: World) -> None:
    changed = deepcopy(SMALL)
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
    await world.apply(changed)


async def _delete(world: World) -> None:
    await world.delete("PodCliqueSet", "d")


async def _small(world: World) -> None:
    await world.apply(SMALL)


async def _topology(world: World) -> None:
    await world.apply(topology("t", LEVELS))


async def _other_levels(world: World) -> None:
    await world.apply(topology("t", {"zone": "topology.kubernetes.io/zone"}))


async def _drop_topology(world: World) -> None:
    await world.delete("ClusterTopology", "t")


SCENARIOS: dict[str, tuple[Step | None, Step]] = {
    "create": (None, _create),
    "scale out": (_small, lambda world: _scale(world, 3)),
    "scale in": (_small, lambda world: _scale(world, 1)),
    "update": (_small, _update),
    "delete": (_small, _delete),
    "topology made": (None, _topology),
    "topology changed": (_topology, _other_levels),
    "topology deleted": (_topology, _drop_topology),
}


def _outcome(scenario: str, *crash: CrashPoint) -> Outcome:
    before, step = SCENARIOS[scenario]
    return outcome(Play(before or _nothing, step, settings(LEVELS), NODES), crash)


async def _nothing(world: World) -> None:
    """Nothing is there before."""


CALM = {scenario: _outcome(scenario) for scenario in SCENARIOS}
POINTS = [(scenario, write) for scenario, calm in CALM.items() for write in range(1, calm.writes + 1)]


@pytest.mark.parametrize(("scenario", "write"), POINTS)
def test_r5_a_crash_at_any_write_changes_nothing_in_the_end(scenario: str, write: int) -> None:
    """Each write has one of the three kinds of crash in turn; neighbouring writes have different ones."""
    when = list(When)[write % 3]
    found, calm = _outcome(scenario, CrashPoint(write, when)), CALM[scenario]
    assert found.crashes or when is When.AFTER
    assert found.state == calm.state
    assert found.counts == calm.counts
