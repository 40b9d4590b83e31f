"""Crashes in longer stories than one write: scaling at each level, updates, other topologies, gang termination.

The writes are sampled; whoever comes after may crash as well.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from spinney.drive.apply.write import ANY
from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.crash_world import Outcome, Play, Step, outcome
from unit.operator.operator_world import clique, group, names, podcliqueset
from unit.operator.topologies import packed, settings, topology

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
LEVELS = {"zone": ZONE, "host": HOST}
NODES = f"levels: [{{name: zone, label: {ZONE}, count: 1}}, {{name: host, count: 2}}]\n"
SAMPLES = 4
WHOLE = podcliqueset(
    "d",
    [clique("a", 2, 1, autoScalingConfig={"maxReplicas": 4}), clique("w", topologyConstraint=packed("host"))],
    [group("g", ["w"], replicas=2, topologyConstraint=packed("host"))],
    cliqueStartupType="CliqueStartupTypeInOrder",
    terminationDelay="5s",
    topologyConstraint=packed("zone"),
)
NAMED = podcliqueset(
    "d",
    [clique("a"), clique("w")],
    [group("g", ["w"], replicas=2, topologyConstraint=packed("zone"))],
    clusterTopologyName="first",
    topologyConstraint=packed("zone"),
)


def _with(whole: dict[str, Any], **template: Any) -> dict[str, Any]:
    changed = deepcopy(whole)
    changed["spec"]["template"] |= template
    return changed


def _applying(*manifests: dict[str, Any]) -> Step:
    async def step(world: World) -> None:
        await world.apply(list(manifests))

    return step


def _scaling(kind: str, name: str, replicas: int) -> Step:
    async def step(world: World) -> None:
        found = await world.get(kind, name)
        assert found is not None
        await world.door.scale(world.ref(found), replicas, ANY)

    return step


async def _nothing(world: World) -> None:
    pass


async def _update(world: World) -> None:
    changed = deepcopy(WHOLE)
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
    await world.apply(changed)


async def _delete(world: World) -> None:
    await world.delete("PodCliqueSet", "d")


def _starving(*cliques: str) -> Step:
    """Cliques lose their pods, and no node takes the replacements: their replica goes down as a whole."""

    async def step(world: World) -> None:
        for node in names(await world.list("Node")):
            await world.nodes.cordon(node)
        for each in cliques:
            for victim in names(await world.list("Pod", labels=f"grove.io/podclique={each}")):
                await world.delete("Pod", victim)

    return step


def _play(before: Step, step: Step, binds: bool = True) -> Play:
    return Play(before, step, settings(LEVELS), NODES, binds)


_PENDING = _applying(topology("first", LEVELS), topology("second", {"zone": ZONE, "rack": RACK}), NAMED)
PLAYS = {
    "create": _play(_nothing, _applying(WHOLE)),
    "scale a clique out": _play(_applying(WHOLE), _scaling("PodClique", "d-0-a", 4)),
    "scale a clique in": _play(_applying(WHOLE), _scaling("PodClique", "d-0-a", 1)),
    "scale a group out": _play(_applying(WHOLE), _scaling("PodCliqueScalingGroup", "d-0-g", 4)),
    "scale a group in": _play(_applying(WHOLE), _scaling("PodCliqueScalingGroup", "d-0-g", 1)),
    "scale the set out": _play(_applying(WHOLE), _scaling("PodCliqueSet", "d", 2)),
    "scale the set in": _play(_applying(WHOLE), _scaling("PodCliqueSet", "d", 0)),
    "update": _play(_applying(WHOLE), _update),
    "another topology": _play(_PENDING, _applying(_with(NAMED, clusterTopologyName="second")), binds=False),
    "other levels": _play(_PENDING, _applying(topology("first", {"zone": RACK, "host": HOST})), binds=False),
    "a clique in breach": _play(_applying(WHOLE), _starving("d-0-a")),
    "a group in breach": _play(_applying(WHOLE), _starving("d-0-g-0-w", "d-0-g-1-w")),
    "delete": _play(_applying(WHOLE), _delete),
}


@cache
def _calm(play: str) -> Outcome:
    return outcome(PLAYS[play])


def _sampled(calm: Outcome, sample: int) -> int:
    """The first write, the last one, and some in between."""
    return 1 + sample * (calm.writes - 1) // (SAMPLES - 1)


@pytest.mark.parametrize("sample", range(SAMPLES))
@pytest.mark.parametrize("play", PLAYS)
def test_r5_a_crash_in_any_story_changes_nothing_in_the_end(play: str, sample: int) -> None:
    """The three kinds of crash take turns over samples and stories."""
    when = list(When)[(sample + list(PLAYS).index(play)) % 3]
    calm = _calm(play)
    found = outcome(PLAYS[play], [CrashPoint(_sampled(calm, sample), when)])
    assert found.crashes or when is When.AFTER
    assert found.counts == calm.counts
    assert found.state == calm.state


@pytest.mark.parametrize("play", ["create", "update", "another topology", "a group in breach"])
def test_r5_three_crashes_in_a_row_change_nothing_in_the_end(play: str) -> None:
    """In the middle, then at the first write of the next operator, then at the second of the one after it."""
    calm = _calm(play)
    crashes = [CrashPoint(_sampled(calm, 1), When.UNANSWERED), CrashPoint(1, When.UNANSWERED)]
    found = outcome(PLAYS[play], [*crashes, CrashPoint(2, When.BEFORE)])
    assert found.crashes > 1
    assert found.counts == calm.counts
    assert found.state == calm.state
