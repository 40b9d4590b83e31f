"""Worked scenarios: small clusters in which there is one right answer to who gets a place, who goes and who waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.scheduler.preemption_world import guarded, priority_class
from unit.scheduler.scheduler_world import GPU, bound, in_world, pod, podgroup, said
from unit.scheduler.test_queues_at_work import queue
from unit.scheduler.watched_world import patch

Json = dict[str, Any]

RACK, ZONE, TASK_PRIORITY = "example.com/rack", "example.com/zone", "kai.scheduler/task-priority"
CLASSES = [priority_class("low", 50), priority_class("high", 125)]
HOST = "kubernetes.io/hostname"


def node(name: str, gpus: int, pods: int = 110, **labels: str) -> Json:
    """`rack`, `zone`: its labels."""
    given = {HOST: name} | {f"example.com/{key}": value for key, value in labels.items()}
    amounts = {"cpu": "64", "memory": "64Gi", "pods": str(pods), GPU: str(gpus)}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": given}, "status": status}


def topology(name: str, key: str) -> Json:
    spec = {"levels": [{"nodeLabel": key}]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


def required(name: str, key: str) -> Json:
    return {"topologyConstraint": {"topology": name, "requiredTopologyLevel": key}}


def leaf(name: str, minimum: int = 1, **more: Any) -> Json:
    return {"name": name, "minMember": minimum, **more}


def gang(name: str, *places: str, gpus: int = 1, minimum: int | None = None, **spec: Any) -> list[Json]:
    """A PodGroup and a pod for each place: `node`, `node:leaf`, `:leaf`, or empty. `pods`: more of each pod's spec."""
    each, labels = spec.pop("pods", {}), spec.pop("labels", {})
    group = podgroup(name, len(places) if minimum is None else minimum, priorityClassName="low")
    group["spec"].update(spec)
    if "minSubGroup" in spec:
        del group["spec"]["minMember"]
    made = [group]
    for number, place in enumerate(places):
        where, _, part = place.partition(":")
        at = {"nodeName": where} if where else {}
        made.append(pod(f"{name}-{number}", name, gpus, subgroup=part, **at, **each))
        made[-1]["metadata"].setdefault("labels", {}).update(labels)
    return made


def ends_with(nodes: list[Json], *made: list[Json], then: Callable[[World], Awaitable[None]] | None = None) -> Json:
    """Nodes of pods once everything is at rest; whoever was evicted was so by right (INV7). Nobody becomes stale."""

    async def scenario(world: World) -> Json:
        guarded(world)
        await world.apply([*CLASSES, *nodes])
        await world.settle()
        for one in made:
            await world.apply(one)
        await world.settle()
        if then is not None:
            await then(world)
            await world.settle()
        return await bound(world)

    return in_world(scenario, nodes="", settings=Settings(staleness_grace_s=-1))


def keeps_apart(**labels: str) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


# Who goes


def test_k10_pods_above_the_minimum_of_several_gangs_go_before_one_of_them_goes_whole() -> None:
    elastic = [gang(name, "n", "n", minimum=1) for name in ("a", "b")]
    found = ends_with([node("n", 4)], *elastic, gang("p", "", gpus=2, priorityClassName="high"))
    assert set(found) == {"a-0", "b-0", "p-0"}


def test_k10_each_part_of_a_victim_keeps_its_minimum() -> None:
    parts = [leaf("one"), leaf("two")]
    elastic = gang("a", "n:one", "n:one", "n:two", "n:two", subGroups=parts)
    found = ends_with([node("n", 4)], elastic, gang("p", "", gpus=2, priorityClassName="high"))
    assert set(found) == {"a-0", "a-2", "p-0"}


def test_k14_k10_room_is_made_for_as_many_parts_as_suffice() -> None:
    parts: dict[str, Any] = {"subGroups": [leaf("one"), leaf("two")], "minSubGroup": 1}
    found = ends_with([node("n", 1)], gang("v", "n"), gang("p", ":one", ":two", priorityClassName="high", **parts))
    assert found == {"p-0": "n"}


