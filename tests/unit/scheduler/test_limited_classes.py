"""A ResourceQuota by PriorityClass can not be passed by naming the class on the PodGroup alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.builtin.surroundings import ResourceQuota
from spinney.core.scheduling.gang.priorities import limits_class
from spinney.sim.world import World
from unit.scheduler.preemption_world import ONE_RACK, gang, priority_class
from unit.scheduler.scheduler_world import bound, in_world, pods

Json = dict[str, Any]
CLASSES = [priority_class("low", 50), priority_class("high", 90)]
"""A gang without a class is as important as one of the lower."""


def quota(operator: str = "Exists", *values: str, **spec: Any) -> Json:
    said = {"scopeName": "PriorityClass", "operator": operator} | ({"values": list(values)} if values else {})
    body = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [said]}, **spec}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": body,
    }


@pytest.mark.parametrize(
    ("made", "limited"),
    [
        (quota("Exists"), True),
        (quota("In", "high", "mid"), True),
        (quota("In", "mid"), False),
        (quota("NotIn", "mid"), True),
        (quota("NotIn", "high"), False),
        (quota("DoesNotExist"), False),
        (quota(scopeSelector=None, scopes=["PriorityClass"]), True),
        (quota(scopeSelector=None, scopes=["BestEffort"]), False),
        (quota(scopeSelector=None), False),
    ],
)
def test_which_classes_a_quota_is_for(made: Json, limited: bool) -> None:
    assert limits_class(msgspec.convert(made, ResourceQuota), "high") is limited


def test_inv7_a_class_that_a_quota_limits_counts_only_if_the_pods_carry_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2), quota("In", "high")])
        await world.settle()
        await world.apply([gang("posing", 2, "high"), *pods("posing", 2)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        carrying = pods("high", 2, priorityClassName="high")
        await world.apply([gang("high", 2, "high"), *carrying])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_inv7_a_quota_that_goes_lets_the_class_count_again() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2), quota()])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        await world.delete("ResourceQuota", "q")
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)
