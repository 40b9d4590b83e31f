"""Zones below the host: one of them holds a pod, a group can share one, and what they share is never used twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from placement_oracle.instances import Profile
from placement_oracle.judging import judge
from unit.placement import problem_kit
from unit.placement.engine_kit import decided, judged
from unit.placement.problem_kit import HOST, LEVELS, RACK, gang, pods

Document = dict[str, Any]
NUMA = "example.com/numa"
GPU = "nvidia.com/gpu"
CHUNK = 25


def node(name: str, *gpus: int, policy: str = "single-numa-node", path: str = "z/b/r", **more: Any) -> Document:
    """A node with a zone for each number of free GPUs; zones account for GPUs only."""
    zones = [{"name": f"z{at}", "allocatable": {GPU: str(each)}} for at, each in enumerate(gpus)]
    found = problem_kit.node(name, path, sum(gpus), zones=zones, zonePolicy=policy)
    found["allocatable"].update(more.pop("allocatable", {}))
    return found | more


def answers(nodes: list[Document], *gangs: Document, **options: Any) -> list[Document]:
    asked = problem_kit.problem(nodes, *gangs, **options)
    asked["topologies"] = [{"name": "t", "levels": [*LEVELS, NUMA], "zones": True}]
    result = decided(asked)
    assert judge(asked, result).wrong == []
    found: list[Document] = result["gangs"]
    return found


def answer(nodes: list[Document], one: Document, **options: Any) -> Document:
    return answers(nodes, one, **options)[0]


def places(found: Document) -> dict[str, int]:
    """How many new pods each zone gets."""
    assert found["outcome"] == "placed", found
    return dict(Counter(f"{each['node']}/{each.get('zone', '')}".rstrip("/") for each in found["placements"]))


def reason(found: Document) -> str:
    assert found["outcome"] == "infeasible", found
    return str(found["explanation"]["reason"])


def test_k12_a_pod_goes_only_where_one_zone_holds_it() -> None:
    nodes = [node("a", 4, 4), node("b", 2, 6)]
    assert places(answer(nodes, gang(pods("w", 1, 5)))) == {"b/z1": 1}
    assert reason(answer(nodes, gang(pods("w", 1, 7)))) == (
        f"a pod of w needs 7 {GPU}, and no NUMA zone has more than 6 {GPU}"
    )


def test_k12_two_gpus_of_eight_are_of_one_zone() -> None:
    zones = [{"name": f"z{at}", "allocatable": {GPU: "4"}, "used": {GPU: used}} for at, used in enumerate("31")]
    one = node("a", 4, 4, used={GPU: "4"}, zones=zones)
    assert places(answer([one], gang(pods("bench", 1, 2)))) == {"a/z1": 1}


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_k12_zones_do_not_matter_under_another_policy(policy: str) -> None:
    found = answer([node("a", 4, 4, policy=policy)], gang(pods("w", 1, 7)))
    assert places(found) == {"a": 1}
    assert "zone" not in found["placements"][0]


def test_k12_a_group_with_a_required_zone_shares_one() -> None:
    nodes = [node("a", 4, 4), node("b", 6, 2)]
    found = answer(nodes, gang(pods("w", 3, 2), required=NUMA))
    assert places(found) == {"b/z0": 3}
    assert found["domains"] == [{"group": "", "level": NUMA, "path": ["z", "b", "r", "b", "z0"]}]


def test_t7_a_preferred_zone_falls_back_to_the_host() -> None:
    nodes = [node("a", 4, 4), node("b", 4, 4)]
    found = answer(nodes, gang(pods("w", 3, 2), preferred=NUMA))
    assert places(found) == {"a/z0": 2, "a/z1": 1}
    assert found["score"] == pytest.approx((4 + 1 / 2) / 6)
    assert answer(nodes, gang(pods("w", 2, 2), preferred=NUMA))["score"] == 1.0


def test_t7_groups_of_one_host_have_zones_of_their_own() -> None:
    groups = [{"name": f"g{at}", "required": NUMA, "pods": [pods("w", 2, 2)]} for at in range(2)]
    found = answer([node("a", 4, 4), node("b", 4, 2)], gang(required=HOST, groups=groups))
    assert places(found) == {"a/z0": 2, "a/z1": 2}


def test_k12_a_required_zone_counts_only_divided_nodes_and_says_so() -> None:
    nodes = [node("a", 8, 8, policy="restricted"), problem_kit.node("b")]
    found = answer(nodes, gang(pods("w"), required=NUMA))
    assert "no node publishes zones under the policy single-numa-node" in reason(found)
    assert found["explanation"]["fitsIf"][0] == {"level": HOST}
    assert places(answer([*nodes, node("c", 1)], gang(pods("w"), required=NUMA))) == {"c/z0": 1}


def test_k12_a_preferred_zone_does_without_where_there_is_none() -> None:
    found = answer([problem_kit.node("b")], gang(pods("w", 2), preferred=NUMA))
    assert places(found) == {"b": 2}


@pytest.mark.parametrize("short", [{"pods": "3"}, {"cpu": "3"}])
def test_inv1_k12_what_zones_do_not_account_for_is_not_used_twice(short: Document) -> None:
    asked = gang({"name": "w", "count": 3, "request": {"cpu": "1", GPU: "2"}})
    one = node("a", 4, 4, allocatable=short)
    assert sum(places(answer([one], asked)).values()) == 3
    asked["pods"][0]["count"] = 4
    assert answer([one], asked)["outcome"] == "infeasible"
    assert sum(places(answer([one, node("b", 4, 4)], asked)).values()) == 4


@pytest.mark.parametrize("strategy", ["binpack", "spread"])
def test_inv1_k12_groups_in_zones_of_one_node_share_what_it_has(strategy: str) -> None:
    groups = [{"name": f"g{at}", "required": NUMA, "pods": [pods("w", 2, 2)]} for at in range(2)]
    tight, roomy = node("a", 4, 4, allocatable={"pods": "3"}), node("b", 4, 0)
    assert answer([tight], gang(groups=groups), strategy=strategy)["outcome"] == "infeasible"
    assert set(places(answer([tight, roomy], gang(groups=groups), strategy=strategy))) == {"a/z0", "b/z0"}


@pytest.mark.parametrize("strategy", ["binpack", "spread"])
def test_k12_no_pod_is_put_where_another_one_needs_what_is_left(strategy: str) -> None:
    """The small pod fits z0 as well, but then the node has too little cpu for the large one in z1."""
    one, two = node("a", 2, 4, allocatable={"cpu": "4"}), problem_kit.node("b", gpus=1)
    sets = [{"name": "s", "request": {"cpu": "1", GPU: "1"}}, {"name": "l", "request": {"cpu": "4", GPU: "3"}}]
    assert places(answer([one, two], gang(*sets), strategy=strategy)) == {"b": 1, "a/z1": 1}


def test_k12_a_host_port_is_open_once_on_all_zones() -> None:
    asked = gang(pods("w", 2, hostPorts=[80]))
    assert answer([node("a", 4, 4)], asked)["outcome"] == "infeasible"
    assert sorted(places(answer([node("a", 4, 4), node("b", 4, 4)], asked))) == ["a/z0", "b/z0"]


def test_k12_groups_that_want_one_host_port_are_not_in_two_zones_of_one_node() -> None:
    groups = [{"name": f"g{at}", "required": NUMA, "pods": [pods("w", 1, 4, hostPorts=[80])]} for at in range(2)]
    assert sorted(places(answer([node("a", 4, 4), node("b", 5)], gang(groups=groups)))) == ["a/z0", "b/z0"]


def test_k12_pods_that_keep_apart_by_host_are_not_on_two_zones_of_one() -> None:
    asked = gang(pods("w", 2, antiAffinity=[HOST]))
    assert answer([node("a", 4, 4)], asked)["outcome"] == "infeasible"


def test_k12_the_zone_of_a_running_member_pins_its_group() -> None:
    running = [{"pods": "w", "node": "a", "zone": "z1"}]
    found = answer([node("a", 4, 4), node("b", 8)], gang(pods("w", 3), required=NUMA, running=running))
    assert places(found) == {"a/z1": 2}


def test_k12_a_running_member_whose_zone_is_not_known_holds_room_in_all_of_them() -> None:
    other = gang(pods("x", 1, 3), name="other", running=[{"pods": "x", "node": "a"}])
    assert answers([node("a", 4, 4)], gang(pods("w", 1, 2)), other)[0]["outcome"] == "infeasible"
    other["running"][0]["zone"] = "z0"
    assert places(answers([node("a", 4, 4)], gang(pods("w", 1, 2)), other)[0]) == {"a/z1": 1}


def test_g12_k12_a_tied_gang_shares_the_zone_of_the_other() -> None:
    base = gang(pods("w", 1, 2), name="base", running=[{"pods": "w", "node": "a", "zone": "z1"}])
    tied = gang(pods("w", 1, 2), name="tied", tiedTo={"gang": "base", "level": NUMA})
    assert places(answers([node("a", 4, 4)], base, tied)[1]) == {"a/z1": 1}


def test_k10_k12_victims_are_named_with_their_zone() -> None:
    weak = gang(pods("x", 2, 4), name="weak", running=[{"pods": "x", "node": "a", "zone": z} for z in ("z0", "z1")])
    strong = gang(pods("w", 2, 2), name="strong", priority=10, required=NUMA)
    weak["pods"][0]["min"] = 1
    found = answers([node("a", 4, 4)], strong, weak, preempt=True, extras="skip")[0]
    assert found["victims"] == [{"gang": "weak", "pods": "x", "node": "a", "zone": "z0"}]
    assert places(found) == {"a/z0": 2}


def test_k10_k12_a_victim_in_another_zone_helps_where_the_node_is_short() -> None:
    weak = gang(pods("x", 1, 1), name="weak", running=[{"pods": "x", "node": "a", "zone": "z1"}])
    strong = gang(pods("w", 1, 4), name="strong", priority=10, required=NUMA)
    found = answers([node("a", 4, 3, allocatable={"pods": "1"})], strong, weak, preempt=True)[0]
    assert [each["zone"] for each in found["victims"]] == ["z1"]


def test_k10_k12_a_move_names_the_zones() -> None:
    light = gang(pods("x", 1, 1), name="light", running=[{"pods": "x", "node": "a", "zone": "z0"}])
    found = answers(
        [node("a", 4), node("b", 2)], gang(pods("w", 1, 4)), light, consolidate={"maxMoves": 1, "maxLoss": 1.0}
    )[0]
    move = {"gang": "light", "pods": "x", "from": "a", "to": "b", "fromZone": "z0", "toZone": "z0"}
    assert found["moves"] == [move]


def test_k12_a_gang_waits_where_zones_together_need_what_a_node_releases() -> None:
    one = node("a", 4, 4, allocatable={"pods": "2"}, used={"pods": "1"}, releasing={"pods": "1"})
    asked = gang(pods("w", 2, 4))
    assert answer([one], asked)["waits"]
    assert not answer([one], gang(pods("w", 1, 4)))["waits"]


def test_k12_what_zones_share_is_named_when_it_is_short() -> None:
    found = answer([node("a", 4, 4, allocatable={"pods": "3"})], gang(pods("w", 4, 1)))
    assert reason(found) == "w needs 4 pods; the cluster holds 3, short of 1 pod slot"


def test_k15_a_pod_that_only_the_whole_node_has_room_for_hears_of_zones() -> None:
    nodes = [node("a", 8, 8), node("b", 8, 8)]
    never = answer([node("a", 4, 4), node("b", 4, 4)], gang(pods("w", 1, 6)))
    assert reason(never) == f"a pod of w needs 6 {GPU}, and no NUMA zone has more than 4 {GPU}"
    for each in nodes:
        for zone in each["zones"]:
            zone["used"] = {GPU: "4"}
        each["used"] = {GPU: "8"}
    assert reason(answer(nodes, gang(pods("w", 1, 6)))) == (
        f"w needs 1 pod; the cluster holds 0, short of 2 {GPU} in one NUMA zone, which has to hold all of a pod under "
        "the policy single-numa-node"
    )


def test_k12_a_blocked_node_is_counted_once() -> None:
    found = answer([node("a", 4, 4), problem_kit.node("b", gpus=2)], gang(pods("w", 1, 8), required=RACK))
    assert found["explanation"]["blocked"] == {"insufficient nvidia.com/gpu": 2}


@pytest.mark.parametrize("profile", ["zones", "hard-zones", "small-zones"])
@pytest.mark.parametrize("start", range(0, 200, CHUNK))
def test_r1_k12_every_answer_with_zones_is_lawful_true_and_optimal_where_proved(profile: Profile, start: int) -> None:
    figures, wrong = judged(profile, range(start, start + CHUNK))
    assert not wrong, "\n".join(wrong)
    assert figures["exhausted"] <= 1
