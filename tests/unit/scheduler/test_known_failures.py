"""What is known to go wrong in other schedulers goes right here, from PodGroups to binds; F-numbers name the failures.

F4 and F13 are also asked of the engine alone, with many more shapes; F15 is there only.
"""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.operator_configuration import PlacementStrategy
from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, HOST, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, bound, constraint, domains, in_world, pod, podgroup, pods, said

Json = dict[str, Any]


def tree(racks: int = 2, hosts: int | list[int] = 2, *, zones: int = 1, gpus: int = 8, name: str = "") -> str:
    return f"""{f"name: {name}" if name else ""}
levels:
- {{name: zone, label: {ZONE}, count: {zones}}}
- {{name: block, label: {BLOCK}, count: 1}}
- {{name: rack, label: {RACK}, count: {racks}}}
- {{name: host, short: n, count: {hosts}}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: {gpus}}}
"""


def parts(**sizes: int) -> list[Json]:
    """Sub-groups that have a rack each."""
    return [{"name": name, "minMember": size, **constraint(RACK)} for name, size in sizes.items()]


def members(group: str, gpus: int = 8, **sizes: int) -> list[Json]:
    return [
        pod(f"{group}-{name}-{number}", group, gpus, subgroup=name)
        for name, size in sizes.items()
        for number in range(size)
    ]


async def racks_of(world: World, prefix: str = "") -> list[int]:
    """How many bound pods there are in each rack that has any, sorted."""
    return sorted((await domains(world, (await bound(world, prefix)).values(), RACK)).values())


async def change(world: World, kind: str, name: str, body: Json) -> None:
    """As an administrator does it."""
    found = await world.get(kind, name)
    assert found is not None
    for key, value in body.items():
        found[key] = {**found.get(key, {}), **value}
    found["metadata"].pop("managedFields", None)
    await world.apply(found)


@pytest.mark.parametrize("level", [ZONE, BLOCK, RACK])
def test_f1_a_required_level_that_holds_all_nodes_can_be_met(level: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=level), *pods("a", 2)])
        await world.settle()
        assert len(await bound(world)) == 2

    in_world(scenario, nodes=tree(racks=1))


def test_f1_a_part_may_ask_for_less_than_the_whole_does() -> None:
    async def scenario(world: World) -> None:
        broad = [{"name": "w", "minMember": 2, **constraint(ZONE)}]
        await world.apply([podgroup("a", 2, required=RACK, subGroups=broad), *members("a", w=2)])
        await world.settle()
        assert await racks_of(world) == [2]

    in_world(scenario, nodes=tree())


@pytest.mark.parametrize("names", [("s0", "s1", "s2"), ("s2", "s1", "s0")])
def test_f2_siblings_do_not_take_each_others_only_rack(names: tuple[str, str, str]) -> None:
    async def scenario(world: World) -> None:
        sizes = dict(zip(names, (3, 3, 5), strict=True))
        await world.apply([podgroup("a", 11, required=ZONE, subGroups=parts(**sizes)), *members("a", **sizes)])
        await world.settle()
        assert await racks_of(world) == [5, 6]
        for name in names:
            assert len(await racks_of(world, f"a-{name}")) == 1

    in_world(scenario, nodes=tree(hosts=[5, 6]))


def test_f3_pods_of_different_sizes_need_what_they_ask_for() -> None:
    async def scenario(world: World) -> None:
        small = [pod(f"a-small-{number}", "a", 2) for number in range(4)]
        await world.apply([podgroup("a", 5, required=BLOCK), *small, pod("a-large", "a", 8)])
        await world.settle()
        assert len(await bound(world)) == 5

    in_world(scenario, nodes=tree(racks=1, hosts=2))


