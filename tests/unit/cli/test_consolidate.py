"""`spinney consolidate`: what moves would bring, what they cost, and a request to the scheduler to make them (K10)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from spinney.api.placement.problem import Consolidate
from spinney.cli.commands import consolidate as command
from spinney.cli.main import cli
from spinney.cli.render.plan import survey_shown
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.api import ApiClient
from spinney.sim.world import World
from spinney.whatif.consolidation import Survey, read_objects, request_moves, survey
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import TWO_RACKS, gang
from unit.scheduler.scheduler_world import bound, in_world, pods
from unit.scheduler.test_consolidation import CONTROLLERS, scattered

LIMITS = Consolidate(max_moves=4)
ON_REQUEST = Settings(consolidate=None)


def surveyed(waiting: int = 2, limits: Consolidate = LIMITS) -> Survey:
    """Two pods of half a node in two racks, and a gang of whole nodes that wants one rack."""

    async def scenario(world: World) -> Survey:
        await scattered(world)
        if waiting:
            await world.apply([gang("big", waiting, "mid", required=RACK), *pods("big", waiting)])
        await world.settle()
        return survey(await read_objects(ApiClient(world.transport("user"), world.dice)), limits)

    return in_world(scenario, nodes=TWO_RACKS, controllers=CONTROLLERS, settings=ON_REQUEST)


def test_k10_the_moves_that_let_a_gang_in_are_shown_with_their_cost() -> None:
    found = surveyed()
    (offer,) = found.offers
    assert (offer.gang, offer.priority, offer.pods, offer.loss) == ("default/big", 20, 2, 0.0)
    (move,) = offer.moves
    assert move.gang == "default/one"
    assert (move.source, move.target) == ("z0-b0-r0-h0", "z0-b0-r1-h1")
    assert found.stuck == ()


def test_k10_the_largest_gang_of_each_level_is_shown_before_and_after() -> None:
    found = surveyed()
    reach = {each.level: (each.now, each.after, len(each.moves)) for each in found.reaches}
    assert reach[RACK] == (1, 2, 1)
    assert found.asking["nvidia.com/gpu"] == 8


def test_k10_what_would_not_fit_is_said() -> None:
    found = surveyed(waiting=3)
    assert found.offers == ()
    assert [gang for gang, _ in found.stuck] == ["default/big"]


def test_k10_without_anybody_who_waits_the_pods_that_run_are_the_measure() -> None:
    found = surveyed(waiting=0)
    assert found.asking["nvidia.com/gpu"] == 4
    assert {each.level: each.now for each in found.reaches}[RACK] == 3


def test_the_table_is_as_it_was() -> None:
    found = surveyed()
    name = found.offers[0].moves[0].pod
    assert survey_shown(found).replace(name, "default/one-xxxxx") == (
        """\
GANG          PRIORITY   PODS   MOVES   LOSS
default/big   20         2      1       0.00

For default/big:
POD                 OF GANG       FROM          TO
default/one-xxxxx   default/one   z0-b0-r0-h0   z0-b0-r1-h1

Largest gang of pods that ask for 8 nvidia.com/gpu:
TOPOLOGY   LEVEL                         NOW   AFTER   MOVES   LOSS
tree       topology.kubernetes.io/zone   2     3       1       0.00
tree       example.com/block             2     3       1       0.00
tree       example.com/rack              1     2       1       0.00
tree       kubernetes.io/hostname        1     1       0       0.00
"""
    )


def test_k10_a_request_is_carried_out_by_the_scheduler() -> None:
    async def scenario(world: World) -> None:
        await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        (offer,) = survey(await read_objects(ApiClient(world.transport("user"), world.dice)), LIMITS).offers
        await request_moves(world.door, offer, LIMITS)
        await world.settle()
        assert len(await bound(world, "big")) == 2
        assert len(await bound(world)) == 4

    in_world(scenario, nodes=TWO_RACKS, controllers=CONTROLLERS, settings=ON_REQUEST)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the command asks for; it gets an empty survey."""
    asked: list[Any] = []

    async def look(kubeconfig: object, gang: str, limits: Consolidate, dry_run: bool) -> Survey:
        asked.append((gang, limits, dry_run))
        return Survey(limits)

    monkeypatch.setattr(command, "_survey_cluster", look)
    return asked


def test_the_command_only_shows_unless_it_is_told_to_apply(seen: list[Any]) -> None:
    result = CliRunner().invoke(cli, ["consolidate", "--max-moves", "3", "--max-loss", "0.5"])
    assert (result.exit_code, result.output) == (0, "No gang that waits would fit after 3 moves or fewer.\n")
    CliRunner().invoke(cli, ["consolidate", "ns/a", "--apply"])
    assert seen == [("", Consolidate(3, 0.5), True), ("ns/a", Consolidate(16, 0.0), False)]


def test_the_command_prints_json(seen: list[Any]) -> None:
    result = CliRunner().invoke(cli, ["consolidate", "-o", "json"])
    assert json.loads(result.output) == {
        "limits": {"maxMoves": 16, "maxLoss": 0.0},
        "gangs": [],
        "stuck": [],
        "largest": {"asking": {}, "levels": []},
    }


def test_a_name_without_a_namespace_is_refused(seen: list[Any]) -> None:
    result = CliRunner().invoke(cli, ["consolidate", "big"])
    assert result.exit_code == 2
    assert "'big' is not NAMESPACE/PODGROUP, for example default/big" in result.output
