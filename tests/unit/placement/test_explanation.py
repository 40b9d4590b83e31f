"""Why a gang is refused: who is to blame, how close it came, what is in the way, what would help. All of it true."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest

from placement_oracle.instances import Profile, instance
from spinney.api.placement.problem import DEFAULT_BUDGET
from spinney.api.placement.reading import read_problem
from spinney.api.placement.result import (
    Blocked,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    FitsWithWholeSet,
    Shortfall,
    Victim,
)
from spinney.api.placement.writing import write_result
from spinney.core.placement.engine import place
from spinney.core.placement.explain.context import GangVariants
from spinney.core.placement.explain.explanation import explain
from spinney.core.placement.gang.gang_tree import read_gang_tree
from unit.placement.refusal_kit import (
    BLOCK,
    GPU,
    RACK,
    Document,
    changed,
    emptied,
    engine_of,
    gang,
    node,
    nodes,
    pods,
    problem,
    refusal,
    snapshot,
)

SEEDS = 24
CASES: list[tuple[Profile, int]] = [
    (profile, seed) for profile in ("core", "hard", "tiny", "full", "preempt") for seed in range(SEEDS)
]


def test_k15_the_best_rack_and_what_it_is_short_of_are_named() -> None:
    there = nodes({"b0/r0": [8, 8, 0], "b0/r1": [8, 8, 8, 0, 0], "b1/r0": [8, 0, 0]})
    said = refusal(there, gang(groups=[{"name": "g", "pods": [pods("worker", 5, 8, required=RACK)]}]))
    assert said.reason == f"g/worker needs 5 pods in one {RACK}; the best of 3, b0/r1, holds 3, short of 16 {GPU}"
    assert (said.group, said.level, said.considered) == ("g/worker", RACK, 3)
    assert said.best == (
        Shortfall(("b0", "r1"), 3, 5, {GPU: 16}),
        Shortfall(("b0", "r0"), 2, 5, {GPU: 24}),
        Shortfall(("b1", "r0"), 1, 5, {GPU: 32}),
    )
    assert said.fits_if == (FitsAtLevel(BLOCK), FitsWithCount(3))


def test_k15_the_first_part_that_fails_alone_is_named_not_its_siblings() -> None:
    there = nodes({"b0/r0": [8, 8], "b0/r1": [8, 8]})
    said = refusal(
        there,
        gang(
            groups=[
                {"name": "small", "pods": [pods("w", 1, 8, required=RACK)]},
                {"name": "large", "pods": [pods("w", 3, 8, required=RACK)]},
                {"name": "larger", "pods": [pods("w", 4, 8, required=RACK)]},
            ]
        ),
    )
    assert (said.group, said.level) == ("large/w", RACK)
    assert said.fits_if == ()


def test_k15_the_group_that_carries_the_level_is_named_when_each_of_its_pods_would_fit_elsewhere() -> None:
    there = nodes({"b0/r0": [8, 4, 0], "b0/r1": [8, 4]})
    both = {"name": "g", "required": RACK, "pods": [pods("leader", 1, 4), pods("worker", 2, 8)]}
    said = refusal(there, gang(groups=[both]))
    assert (said.group, said.level) == ("g", RACK)
    assert said.reason == f"g needs 3 pods in one {RACK}; the best of 2, b0/r0, holds 2, short of 8 {GPU}"
    assert said.fits_if == (FitsAtLevel(BLOCK),)


def test_k15_parts_that_fit_alone_but_not_together_are_told_so() -> None:
    there = nodes({"b0/r0": [8, 8], "b0/r1": [8, 0]})
    said = refusal(there, gang(groups=[{"name": f"g{i}", "required": RACK, "pods": [pods("w", 2, 8)]} for i in (0, 1)]))
    assert said.reason == (
        "the gang needs 4 pods; each of its 2 parts fits alone, but not together; "
        f"the cluster holds 3, short of 8 {GPU}"
    )
    assert (said.group, said.level, said.considered) == ("", None, None)
    assert said.best == (Shortfall((), 3, 4, {GPU: 8}),)


def test_k15_parts_that_get_in_each_other_s_way_are_short_of_what_the_last_one_lacks_in_its_best_domain() -> None:
    """Four nodes are free and four are asked for, but no second rack has two of them."""
    there = nodes({"b0/r0": [8, 8], "b0/r1": [8], "b0/r2": [8], "b1/r0": [8, 8]})
    groups = [{"name": f"g{i}", "required": RACK, "pods": [pods("w", 2, 8)]} for i in (0, 1)]
    said = refusal(there, gang(required=BLOCK, groups=groups))
    assert said.reason == (
        f"the gang needs 4 pods in one {BLOCK}; each of its 2 parts fits alone, but not together; "
        f"the best of 2, b0, holds 3, short of 8 {GPU}"
    )
    assert said.best[0] == Shortfall(("b0",), 3, 4, {GPU: 8})
    three = [*groups, {"name": "g2", "required": RACK, "pods": [pods("w", 3, 8)]}]
    wider = nodes({"b0/r0": [8, 8, 8], "b0/r1": [8, 8], "b0/r2": [8], "b0/r3": [8]})
    assert refusal(wider, gang(required=BLOCK, groups=three)).reason.endswith(f"short of 8 {GPU}")


def test_k15_a_shortage_of_the_whole_cluster_is_told_as_such() -> None:
    said = refusal(nodes({"b0/r0": [8, 0], "b0/r1": [8, 0, 0, 0]}), gang(pods=[pods("w", 4, 8, required=RACK)]))
    assert said.reason == (
        f"w needs 4 pods in one {RACK}, but the whole cluster holds 2, short of 16 {GPU}; "
        f"the best {RACK}, b0/r0, holds 1"
    )
    assert said.fits_if == (FitsWithCount(1),)


def test_k15_a_pod_set_that_nobody_named_is_the_gang() -> None:
    there = nodes({"b0/r0": [8, 8, 0]})
    alone = refusal(there, gang(pods=[pods("default", 3, 8)]))
    assert alone.reason == f"the gang needs 3 pods; the cluster holds 2, short of 8 {GPU}"
    kept_out = refusal(there, gang(pods=[pods("default", 3, 8, nodeSelector={"a": "b"})]))
    assert kept_out.reason.startswith("the gang may use none of the 3 nodes")
    beside_another = refusal(there, gang(pods=[pods("default", 3, 8), pods("other", 1, 1)]))
    assert beside_another.reason.startswith("default needs 3 pods")


def test_k15_scattered_room_is_short_of_what_single_nodes_lack() -> None:
    said = refusal(nodes({"b0/r0": [4, 5]}), gang(pods=[pods("w", 1, 8)]))
    assert said.reason == f"w needs 1 pod; the cluster holds 0, short of 3 {GPU}"


def least_to_add(free: list[int], count: int, size: int) -> int:
    """The fewest GPUs that have to be added to nodes so that so many pods fit, by trying every distribution of them."""
    return min(
        sum(max(0, size * here - room) for here, room in zip(each, free, strict=True))
        for each in product(range(count + 1), repeat=len(free))
        if sum(each) == count
    )


@pytest.mark.parametrize("seed", range(60))
def test_k15_at_random_the_missing_amount_is_named_also_where_the_total_would_be_enough(seed: int) -> None:
    """What the total lacks; else the fewest GPUs that have to be added to nodes so that all pods fit."""
    dice = Random(f"short-{seed}")
    racks = {f"b0/r{at}": [dice.randint(0, 8) for _ in range(dice.randint(1, 4))] for at in range(dice.randint(1, 3))}
    count, size = dice.randint(1, 4), dice.choice((3, 5, 8))
    holds = {path: sum(room // size for room in free) for path, free in racks.items()}
    if max(holds.values()) >= count:
        count = max(holds.values()) + 1
    best = refusal(nodes(racks), gang(pods=[pods("w", count, size, required=RACK)])).best[0]
    assert best.holds == max(holds.values())
    free = racks["/".join(best.path)]
    lack = count * size - sum(free)
    assert best.short == {GPU: lack if lack > 0 else least_to_add(free, count, size)}


def test_k15_pods_of_different_sizes_are_packed_before_they_are_counted() -> None:
    said = refusal(nodes({"b0/r0": [8, 8], "b0/r1": [0]}), gang(required=RACK, pods=[pods("s", 5, 2), pods("l", 1, 8)]))
    assert said.best[0] == Shortfall(("b0", "r0"), 5, 6, {GPU: 2})


def test_k15_a_filter_that_admits_no_node_is_told_with_the_reasons() -> None:
    there = [
        node("n0", "b0/r0", 8, ready=False),
        node("n1", "b0/r0", 8, unschedulable=True),
        node("n2", "b0/r0", 8, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        node("n3", "b0/r0", 8),
        node("n4", "b0/r0", 8, labels={"disk": "ssd"}),
    ]
    terms = [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    said = refusal(there, gang(pods=[pods("w", 1, 1, nodeSelector={"disk": "ssd"}, affinity=affinity)]))
    assert said.reason == (
        "w may use none of the 5 nodes: 1 node affinity arch In (arm), 1 node selector disk=ssd, 1 not ready, "
        "1 unschedulable, 1 untolerated taint team=x:NoSchedule"
    )
    assert said.best == (Shortfall((), 0, 1, {}),)


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def without_gpus(name: str, **more: Any) -> Document:
    return node(name, "b0/r0", 8, **({"allocatable": {"cpu": "64", "pods": "110"}, "used": {}} | more))


def test_k15_a_taint_on_all_nodes_that_are_large_enough_is_the_reason_and_not_the_small_ones() -> None:
    there = [node("n0", "b0/r0", 8, taints=[TAINT]), node("n1", "b0/r1", 8, taints=[TAINT]), without_gpus("n2")]
    said = refusal(there, gang(pods=[pods("w", 1, 1)]))
    assert said.reason == (
        "w may use none of the 2 nodes that are large enough for a pod: "
        "2 untolerated taint nvidia.com/gpu=present:NoSchedule"
    )
    assert said.never_fits


def test_k15_a_label_that_keeps_pods_off_the_large_nodes_is_named() -> None:
    there = [node("n0", "b0/r0", 8), without_gpus("n1", labels={"disk": "ssd"})]
    said = refusal(there, gang(pods=[pods("w", 1, 1, nodeSelector={"disk": "ssd"})]))
    assert said.reason == "w may use none of the 1 node that is large enough for a pod: 1 node selector disk=ssd"


def test_k15_a_pod_larger_than_any_node_is_told_even_if_all_nodes_are_busy() -> None:
    said = refusal(nodes({"b0/r0": [0, 4]}), gang(pods=[pods("w", 1, 9)]))
    assert said.reason == f"a pod of w needs 9 {GPU}, and no node has more than 8 {GPU}"
    none = refusal([without_gpus("n0")], gang(pods=[pods("w", 1, 9)]))
    assert none.reason == f"a pod of w needs 9 {GPU}, and no node has any"
    apart = [without_gpus("n0", allocatable={"cpu": "64", "pods": "9"}), node("n1", "b0/r0", 8, allocatable={GPU: "8"})]
    apart[1]["allocatable"] |= {"pods": "9"}
    both = refusal(apart, gang(pods=[pods("w", 1, 8)]))
    assert both.reason == f"a pod of w needs 8 {GPU}, 1 cpu and 1 pod slot, and no node has that much of all of them"


def test_k15_a_part_larger_than_any_domain_is_told_with_the_largest_one() -> None:
    there = nodes({"b0/r0": [8, 8, 8, 8], "b0/r1": [0, 0, 0, 0, 0]})
    said = refusal(there, gang(pods=[pods("w", 6, 8, required=RACK)]))
    assert said.reason == (
        f"w needs 6 pods in one {RACK}; no more than 5 fit into an empty {RACK}; the best of 2, b0/r0, holds 4, "
        f"short of 16 {GPU}"
    )
    assert said.never_fits
    assert not refusal(there, gang(pods=[pods("w", 5, 8, required=RACK)])).never_fits


def test_k15_pods_of_several_sizes_that_no_domain_has_amounts_for_are_told_so() -> None:
    mixed = gang(required=RACK, pods=[pods("a", 2, 4), pods("b", 2, 8)])
    said = refusal(nodes({"b0/r0": [8, 0], "b0/r1": [8]}), mixed)
    assert said.reason == (
        f"the gang needs 4 pods in one {RACK}; that is 24 {GPU} in all, and an empty {RACK} has no more than 16 {GPU}; "
        f"the best of 2, b0/r0, holds 2, short of 16 {GPU}"
    )


def test_k15_the_part_that_never_fits_is_blamed_before_one_that_does_not_fit_now() -> None:
    there = nodes({"b0/r0": [0, 0, 8]})
    said = refusal(there, gang(pods=[pods("busy", 2, 8, required=RACK), pods("huge", 1, 16)]))
    assert said.group == "huge"
    assert said.reason == f"a pod of huge needs 16 {GPU}, and no node has more than 8 {GPU}"


def test_k15_a_topology_that_no_node_carries_is_told() -> None:
    said = refusal([node("n0", "", 8)], gang(pods=[pods("w", 1, 1, required=RACK)]))
    assert said.reason == (
        f"w needs one {RACK}, and no node carries the label {BLOCK}, a broader level of topology net"
    )
    there = [node("n0", "b0", 8), node("n1", "", 8, labels={RACK: "r0"})]
    rack = refusal(there, gang(pods=[pods("w", 1, 1, required=RACK)]))
    assert rack.reason == f"w needs one {RACK}, and no node carries that level of topology net"
    assert said.never_fits and rack.never_fits
    assert (said.considered, said.best) == (0, ())
    assert said.fits_if == (FitsAtLevel(None),)


def test_k15_a_cluster_without_nodes_is_told() -> None:
    assert refusal([], gang(pods=[pods("w", 1, 1)])).reason == "w needs nodes, and the cluster has none"


def test_k15_a_running_member_that_pins_the_domain_is_named() -> None:
    there = nodes({"b0/r0": [8, 0], "b0/r1": [8, 8, 8]})
    said = refusal(there, gang(pods=[pods("w", 3, 8, required=RACK)], running=[{"pods": "w", "node": "n0"}]))
    assert said.reason == (
        f"w needs 3 pods in one {RACK}; its member on n0 runs in b0/r0, which holds 1, short of 16 {GPU}"
    )
    assert said.considered == 1
    assert said.fits_if == (FitsAtLevel(BLOCK), FitsWithCount(1))


def test_k15_running_members_that_break_the_requirement_are_named() -> None:
    there = nodes({"b0/r0": [8, 8], "b0/r1": [8, 8]})
    running = [{"pods": "w", "node": "n0"}, {"pods": "w", "node": "n2"}]
    said = refusal(there, gang(pods=[pods("w", 3, 8, required=RACK)], running=running))
    assert said.reason == f"w needs one {RACK}, but its members run on n0 (b0/r0) and n2 (b0/r1)"


def test_k15_a_tied_gang_is_told_whose_domain_is_too_small() -> None:
    there = nodes({"b0/r0": [8, 8], "b1/r0": [8, 8, 8]})
    base = gang("ns/base", pods=[pods("w", 1, 8)], running=[{"pods": "w", "node": "n0"}])
    scaled = gang("ns/scaled", pods=[pods("w", 2, 8)], tiedTo={"gang": "ns/base", "level": BLOCK})
    said = refusal(there, base, scaled)
    assert said.reason == f"w needs 2 pods; b0 beside gang ns/base holds 1, short of 8 {GPU}"
    assert (said.level, said.considered) == (BLOCK, 1)
    assert said.best == (Shortfall(("b0",), 1, 2, {GPU: 8}),)
    assert said.fits_if == (FitsWithCount(1), FitsWithWholeSet("ns/base", ("b1",)))


def test_k15_a_budget_that_ended_is_told_with_its_steps_and_nothing_is_tried() -> None:
    sizes = [3, 5, 7, 4, 6, 5, 3, 7, 5, 3]
    groups = [{"name": f"g{at}", "required": RACK, "pods": [pods("w", size, 1)]} for at, size in enumerate(sizes)]
    said = refusal(nodes({f"b0/r{at}": [7, 1] for at in range(6)}), gang(groups=groups), budget=3)
    assert said.reason == "the search budget of 3 steps ended before the answer was known"
    assert said.fits_if == ()


def test_k15_blocked_nodes_are_counted_once_and_occupants_by_node() -> None:
    there = [
        *nodes({"b0/r0": [8, 8]}),
        node("n2", "b0/r0", 8, ready=False),
        node("n3", "b0/r0", 8, hostPorts=[80]),
        node("n4", "b0/r0", 2),
        node("m0", "", 8),
    ]
    other = gang("ns/other", pods=[pods("w", 3, 4)], running=[{"pods": "w", "node": n} for n in ("n0", "n0", "n1")])
    said = refusal(there, other, gang(required=RACK, pods=[pods("w", 2, 8, hostPorts=[80])]))
    assert said.blocked == Blocked(
        {"not ready": 1, "host port": 1, f"insufficient {GPU}": 3},
        {"ns/other": 2},
    )


def test_k15_cordoned_and_unready_nodes_are_not_capacity() -> None:
    there = [node("n0", "b0/r0", 8, unschedulable=True), node("n1", "b0/r0", 8, ready=False), node("n2", "b0/r0", 8)]
    said = refusal(there, gang(pods=[pods("w", 2, 8, required=RACK)]))
    assert said.best == (Shortfall(("b0", "r0"), 1, 2, {GPU: 8}),)
    assert said.blocked == Blocked({"not ready": 1, "unschedulable": 1})


def test_k15_equal_rack_names_and_dotted_values_stay_apart() -> None:
    there = nodes({"a.b/c": [8], "a/b.c": [8], "a/r": [8], "b/r": [8]})
    said = refusal(there, gang(pods=[pods("w", 2, 8, required=RACK)]))
    assert said.considered == 4
    assert [one.path for one in said.best] == [("a", "b.c"), ("a", "r"), ("a.b", "c")]
    assert {one.holds for one in said.best} == {1}


def test_k15_pods_that_must_keep_apart_are_not_said_to_lack_an_amount() -> None:
    there = nodes({"b0/r0": [8, 8, 0]})
    said = refusal(there, gang(pods=[pods("w", 3, 1, required=RACK, hostPorts=[80])]))
    assert said.reason == (
        f"w needs 3 pods in one {RACK}, but the whole cluster holds 2, "
        f"and host ports or anti-affinity keep the others away; the best {RACK}, b0/r0, holds 2"
    )
    assert said.fits_if == (FitsWithCount(2),)


def test_k15_the_narrowest_level_that_would_fit_is_offered() -> None:
    there = nodes({"b0/r0": [8], "b0/r1": [8], "b1/r0": [8]})
    host = gang(required=RACK, pods=[pods("w", 2, 8)])
    wide = gang(required=RACK, pods=[pods("w", 3, 8)])
    assert refusal(there, host).fits_if == (FitsAtLevel(BLOCK), FitsWithCount(1))
    assert refusal(there, wide).fits_if == (FitsAtLevel(None), FitsWithCount(1))


def test_k15_victims_are_asked_for_only_where_weaker_gangs_run() -> None:
    weak = gang("ns/weak", pods=[pods("w", 1, 8)], running=[{"pods": "w", "node": "n0"}])
    strong = gang(priority=5, pods=[pods("w", 1, 8)])
    asked = read_problem(problem(nodes({"b0/r0": [8]}), weak, strong))
    prey = (Victim("ns/weak", "w", "n0"),)
    engine = engine_of(asked)
    parts, profile = engine.read(asked.gangs[1])
    assert explain(engine, parts, profile, None, "infeasible", lambda: prey).fits_if == (FitsWithVictims(prey),)
    equal, profile = engine.read(msgspec.structs.replace(asked.gangs[1], priority=0))
    assert explain(engine, equal, profile, None, "infeasible", lambda: prey).fits_if == ()


def test_k15_a_gang_of_a_million_pods_is_counted_not_listed() -> None:
    there = nodes({"b0/r0": [8] * 4, "b1/r0": [8] * 3})
    said = refusal(there, gang(pods=[pods("w", 1_000_000, 1, required=RACK)]))
    assert said.best[0].holds == 32
    assert said.fits_if == (FitsWithCount(32),)


def test_k15_mixed_pods_on_many_nodes_are_poured_not_searched() -> None:
    there = nodes({f"b{at // 10}/r{at}": [8] * 10 for at in range(60)})
    said = refusal(there, gang(pods=[pods("leader", 10, 1), pods("worker", 600, 8)]))
    assert said.best == (Shortfall((), 608, 610, {GPU: 10}),)


def test_k15_groups_on_many_racks_are_poured_into_racks_of_their_own() -> None:
    there = nodes({f"b0/r{at}": [8] * 20 for at in range(20)})
    groups = [{"name": f"g{at}", "required": RACK, "pods": [pods("l", 1, 8), pods("w", 18, 8)]} for at in range(21)]
    said = refusal(there, gang(groups=groups))
    assert said.reason == (
        "the gang needs 399 pods; each of its 21 parts fits alone, but not together; "
        "the cluster holds 381, and what is free there lies apart"
    )


def test_k15_children_that_may_be_left_out_are_not_blamed_while_others_would_do() -> None:
    there = [*nodes({"b0/r0": [8, 0]}), node("m0", "b0/r1", 8)]
    group = {
        "name": "g",
        "minGroups": 1,
        "pods": [pods("never", 1, 1, nodeSelector={"no": "such"}), pods("here", 1, 8), pods("there", 1, 8)],
    }
    said = refusal(there, gang(groups=[group, {"name": "h", "pods": [pods("w", 2, 8)]}]))
    assert said.group == ""
    assert said.reason == (
        "the gang needs 3 pods; each of its 2 parts fits alone, but not together; "
        f"the cluster holds 2, short of 8 {GPU}"
    )


@pytest.mark.parametrize(("profile", "seed"), CASES)
def test_k15_what_would_fit_does_fit_and_who_is_blamed_is_to_blame(profile: Profile, seed: int) -> None:
    asked = read_problem(instance(seed, profile))
    undisturbed = msgspec.structs.replace(asked.options, budget=DEFAULT_BUDGET, preempt=False, consolidate=None)
    asked = msgspec.structs.replace(asked, options=undisturbed)
    topologies = {topology.name: topology for topology in asked.topologies}
    for at, decision in enumerate(place(asked).gangs):
        said = decision.explanation
        if decision.outcome != "infeasible" or said is None or not said.best:
            continue
        assert said.reason
        if said.never_fits and not (asked.gangs[at].tied_to or asked.gangs[at].running):
            assert place(emptied(asked, at)).gangs[0].outcome != "placed"
        parts = read_gang_tree(asked.gangs[at], topologies)
        variants = GangVariants(parts)
        part = next(part for part in parts.all if part.path == said.group)
        trials = [
            variants.with_level(part, way.level)
            if isinstance(way, FitsAtLevel)
            else variants.with_count(parts.leaves[0], way.count)
            for way in said.fits_if
            if not isinstance(way, FitsWithVictims | FitsWithWholeSet)
        ]
        assert [place(changed(asked, at, trial)).gangs[at].outcome for trial in trials] == ["placed"] * len(trials)
        if asked.gangs[at].tied_to is None and not asked.gangs[at].running:
            assert place(changed(asked, at, variants.alone(part))).gangs[at].outcome != "placed"
        assert all(one.holds < one.of for one in said.best)


@pytest.mark.parametrize("profile", ["core", "full", "preempt"])
def test_k15_explaining_changes_nothing_and_says_the_same_again(profile: Profile) -> None:
    for seed in range(SEEDS):
        asked = read_problem(instance(seed, profile))
        engine = engine_of(asked)
        for one in asked.gangs:
            try:
                parts, counted = engine.read(one)
            except ValueError:
                continue
            before = snapshot(engine)
            first = explain(engine, parts, counted, None, "infeasible")
            assert snapshot(engine) == before
            assert explain(engine, parts, counted, None, "infeasible") == first
        assert json.dumps(write_result(place(asked))) == json.dumps(write_result(place(asked)))
