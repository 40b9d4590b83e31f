"""Our roles in a simulated world are as they are installed: their own accounts, the shipped rights, and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spinney.api.roles import rbac_objects, user_of
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ApiStatusError
from spinney.drive.client.paths import ResourcePath
from spinney.sim.event_loop import Sim, run
from spinney.sim.stack import Parts
from spinney.sim.world import Forbidden, World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, in_world, podgroup, pods

Json = dict[str, Any]
SECRETS = Selection(ResourcePath("", "v1", "secrets"))


def in_any_world(scenario: Any) -> None:
    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await scenario(world)

    run(main)


async def take_away(world: World, role: str, plural: str, verb: str) -> None:
    """One right of a role."""
    (shipped,) = [each for each in rbac_objects() if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", role)]
    rules = [
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb]} if plural in rule["resources"] else rule
        for rule in shipped["rules"]
    ]
    await world.apply({**shipped, "rules": [rule for rule in rules if rule["verbs"]]})


def test_a_role_has_the_rights_that_are_shipped_and_what_it_is_refused_fails_the_world() -> None:
    async def scenario(world: World) -> None:
        client = ApiClient(world.as_role("scheduler"), world.dice)
        await client.list(Selection(ResourcePath("", "v1", "pods")))
        with pytest.raises(ApiStatusError, match='cannot list resource "secrets"'):
            await client.list(SECRETS)

    with pytest.raises(Forbidden, match=f"{user_of('scheduler')} was refused GET /api/v1/secrets"):
        in_any_world(scenario)


def test_the_administrator_of_a_world_is_nobody_of_ours() -> None:
    async def scenario(world: World) -> None:
        await world.client.list(SECRETS)
        assert world.refusals.found == []

    in_any_world(scenario)


@pytest.mark.parametrize(
    ("role", "plural", "verb"),
    [("spinney-scheduler", "pods/binding", "create"), ("spinney-scheduler", "podgroups", "patch")],
)
def test_r14_a_right_that_is_missing_fails_a_simulated_world(role: str, plural: str, verb: str) -> None:
    async def scenario(world: World) -> None:
        await take_away(world, role, plural, verb)
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await world.settle(quiet_s=1, limit_s=100)

    with pytest.raises(Forbidden, match=f"was refused (POST|PATCH) .*{plural.split('/')[-1]}"):
        in_world(scenario)


def test_rules_that_do_not_know_our_scheduler_fail_a_simulated_world() -> None:
    strict = OperatorAdmission(AdmissionSettings(scheduler_users=frozenset()))

    async def main(sim: Sim) -> None:
        parts = Parts(nodes=load_nodes(NODES), controllers=(), scheduler=Settings())
        async with World(sim.clock, sim.dice, parts, rules=(strict,)) as world:
            await world.apply([*CRDS, TOPOLOGY, podgroup("a", 2), *pods("a", 2)])
            await world.stack.roles.scheduling.wait()
            await asyncio.sleep(10)

    with pytest.raises(Forbidden, match=f"{user_of('scheduler')} was refused PATCH .*podgroups/a"):
        run(main)
