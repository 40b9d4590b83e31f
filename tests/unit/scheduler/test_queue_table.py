"""The table of queues in simulated worlds: who runs in the end, nobody unlawfully, and nothing moves any more."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from spinney.sim.world import World
from unit.scheduler.preemption_world import guarded, priority_class
from unit.scheduler.queue_rows import CLASSES, ROWS, Gang, Row, Share
from unit.scheduler.scheduler_world import GPU, in_world, podgroup, pods
from unit.scheduler.test_consolidation import CONTROLLERS, open_only
from unit.scheduler.test_queue_shares import later, queue

Json = dict[str, Any]


def nodes_of(row: Row) -> str:
    amounts = {"cpu": "640", "memory": "640Gi", "pods": "110"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": {"kubernetes.io/hostname": f"n{number}"}},
            "status": {name: {**amounts, GPU: str(gpus)} for name in ("allocatable", "capacity")},
        }
        for number, gpus in enumerate(row.nodes)
    ]
    return "\n---\n".join(map(json.dumps, nodes))


def share(told: Share) -> Json:
    more: Json = {"parentQueue": told.parent} if told.parent else {"parentQueue": ""}
    return queue(told.name, told.quota, told.weight, told.limit, priority=told.priority, **more)


def owned(gang: Gang) -> list[Json]:
    """A PodGroup and a ReplicaSet that makes its pods, and makes them anew."""
    annotations = {"pod-group-name": gang.name, "kai.scheduler/skip-podgrouper": "true"}
    pod = {"metadata": {"labels": {"app": gang.name}, "annotations": annotations}}
    template = {**pod, "spec": pods(gang.name, 1, gang.gpus)[0]["spec"]}
    spec = {"replicas": gang.pods, "selector": {"matchLabels": {"app": gang.name}}, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": gang.name}, "spec": spec}
    return [podgroup(gang.name, gang.minimum, queue=gang.queue, priorityClassName=gang.priority), owner]


async def held(world: World) -> Counter[str]:
    found = [each for each in await world.list("Pod") if each["spec"].get("nodeName")]
    return Counter(each["metadata"]["labels"]["app"] for each in found if not each["metadata"].get("deletionTimestamp"))


async def play(world: World, row: Row) -> None:
    """All that run start one after the other; those that come are there at once."""
    names = {f"n{number}" for number in range(len(row.nodes))}
    await world.apply([priority_class(name, value) for name, value in CLASSES.items()])
    await world.apply([share(told) for told in row.queues])
    for gang in row.run:
        if gang.nodes:
            await open_only(world, {f"n{number}" for number in gang.nodes})
        await world.apply(owned(gang))
        await later(world)
    assert await held(world) == Counter({gang.name: gang.pods for gang in row.run}), "they run"
    if not row.run:
        await open_only(world, set())
    for gang in row.come:
        await world.apply(owned(gang))
        if not row.run:
            await later(world)
    await open_only(world, names)
    await world.settle()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_q_table_who_runs_in_the_end(row: Row) -> None:
    async def scenario(world: World) -> None:
        dog = guarded(world)
        await play(world, row)
        assert await held(world) == Counter(row.end)
        await later(world)
        assert await held(world) == Counter(row.end), "nothing moves any more"
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=nodes_of(row), controllers=CONTROLLERS)