def test_k10_a_gang_that_lost_a_member_makes_room_for_that_one_only() -> None:
    others = [gang(name, "n") for name in ("a", "b")]
    found = ends_with([node("n", 3)], *others, gang("p", "n", "", priorityClassName="high"))
    assert set(found) in ({"a-0", "p-0", "p-1"}, {"b-0", "p-0", "p-1"})


def test_k10_the_pods_of_the_lowest_task_priority_go_first() -> None:
    elastic = gang("a", "n", "n", "n", "n", minimum=1)
    for number, each in enumerate(elastic[1:]):
        each["metadata"]["labels"][TASK_PRIORITY] = str(number % 2)
    found = ends_with([node("n", 4)], elastic, gang("p", "", gpus=2, priorityClassName="high"))
    assert set(found) == {"a-1", "a-3", "p-0"}


def test_k10_a_node_that_is_full_by_the_number_of_its_pods_is_made_room_on() -> None:
    elastic = gang("a", "n", "n", "n", gpus=0, minimum=1)
    found = ends_with([node("n", 1, pods=3)], elastic, gang("p", "", gpus=0, priorityClassName="high"))
    assert set(found) == {"a-0", "a-1", "p-0"}


def test_k10_a_required_rack_is_cleared_of_pods_above_the_minimum_before_a_gang_goes_whole() -> None:
    nodes = [node(f"n{rack}{host}", 4, rack=f"r{rack}") for rack in range(2) for host in range(2)]
    elastic = gang("e", *["n00"] * 4, *["n01"] * 4, minimum=1)
    whole = gang("w", *["n10"] * 4, *["n11"] * 4)
    wanted = gang("p", "", "", gpus=3, priorityClassName="high", **required("racks", RACK))
    found = ends_with([topology("racks", RACK), *nodes], elastic, whole, wanted)
    assert {found["p-0"], found["p-1"]} == {"n00", "n01"}
    assert len(found) == 2 + 2 + 8


# Who gets a place


def test_k14_parts_below_their_minimum_come_before_pods_above_another_ones() -> None:
    parts = [leaf("one", 2), leaf("two", 2)]
    found = ends_with([node("n", 4)], gang("a", "n:one", "n:one", ":one", ":two", ":two", subGroups=parts))
    assert set(found) == {"a-0", "a-1", "a-3", "a-4"}


def test_k14_parts_beside_parts_of_parts_start_together() -> None:
    tree = [{"name": "ab"}, leaf("a", 2, parent="ab"), leaf("b", 2, parent="ab"), leaf("c")]
    made = gang("g", ":a", ":a", ":b", ":b", ":c", subGroups=tree)
    made[-1]["spec"]["containers"][0]["resources"] = {"requests": {GPU: "4"}, "limits": {GPU: "4"}}
    assert set(ends_with([node("n", 8)], made)) == {f"g-{number}" for number in range(5)}
    assert ends_with([node("n", 7)], made) == {}


