"""Objects that no scheduler can make sense of: one complaint each, and everybody else goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gang import parsed_gang, pod_shape
from spinney.drive.client.informers.unreadable import figures
from spinney.sim.world import World
from unit.scheduler.scheduler_world import GPU, bound, in_world, pod, podgroup, pods, said

Json = dict[str, Any]
VAST = "9" * 5000
ONE_HOST = f"""
levels:
- {{name: zone, label: topology.kubernetes.io/zone, count: 1}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


def vast(name: str, group: str, **spec: Any) -> Json:
    return asking(name, group, {"memory": VAST}, **spec)


def plain(name: str, group: str, gpus: int) -> Json:
    return asking(name, group, {"memory": "1Gi", GPU: str(gpus)})


def asking(name: str, group: str, amounts: dict[str, str], **spec: Any) -> Json:
    containers = [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]
    return pod(name, group, containers=containers, **spec)


async def events(world: World, kind: str, name: str) -> list[str]:
    found = [each for each in await world.list("Event") if each["reason"] == "Unreadable"]
    about = [each for each in found if each["involvedObject"]["name"] == name]
    assert {(each["involvedObject"]["kind"], each["type"]) for each in about} <= {(kind, "Warning")}
    return [each["message"] for each in about]


async def explained(world: World, group: str) -> list[str]:
    """What `spinney explain` and `spinney gangs` show."""
    found = await world.get("PodGroup", group)
    assert found is not None
    lines: list[str] = json.loads(found["metadata"]["annotations"]["spinney.dev/explanation"])["lines"]
    return lines


async def nodes_of(world: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await world.list("Node"))


def test_inv1_a_pod_of_5000_digits_fills_its_node_and_holds_nobody_else_up() -> None:
    async def scenario(world: World) -> None:
        first, second = await nodes_of(world)
        await world.apply([vast("stray", "", nodeName=first, schedulerName="other"), podgroup("v"), vast("v-0", "v")])
        await world.apply([podgroup("a"), plain("a-0", "a", 4), podgroup("b"), plain("b-0", "b", 4)])
        await world.settle()
        assert await bound(world, "a-") == {"a-0": second}
        assert await bound(world, "b-") == {"b-0": second}
        assert await bound(world, "v-") == {}
        assert "memory" in await said(world, "v")
        await world.delete("Pod", "stray", grace_s=0)
        await world.apply([podgroup("c"), plain("c-0", "c", 8)])
        await world.settle()
        assert await bound(world, "c-") == {"c-0": first}

    in_world(scenario, nodes=ONE_HOST)


def test_inv1_a_pod_that_can_not_be_folded_fills_its_node_and_holds_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = Cluster.put_pod

    def fails(self: Cluster, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.metadata.name.startswith("odd") and "fixed" not in new.metadata.labels:
            raise OverflowError("odd")
        fold(self, old, new)

    monkeypatch.setattr(Cluster, "put_pod", fails)

    async def scenario(world: World) -> None:
        first, second = await nodes_of(world)
        await world.apply([podgroup("o", 2), pod("odd-0", "o", 1, nodeName=first), *pods("o", 1, gpus=1)])
        await world.apply([podgroup("a", 2), *pods("a", 2, gpus=4)])
        await world.settle()
        assert await bound(world, "a-") == {"a-0": second, "a-1": second}
        assert await bound(world, "o-") == {}
        assert await explained(world, "o") == ["pod default/odd-0 can not be read: OverflowError: odd"]
        assert await events(world, "Pod", "odd-0") == [
            "kai-scheduler can not read this object and goes on without it: OverflowError: odd"
        ]
        scheduler = world.stack.roles.scheduler
        assert scheduler is not None
        assert figures(scheduler.unreadable)['unreadable_objects{kind="pods"}'] == 1.0
        await world.apply([{**pod("odd-0", "o", 1, nodeName=first), "metadata": _fixed()}])
        await world.settle()
        assert set(await bound(world, "o-")) == {"o-0"}
        assert figures(scheduler.unreadable)['unreadable_objects{kind="pods"}'] == 0.0

    in_world(scenario, nodes=ONE_HOST)


def _fixed() -> Json:
    metadata: Json = pod("odd-0", "o")["metadata"]
    return {**metadata, "labels": {"fixed": "true"}}


def test_a_gang_that_can_not_be_read_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read, failing = parsed_gang.read_tree, [True]  # type: ignore[attr-defined]

    def fails(spec: Any) -> Any:
        if failing and spec.min_member == 3:
            raise ZeroDivisionError("three")
        return read(spec)

    monkeypatch.setattr(parsed_gang, "read_tree", fails)

    async def scenario(world: World) -> None:
        await world.apply([podgroup("odd", 3), *pods("odd", 3, gpus=1), podgroup("a", 2), *pods("a", 2, gpus=1)])
        await world.settle(quiet_s=5.0)
        assert (len(await bound(world, "a-")), await bound(world, "odd-")) == (2, {})
        assert len(await events(world, "PodGroup", "odd")) == 1
        failing.clear()
        await world.settle(quiet_s=40.0)
        assert len(await bound(world, "odd-")) == 3

    in_world(scenario, nodes=ONE_HOST)


def test_a_pod_whose_shape_can_not_be_read_is_not_placed_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(given: Pod) -> Any:
        if given.metadata.name.startswith("odd"):
            raise RecursionError("too deep")
        return pod_shape.NO_TERMS  # type: ignore[attr-defined]

    monkeypatch.setattr(pod_shape, "read_affinity", fails)
    pod_shape.shapes_on.cache_clear()

    async def scenario(world: World) -> None:
        await world.apply([podgroup("odd", 1), *pods("odd", 1, gpus=1), podgroup("a", 2), *pods("a", 2, gpus=2)])
        await world.settle()
        assert (len(await bound(world, "a-")), await bound(world, "odd-")) == (2, {})
        assert "the pod can not be read: RecursionError: too deep" in await said(world, "odd")

    try:
        in_world(scenario, nodes=ONE_HOST)
    finally:
        pod_shape.shapes_on.cache_clear()
