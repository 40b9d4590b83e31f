"""A tenant who may write PodGroups, and what it writes there."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Assignment, Plan, encode
from spinney.core.scheduling.plan_records import Mark, Term, sign
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.world import World
from unit.scheduler.scheduler_world import podgroup, pods

Json = dict[str, Any]
RECORD = ("spinney.dev/plan", "spinney.dev/epoch", "spinney.dev/plan-signature")
OTHER_KEY = b"k" * 32


async def annotate(world: World, group: str, annotations: Json, namespace: str = "default") -> None:
    """As anybody who may patch the PodGroup, with a merge patch."""
    found = await world.get("PodGroup", group, namespace)
    assert found is not None
    written(await world.door.merge_patch(world.ref(found), {"metadata": {"annotations": annotations}}, ANY))


async def notes_of(world: World, kind: str, name: str, namespace: str = "default") -> dict[str, str]:
    found = await world.get(kind, name, namespace)
    assert found is not None
    return found["metadata"].get("annotations") or {}


async def uids(world: World, prefix: str, namespace: str = "default") -> dict[str, str]:
    """Of the pods whose names begin so, by name."""
    found = sorted(await world.list("Pod", namespace), key=lambda each: each["metadata"]["name"])
    metas = [each["metadata"] for each in found]
    return {each["name"]: each["uid"] for each in metas if each["name"].startswith(prefix)}


async def about(world: World, group: str, namespace: str = "default") -> ObjectMeta:
    found = await world.get("PodGroup", group, namespace)
    assert found is not None
    return msgspec.convert(found["metadata"], ObjectMeta)


async def signed_by(
    key: bytes, world: World, group: str, plan: Plan, mark: Mark | None = None
) -> dict[str, str | None]:
    """The record as somebody with that key would write it."""
    return sign(key, await about(world, group), mark or Mark(Term("", plan.epoch), 1), encode(plan))


def to_bind(pods: dict[str, str], nodes: list[str], epoch: int = 1) -> Plan:
    """Each of the pods (uid by name) on the node of the same place."""
    assignments = [
        Assignment(uid, node, rank) for rank, (uid, node) in enumerate(zip(pods.values(), nodes, strict=True))
    ]
    return Plan(epoch, "bind", tuple(assignments))


async def node_names(world: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await world.list("Node"))


async def rejections(world: World) -> list[str]:
    """What was said of rejected records, by the names of their PodGroups."""
    found = [each for each in await world.list("Event") if each["reason"] == "RecordRejected"]
    assert all(each["type"] == "Warning" for each in found)
    return [f"{each['involvedObject']['name']}: {each['message']}" for each in found]


def counted(world: World, reason: str) -> float:
    """How many records the scheduler of the world has rejected for a reason."""
    scheduler = world.stack.roles.scheduler
    assert scheduler is not None
    found = scheduler.metrics.registry.get_sample_value("kai_rejected_records_total", {"reason": reason})
    return found or 0.0


class Successor:
    """A further scheduler over the same world, as a new leader has one."""

    def __init__(self, world: World, *, epoch: int = 0, lease: str = "", **told: Any) -> None:
        keys = told.pop("record_keys", world.record_keys)
        transport = told.pop("transport", None) or world.transport("successor")
        self.scheduler = Scheduler(
            transport,
            world.clock,
            world.dice,
            told.pop("settings", Settings()),
            record_keys=keys,
            leads=Term(lease, epoch),
            **told,
        )
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Scheduler:
        self.task = asyncio.create_task(self.scheduler.run())
        ready = asyncio.create_task(self.scheduler.ready.wait())
        await asyncio.wait([self.task, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        return self.scheduler

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])


async def full_of_others(world: World, count: int, namespace: str = "others") -> None:
    """Gangs of one pod each, of another tenant, with the whole cluster for themselves."""
    await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for number in range(count):
        name = f"other-{number}"
        await world.apply([podgroup(name, 1, namespace), *pods(name, 1, namespace=namespace)])
    await world.settle()