def test_k3_parts_of_one_gang_may_be_bound_to_different_topologies() -> None:
    trees = [topology("racks", RACK), topology("zones", ZONE)]
    nodes = [node(f"n{number}", 8, rack="abc"[number // 2], zone="xy"[number % 2]) for number in range(6)]
    parts = [leaf("r", 3, **required("racks", RACK)), leaf("z", 3, **required("zones", ZONE))]
    others = [gang("s", "n0", gpus=4), gang("t", "n2", gpus=4)]
    wanted = gang("p", *[":r"] * 3, *[":z"] * 3, gpus=4, subGroups=parts)
    found = ends_with([*trees, *nodes], *others, wanted)
    assert {found[f"p-{number}"] for number in range(3)} == {"n0", "n1"}
    assert {found[f"p-{number}"] for number in range(3, 6)} == {"n2", "n4"}


def test_k3_parts_have_racks_of_one_topology_in_a_zone_of_another() -> None:
    trees = [topology("racks", RACK), topology("zones", ZONE)]
    nodes = [node(f"n{number:02}", 8, rack="abc"[number // 2 % 3], zone="xy"[number // 6]) for number in range(12)]
    parts = [{"name": "up", **required("zones", ZONE)}]
    parts += [leaf(name, 3, parent="up", **required("racks", RACK)) for name in ("one", "two")]
    found = ends_with([*trees, *nodes], gang("p", *[":one"] * 3, *[":two"] * 3, gpus=4, subGroups=parts))
    at = [int(found[f"p-{number}"][1:]) for number in range(6)]
    assert len({number // 6 for number in at}) == 1
    assert [len({number // 2 % 3 for number in some}) for some in (at[:3], at[3:])] == [1, 1]


def test_g12_a_part_that_was_lost_whole_comes_back_into_the_domain_of_the_others_or_waits() -> None:
    nodes = [node(f"n{number}", 8, rack="ab"[number // 2]) for number in range(4)]
    parts: dict[str, Any] = {"subGroups": [leaf("kept"), leaf("lost")], **required("racks", RACK)}
    others, wanted = gang("s", "n1", gpus=8), gang("p", "n0:kept", ":lost", gpus=8, **parts)

    async def make_room(world: World) -> None:
        assert await bound(world, "p") == {"p-0": "n0"}
        await world.delete("Pod", "s-0")

    found = ends_with([topology("racks", RACK), *nodes], others, wanted, then=make_room)
    assert found == {"p-0": "n0", "p-1": "n1"}


def test_k16_pods_above_the_minimum_get_what_the_limit_of_a_queue_leaves_in_every_part() -> None:
    parts = [leaf("one", 3), leaf("two", 3)]
    made = gang("a", *[":one"] * 5, *[":two"] * 5, subGroups=parts, queue="team")
    found = ends_with([queue("team", 6), node("n", 64)], made)
    assert set(found) == {"a-0", "a-1", "a-2", "a-5", "a-6", "a-7"}


# Who waits


def test_k8_a_pod_that_is_leaving_is_still_kept_apart_from() -> None:
    async def leave_slowly(world: World) -> None:
        await patch(world, "Pod", "old-0", {"metadata": {"finalizers": ["example.com/slow"]}})
        await world.delete("Pod", "old-0")
        await world.apply([*gang("new", "", pods=keeps_apart(tier="one")), *gang("other", "", labels={"tier": "two"})])
        await world.settle()
        assert set(await bound(world)) == {"old-0"}
        await patch(world, "Pod", "old-0", {"metadata": {"finalizers": []}})

    old = gang("old", "n", labels={"tier": "one"}, pods=keeps_apart(tier="two"))
    assert set(ends_with([node("n", 8)], old, then=leave_slowly)) == {"new-0", "other-0"}


def test_k14_pods_that_are_there_before_their_group_wait_for_it() -> None:
    made = gang("a", "", "")

    async def group_them(world: World) -> None:
        assert await bound(world) == {}
        await world.apply(made[:1])

    assert len(ends_with([node("n", 2)], made[1:], then=group_them)) == 2


def test_k8_a_claim_for_one_pod_is_waited_for_until_that_pod_is_gone() -> None:
    mode = {"accessModes": ["ReadWriteOncePod"]}
    csi = {"capacity": {"storage": "1Gi"}, "csi": {"driver": "example.com/disks", "volumeHandle": "v"}}
    disk = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {**mode, **csi}}
    asked = {**mode, "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": asked}
    using: dict[str, Any] = {"pods": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}}

    async def use_it(world: World) -> None:
        await patch(world, "PersistentVolumeClaim", "c", {"status": {"phase": "Bound"}}, subresource="status")
        await world.apply([*gang("a", "", **using), *gang("b", "", **using)])
        await world.settle()
        assert set(await bound(world)) == {"a-0"}
        assert "used by another pod" in await said(world, "b")
        await world.delete("Pod", "a-0")

    assert set(ends_with([node("n", 2), disk, claim], then=use_it)) == {"b-0"}
