"""Claims that wait for their first consumer learn of the node before the bind, and the bind waits for their volumes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spinney.core.scheduling.settings import Settings
from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.crashing import Crashing
from unit.scheduler.scheduler_world import bound, in_world, plan_of, pod, podgroup, said
from unit.scheduler.watched_world import patch, watched

Json = dict[str, Any]
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}
SELECTED = "volume.kubernetes.io/selected-node"


def claim(name: str) -> Json:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def user(name: str, group: str, of: str = "") -> Json:
    return pod(name, group, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": of or f"of-{name}"}}])


def gang(size: int = 2) -> list[Json]:
    names = [f"a-{number}" for number in range(size)]
    return [CLASS, *(claim(f"of-{name}") for name in names), podgroup("a", size, required=RACK)] + [
        user(name, "a") for name in names
    ]


async def marks(world: World) -> dict[str, str]:
    found = await world.list("PersistentVolumeClaim")
    return {
        each["metadata"]["name"]: each["metadata"]["annotations"][SELECTED]
        for each in found
        if SELECTED in (each["metadata"].get("annotations") or {})
    }


async def provide(world: World, name: str, node: str) -> None:
    """What a provisioner does for a claim that knows its node."""
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "example.com/disks", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": spec}
    await world.apply(volume)
    await patch(world, "PersistentVolumeClaim", name, {"spec": {"volumeName": f"pv-{name}"}})
    await patch(world, "PersistentVolumeClaim", name, {"status": {"phase": "Bound"}}, subresource="status")


def test_k8_a_gang_is_bound_when_all_its_volumes_are_made_where_it_goes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang())
        await asyncio.sleep(20)
        chosen = await marks(world)
        assert len(chosen) == 2
        assert (await bound(world), await plan_of(world, "a") is not None) == ({}, True)
        await provide(world, "of-a-0", chosen["of-a-0"])
        await asyncio.sleep(20)
        assert await bound(world) == {}
        found = await world.get("Pod", "a-0")
        assert found is not None and "waits for its volumes" in found["status"]["conditions"][0]["message"]
        await provide(world, "of-a-1", chosen["of-a-1"])
        await world.settle()
        assert await bound(world) == {"a-0": chosen["of-a-0"], "a-1": chosen["of-a-1"]}
        assert (await plan_of(world, "a"), await said(world, "a")) == (None, "")

    watched(scenario)


def test_k8_a_claim_without_a_volume_for_too_long_lets_the_gang_go_and_decide_anew() -> None:
    async def scenario(world: World) -> None:
        forgotten: list[str] = []
        world.on_write(lambda collection, event: forgotten.extend(_unmarked(collection, event)))
        await world.apply(gang())
        await asyncio.sleep(50)
        assert (len(await marks(world)), forgotten) == (2, [])
        await asyncio.sleep(20)
        assert sorted(forgotten) == ["of-a-0", "of-a-1"]
        released = [each["metadata"]["annotations"].get("spinney.dev/released") for each in await world.list("Pod")]
        assert all(released)
        again = await marks(world)
        for name, node in again.items():
            await provide(world, name, node)
        await world.settle()
        assert sorted((await bound(world)).values()) == sorted(again.values())

    watched(scenario, settings=Settings(volumes_s=60.0))


def _unmarked(collection: str, event: Any) -> list[str]:
    if collection != "/persistentvolumeclaims" or event.old is None or event.new is None:
        return []
    gone = SELECTED.encode() in event.old.body and SELECTED.encode() not in event.new.body
    return [event.new.name] if gone else []


def test_k8_a_node_that_is_closed_while_volumes_are_made_is_left() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang())
        await asyncio.sleep(20)
        first = await marks(world)
        for name in first.values():
            await patch(world, "Node", name, {"spec": {"unschedulable": True}})
        await asyncio.sleep(20)
        second = await marks(world)
        assert not set(first.values()) & set(second.values())
        for name, node in second.items():
            await provide(world, name, node)
        await world.settle()
        assert set((await bound(world)).values()) == set(second.values())

    watched(scenario)


def test_k8_a_provisioner_that_turns_a_node_down_lets_the_gang_go() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang(1))
        await asyncio.sleep(5)
        (first,) = (await marks(world)).values()
        await patch(world, "Node", first, {"metadata": {"labels": {"full": "yes"}}, "spec": {"unschedulable": True}})
        await patch(world, "PersistentVolumeClaim", "of-a-0", {"metadata": {"annotations": {SELECTED: None}}})
        await asyncio.sleep(20)
        (second,) = (await marks(world)).values()
        assert second != first
        await provide(world, "of-a-0", second)

    watched(scenario)


def test_k8_a_volume_that_was_made_elsewhere_is_followed() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang(1))
        await asyncio.sleep(5)
        (chosen,) = (await marks(world)).values()
        other = next(
            each["metadata"]["name"] for each in await world.list("Node") if each["metadata"]["name"] != chosen
        )
        await provide(world, "of-a-0", other)
        await world.settle()
        assert await bound(world) == {"a-0": other}

    watched(scenario)


def test_k8_a_node_that_goes_while_volumes_are_made_takes_nobody_with_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang(1))
        await asyncio.sleep(5)
        (first,) = (await marks(world)).values()
        await world.delete("Node", first)
        await asyncio.sleep(20)
        (second,) = (await marks(world)).values()
        assert second != first
        await provide(world, "of-a-0", second)
        await world.settle()
        assert await bound(world) == {"a-0": second}

    watched(scenario)


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_while_volumes_are_made_changes_nothing_in_the_end(when: When) -> None:
    for number in (2, 3):
        schedulers = Crashing(CrashPoint(number, when))

        async def scenario(world: World, schedulers: Crashing = schedulers) -> int:
            schedulers.arm()
            await world.apply(gang())
            crashes = await schedulers.settle(world, quiet_s=3)
            for name, node in (await marks(world)).items():
                await provide(world, name, node)
            await world.settle()
            assert len(await bound(world)) == 2
            return crashes

        assert in_world(scenario, wrap=schedulers.wrapping) == 1