def test_f4_a_gang_of_gpu_and_cpu_pods_finds_the_rack_that_has_both() -> None:
    """Sums say that each rack holds it; in all racks but the last the CPUs are on hosts that are too small."""

    async def scenario(world: World) -> None:
        for node in await world.list("Node"):
            name = node["metadata"]["name"]
            if "-r2-" not in name:
                amounts = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: "8"}
                await world.nodes.shrink(name, amounts)
        await world.settle()
        thirsty = pod("a-cpu", "a", 0)
        thirsty["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "48"}}
        await world.apply([podgroup("a", 3, required=RACK), *pods("a", 2), thirsty])
        await world.settle()
        assert await domains(world, (await bound(world)).values()) == {("z0", "z0-b0", "z0-b0-r2"): 3}

    in_world(scenario, nodes=tree(racks=3))


def test_f5_a_rack_that_is_idle_comes_before_one_that_is_being_left() -> None:
    async def scenario(world: World) -> None:
        old = pods("old", 2, nodeSelector={RACK: "z0-b0-r0"})
        for each in old:
            each["metadata"]["finalizers"] = ["example.com/held"]
        await world.apply([podgroup("old", 2), *old])
        await world.settle()
        for name in ("old-0", "old-1"):
            await world.delete("Pod", name)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await domains(world, (await bound(world, "a-")).values()) == {("z0", "z0-b0", "z0-b0-r1"): 2}

    in_world(scenario, nodes=tree(hosts=[2, 4]))


def test_f6_a_preference_does_not_keep_a_gang_from_nodes_without_labels() -> None:
    async def scenario(world: World) -> None:
        for number in range(3):
            node = (await world.list("Node"))[0]
            metadata = {"name": f"plain-{number}", "labels": {HOST: f"plain-{number}"}}
            await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": node["status"]})
        await world.apply([podgroup("a", 4, preferred=RACK), *pods("a", 4)])
        await world.settle()
        assert len(set((await bound(world)).values())) == 4

    in_world(scenario, nodes=tree(racks=1, hosts=1))


@pytest.mark.parametrize(("racks", "hosts", "count", "fewest"), [(100, 8, 32, 4), (256, 2, 16, 8)])
def test_f7_a_preferred_gang_uses_the_fewest_racks_however_many_there_are(
    racks: int, hosts: int, count: int, fewest: int
) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", count, preferred=RACK), *pods("a", count, 1)])
        await world.settle()
        assert await racks_of(world) == [hosts] * fewest

    in_world(scenario, nodes=tree(racks, hosts, gpus=1))


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ({}, "tree"),
        ({"requiredTopologyLevel": "example.com/rak"}, "'example.com/rak' as the required topology constraint level"),
        ({"preferredTopologyLevel": "rak"}, "'rak' as the preferred topology constraint level"),
    ],
    ids=["none", "required", "preferred"],
)
def test_f8_a_level_that_is_missing_or_misspelt_is_told_to_the_user(levels: Json, sentence: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, topologyConstraint={"topology": "tree", **levels}), *pods("a", 2)])
        await world.settle()
        told = await said(world, "a")
        assert sentence in told
        assert {each["status"]["conditions"][0]["message"] for each in await world.list("Pod")} == {told}
        assert await bound(world) == {}
        await world.apply(podgroup("a", 2, required=RACK))
        await world.settle()
        assert await racks_of(world) == [2]

    in_world(scenario, nodes=tree(), judged=False)


def test_f9_racks_whose_names_have_dots_stay_apart() -> None:
    """Zone `a.b` with rack `c`, and zone `a` with rack `b.c`: joined by dots they would be one."""

    async def scenario(world: World) -> None:
        for name, zone, rack in (("one", "a.b", "c"), ("two", "a", "b.c")):
            labels = {ZONE: zone, BLOCK: "x", RACK: rack, HOST: name}
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
            status = {"capacity": amounts, "allocatable": amounts}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            await world.apply(node | {"status": status})
        levels = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
        dotted = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "dotted"}}
        await world.apply({**dotted, "spec": {"levels": levels}})
        asked = {"topology": "dotted", "requiredTopologyLevel": RACK}
        await world.apply([podgroup("a", 2, topologyConstraint=asked), *pods("a", 2)])
        await world.settle()
        assert await bound(world) == {}
        assert "can allocate only 1 of 2 required pods" in await said(world, "a")

    in_world(scenario, nodes="")


