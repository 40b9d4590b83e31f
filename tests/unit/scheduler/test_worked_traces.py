"""Small clusters whose answers can be worked out by hand, from PodGroups to binds."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.sim.world import World
from unit.operator.topologies import BLOCK, HOST, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, NODES, bound, constraint, domains, in_world, pod, podgroup, pods, said

Json = dict[str, Any]

SEED = {
    ("a", "a1"): {"na1": 2, "na2": 2, "na3": 2},
    ("a", "a2"): {"na4": 4},
    ("a", "a3"): {"na5": 2, "na6": 2, "na7": 2},
    ("b", "b1"): {"nb1": 4, "nb2": 4},
    ("b", "b2"): {"nb3": 2},
    ("c", "c1"): {"nc1": 2, "nc2": 4},
}
"""A data centre of 32 GPUs: 16 in zone a, 10 in zone b, 6 in zone c."""

UNEVEN = {
    ("a", "a1"): {"a1-1": 1, "a1-2": 1},
    ("a", "a2"): {"a2-1": 1},
    ("a", "a3"): {"a3-1": 1},
    ("a", "a4"): {"a4-1": 1},
    **{("b", f"b{rack}"): {f"b{rack}-1": 1, f"b{rack}-2": 1} for rack in (1, 2, 3)},
}


def nodes_of(racks: dict[tuple[str, str], dict[str, int]]) -> list[Json]:
    found = []
    for (zone, rack), hosts in racks.items():
        for name, gpus in hosts.items():
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
            labels = {ZONE: zone, BLOCK: zone, RACK: rack, HOST: name}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            found.append(node | {"status": {"capacity": amounts, "allocatable": amounts}})
    return found


def placed(racks: dict[tuple[str, str], dict[str, int]], count: int, gpus: int, **levels: str) -> tuple[list[str], str]:
    """Nodes of a gang's pods, sorted, and what is said about it."""

    async def scenario(world: World) -> tuple[list[str], str]:
        await world.apply([*nodes_of(racks), podgroup("g", count, **levels), *pods("g", count, gpus)])
        await world.settle()
        return sorted((await bound(world)).values()), await said(world, "g")

    return in_world(scenario, nodes="")


@pytest.mark.parametrize(
    ("count", "gpus", "levels", "expected"),
    [
        (2, 4, {"required": RACK}, "nb1 nb2"),
        (4, 2, {"required": RACK}, "nb1 nb1 nb2 nb2"),
        (8, 2, {"required": ZONE}, "na1 na2 na3 na4 na4 na5 na6 na7"),
        (6, 2, {"preferred": RACK}, "na1 na2 na3 na5 na6 na7"),
        (4, 4, {"preferred": RACK}, "na4 nb1 nb2 nc2"),
        (16, 2, {"preferred": RACK}, "na1 na2 na3 na4 na4 na5 na6 na7 nb1 nb1 nb2 nb2 nb3 nc1 nc2 nc2"),
    ],
)
def test_k6_k7_the_only_best_placement_in_the_seed_tree(count: int, gpus: int, levels: Json, expected: str) -> None:
    assert placed(SEED, count, gpus, **levels) == (expected.split(), "")


@pytest.mark.parametrize(
    ("count", "gpus", "levels", "sentence"),
    [
        (5, 2, {"required": RACK}, "b/b/b1 can allocate only 4 of 5 required pods"),
        (9, 2, {"required": ZONE}, "node-group a can allocate only 8 of 9 required pods"),
        (3, 4, {"required": ZONE, "preferred": RACK}, "node-group b can allocate only 2 of 3 required pods"),
        (17, 2, {"preferred": RACK}, "Resources were found for 16 pods while 17 are required for gang scheduling"),
    ],
)
def test_k6_what_the_seed_tree_does_not_hold_waits(count: int, gpus: int, levels: Json, sentence: str) -> None:
    nodes, told = placed(SEED, count, gpus, **levels)
    assert nodes == []
    assert sentence in told


def test_k6_a_rack_that_is_filled_exactly_is_taken() -> None:
    nodes, _ = placed(SEED, 3, 2, required=RACK)
    assert nodes in (["na1", "na2", "na3"], ["na5", "na6", "na7"], ["nc1", "nc2", "nc2"])


def test_k7_the_fuller_zone_and_the_fewest_racks_in_it() -> None:
    """No rack holds three; two racks of the smaller zone do."""
    nodes, _ = placed(UNEVEN, 3, 1, required=ZONE, preferred=RACK)
    assert nodes[:2] == ["a1-1", "a1-2"]
    assert nodes[2] in ("a2-1", "a3-1", "a4-1")


def test_k3_prefill_and_decode_take_the_racks_of_one_block() -> None:
    """Two blocks of two racks of four nodes; one set has four pods and the other two."""

    async def scenario(world: World) -> None:
        sizes = {"p-lead": ("prefill", 1), "p-work": ("prefill", 3), "d-lead": ("decode", 1), "d-work": ("decode", 1)}
        sets: list[Json] = [{"name": name, **constraint(RACK)} for name in ("decode", "prefill")]
        leaves = [{"name": name, "minMember": size, "parent": above} for name, (above, size) in sizes.items()]
        members = [
            pod(f"{name}-{each}", "g", subgroup=name) for name, (_, size) in sizes.items() for each in range(size)
        ]
        await world.apply([podgroup("g", 6, required=BLOCK, subGroups=[*sets, *leaves]), *members])
        await world.settle()
        prefill, decode = await bound(world, "p-"), await bound(world, "d-")
        assert len(await domains(world, [*prefill.values(), *decode.values()], BLOCK)) == 1
        (one,), (other,) = await domains(world, prefill.values()), await domains(world, decode.values())
        assert one != other

    in_world(scenario, nodes=NODES.replace("host, count: 2", "host, count: 4"))