@pytest.mark.parametrize("level", ["required", "preferred"])
def test_f10_pods_beyond_the_minimum_go_where_the_gang_is(level: str) -> None:
    """The other rack is the tighter one when they come."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, **{level: RACK}), *pods("a", 2)])
        await world.settle()
        (rack,) = await domains(world, (await bound(world)).values())
        other = next(each for each in ("z0-b0-r0", "z0-b0-r1") if each != rack[-1])
        await world.apply([podgroup("tight", 1), pod("tight", "tight", nodeSelector={RACK: other})])
        await world.apply([pod("a-2", "a"), pod("a-3", "a")])
        await world.settle()
        assert await domains(world, (await bound(world, "a-")).values()) == {rack: 4}

    in_world(scenario, nodes=tree(hosts=4))


def test_f11_nodes_that_take_no_pods_are_no_room_and_are_named() -> None:
    """A cordoned node, one that is not ready, and one with a taint."""

    async def scenario(world: World) -> None:
        await world.nodes.cordon("z0-b0-r0-n0")
        await world.nodes.not_ready("z0-b0-r1-n0")
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        await change(world, "Node", "z0-b0-r2-n0", {"spec": {"taints": [taint]}})
        await world.settle()
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await bound(world) == {}
        told = await said(world, "a")
        assert all(f"z0-b0-r{rack} can allocate only 1 of 2 required pods" in told for rack in range(3))
        group = await world.get("PodGroup", "a")
        assert group is not None
        explained = group["metadata"]["annotations"]["spinney.dev/explanation"]
        assert all(word in explained for word in ("unschedulable", "not ready", "example.com/broken"))

    in_world(scenario, nodes=tree(racks=3))


def urgent(name: str, minimum: int, **spec: Any) -> Json:
    return podgroup(name, minimum, priorityClassName="urgent", **spec)


URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def test_f12_a_rack_full_of_lesser_pods_is_made_free_as_a_whole() -> None:
    async def scenario(world: World) -> None:
        small = [f"s{number}" for number in range(4)]
        await world.apply([URGENT, *map(podgroup, small), *(pod(f"{name}-0", name) for name in small)])
        await world.settle()
        assert len(await bound(world)) == 4
        await world.apply([urgent("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await racks_of(world, "a-") == [2]
        assert len(await bound(world, "s")) == 2

    in_world(scenario, nodes=tree())


def test_f13_needs_are_matched_with_racks_when_room_is_made_for_them() -> None:
    """Needs of five, three and three against racks of six and five hosts, all of them taken."""

    async def scenario(world: World) -> None:
        small = [f"s{number:02d}" for number in range(11)]
        await world.apply([URGENT, *map(podgroup, small), *(pod(f"{name}-0", name) for name in small)])
        await world.settle()
        assert len(await bound(world)) == 11
        sizes = {"x": 3, "y": 3, "z": 5}
        await world.apply([urgent("a", 11, required=ZONE, subGroups=parts(**sizes)), *members("a", **sizes)])
        await world.settle()
        assert await racks_of(world, "a-") == [5, 6]

    in_world(scenario, nodes=tree(hosts=[6, 5]))


@pytest.mark.parametrize(
    ("strategy", "gpus", "rack"),
    [
        (PlacementStrategy(), 8, "z0-b0-r0"),
        (PlacementStrategy(gpu="spread"), 8, "z0-b0-r1"),
        (PlacementStrategy(gpu="spread"), 0, "z0-b0-r0"),
        (PlacementStrategy(cpu="spread"), 0, "z0-b0-r1"),
        (PlacementStrategy(cpu="spread"), 8, "z0-b0-r0"),
    ],
)
def test_f14_the_strategy_counts_for_domains_as_well(strategy: PlacementStrategy, gpus: int, rack: str) -> None:
    """KAI: one strategy for pods that ask for GPUs, and one for all others."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup("busy"), pod("busy", "busy", nodeSelector={RACK: "z0-b0-r0"})])
        await world.settle()
        amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
        container = {"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2, gpus, containers=[container])])
        await world.settle()
        assert {path[-1] for path in await domains(world, (await bound(world, "a-")).values())} == {rack}

    in_world(scenario, nodes=tree(hosts=4), settings=Settings(strategy=strategy))


def test_f16_names_of_sub_groups_may_have_capitals() -> None:
    async def scenario(world: World) -> None:
        groups = [
            {"name": "Workers", **constraint(RACK)},
            {"name": "Left", "minMember": 1, "parent": "Workers"},
            {"name": "right", "minMember": 1, "parent": "Workers"},
        ]
        both = [pod(f"a-{name}".lower(), "a", subgroup=name) for name in ("Left", "right")]
        await world.apply([podgroup("a", 2, subGroups=groups), *both])
        await world.settle()
        assert await racks_of(world) == [2]

    in_world(scenario, nodes=tree())


def test_f17_a_level_may_be_called_root() -> None:
    async def scenario(world: World) -> None:
        for node in await world.list("Node"):
            name = node["metadata"]["name"]
            await change(
                world, "Node", name, {"metadata": {"labels": {**node["metadata"]["labels"], "root": name[:8]}}}
            )
        body = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "magic"}}
        await world.apply({**body, "spec": {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": "root"}]}})
        asked = {"topology": "magic", "requiredTopologyLevel": "root"}
        await world.apply([podgroup("a", 2, topologyConstraint=asked), *pods("a", 2)])
        await world.apply([podgroup("b", 3, topologyConstraint=asked), *pods("b", 3)])
        await world.settle()
        assert await racks_of(world, "a-") == [2]
        assert await bound(world, "b-") == {}

    in_world(scenario, nodes=tree())


def test_f18_room_that_a_large_gang_waits_for_is_not_given_to_small_ones_that_come_later() -> None:
    """The large gang waits for pods that are ending; small ones that would fit at once stand behind it."""

    async def scenario(world: World) -> None:
        old = pods("old", 2)
        for each in old:
            each["metadata"]["finalizers"] = ["example.com/held"]
        await world.apply([podgroup("old", 2), *old])
        await world.settle()
        for name in ("old-0", "old-1"):
            await world.delete("Pod", name)
        await world.apply([podgroup("large", 2, required=RACK), *pods("large", 2)])
        await world.settle()
        await world.apply([podgroup("small"), pod("small", "small")])
        await world.settle()
        for name in ("old-0", "old-1"):
            await change(world, "Pod", name, {"metadata": {"finalizers": []}})
            await world.settle()
        assert set(await bound(world)) == {"large-0", "large-1"}

    in_world(scenario, nodes=tree(racks=1))


def test_f19_one_podgroup_can_be_bound_to_the_domain_of_another() -> None:
    """The zone of the other gang is the fuller one, and has no room at the moment."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup("base", 2, required=ZONE), *pods("base", 2)])
        await world.settle()
        (zone,) = await domains(world, (await bound(world)).values(), ZONE)
        tied = {"spinney.dev/tied-to": f"base,{ZONE}"}
        await world.apply([podgroup("step", 3, required=ZONE, annotations=tied), *pods("step", 3)])
        await world.settle()
        assert await bound(world, "step") == {}
        assert f"not enough resources in {zone[0]}" in await said(world, "step")
        node = next(each for each in await world.list("Node") if each["metadata"]["labels"][ZONE] == zone[0])
        labels = {**node["metadata"]["labels"], HOST: "late"}
        late = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late", "labels": labels}}
        await world.apply(late | {"status": node["status"]})
        await world.settle()
        assert await domains(world, (await bound(world)).values(), ZONE) == {zone: 5}

    in_world(scenario, nodes=tree(zones=2))


@pytest.mark.parametrize("level", ["required", "preferred"])
def test_f10_a_gang_that_will_grow_chooses_the_rack_in_which_it_can(level: str) -> None:
    """The tighter rack holds its minimum and no more."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, **{level: RACK}), *pods("a", 3)])
        await world.settle()
        assert await racks_of(world) == [3]

    in_world(scenario, nodes=tree(hosts=[3, 2]))
