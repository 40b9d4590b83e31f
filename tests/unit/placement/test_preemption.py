"""Who has to go: the cheapest lawful victims, only where nothing else helps, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.placement.reading import read_problem
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.budget import Exhausted
from spinney.core.placement.disrupt.preemption import cheapest_victims, preempt
from spinney.core.placement.engine import Engine
from unit.placement.engine_kit import decided, judged
from unit.placement.victim_twin import GPU, HOST, RACK, cheapest, crowded

Document = dict[str, Any]


def node(name: str, rack: str, gpus: int = 8, **more: Any) -> Document:
    return {"name": name, "labels": {RACK: rack, HOST: name}, "allocatable": {GPU: str(gpus)}, **more}


def gang(name: str, pods: int, gpus: int, *on: str, **more: Any) -> Document:
    """A gang of one pod set; with nodes, its pods run there."""
    least = more.pop("min", pods)
    extra = {key: more.pop(key) for key in ("hostPorts",) if key in more}
    sets = [{"name": "w", "count": pods, "min": least, "request": {GPU: str(gpus)}, **extra}]
    return {"name": name, "topology": "t", "pods": sets, "running": [{"pods": "w", "node": at} for at in on], **more}


def problem(nodes: list[Document], *gangs: Document, **options: Any) -> Document:
    return {
        "version": 1,
        "resources": [GPU],
        "topologies": [{"name": "t", "levels": [RACK, HOST]}],
        "nodes": nodes,
        "gangs": list(gangs),
        "options": {"preempt": True, **options},
    }


def engine_for(document: Document) -> Engine:
    read = read_problem(document)
    inventory = Inventory.of(read.resources, read.topologies, read.nodes)
    engine = Engine(inventory, {topology.name: topology for topology in read.topologies}, read.options)
    for each in read.gangs:
        engine.admit_running(each)
    return engine


def victims(answer: Document) -> list[tuple[str, str]]:
    return [(victim["gang"], victim["node"]) for victim in answer["victims"]]


TWO_RACKS = [node("a0", "a"), node("a1", "a"), node("b0", "b"), node("b1", "b")]


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_k10_the_victims_are_those_of_the_brute_force_twin(start: int) -> None:
    for seed in range(start, start + 20):
        document = crowded(seed)
        answer, expected = decided(document)["gangs"][0], cheapest(document)
        if expected is None:
            assert answer["outcome"] == "infeasible", seed
        else:
            assert (answer["outcome"], answer["victims"], answer["proved"]) == ("placed", expected, True), seed


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_inv7_every_eviction_is_lawful_and_needed(start: int) -> None:
    figures, wrong = judged("preempt", range(start, start + 20))
    assert figures["gangs"]
    assert not wrong, "\n".join(wrong)


def test_k10_a_gang_that_needs_a_full_rack_finds_it_among_full_ones() -> None:
    low = [gang(f"low-{at['name']}", 1, 8, at["name"], priority=0) for at in TWO_RACKS]
    answer = decided(problem(TWO_RACKS, gang("high", 2, 8, priority=5, required=RACK), *low))["gangs"][0]
    assert victims(answer) == [("low-a0", "a0"), ("low-a1", "a1")]
    assert answer["waits"] and answer["proved"]


def test_k10_the_lowest_highest_priority_beats_fewer_gangs_and_pods() -> None:
    dear = gang("dear", 1, 8, "a0", priority=4)
    cheap = [gang(f"cheap-{n}", 2, 2, "b0", "b0", priority=3) for n in range(2)]
    nodes = [node("a0", "a"), node("b0", "b")]
    answer = decided(problem(nodes, gang("high", 1, 8, priority=5), dear, *cheap))["gangs"][0]
    assert {name for name, _ in victims(answer)} == {"cheap-0", "cheap-1"}


def test_k10_elastic_pods_go_before_a_whole_gang() -> None:
    elastic = gang("elastic", 4, 2, *["a0"] * 4, min=2)
    whole = gang("a-whole", 1, 4, "b0")
    nodes = [node("a0", "a"), node("b0", "b", 4)]
    answer = decided(problem(nodes, gang("high", 1, 4, priority=5), elastic, whole))["gangs"][0]
    assert victims(answer) == [("elastic", "a0"), ("elastic", "a0")]


def test_inv7_an_optional_child_goes_and_the_rest_keeps_its_minimum() -> None:
    pods = [{"name": name, "count": 1, "request": {GPU: "4"}} for name in ("x", "y")]
    low = {
        "name": "low",
        "topology": "t",
        "pods": pods,
        "minGroups": 1,
        "running": [{"pods": "x", "node": "a0"}, {"pods": "y", "node": "a0"}],
    }
    answer = decided(problem([node("a0", "a")], gang("high", 1, 4, priority=5), low))["gangs"][0]
    assert answer["victims"] == [{"gang": "low", "pods": "x", "node": "a0"}]


def test_k10_of_equal_victims_the_first_by_name_go() -> None:
    low = [gang(f"low-{n}", 1, 4, at) for n, at in enumerate(("a1", "a0", "a0", "a1"))]
    nodes = [node("a0", "a"), node("a1", "a")]
    answer = decided(problem(nodes, gang("high", 2, 4, priority=5), *low))["gangs"][0]
    assert victims(answer) == [("low-0", "a1"), ("low-1", "a0")]


@pytest.mark.parametrize("change", [{"priority": 5}, {"priority": 9}, {"preemptible": False}])
def test_inv7_equal_higher_and_protected_gangs_are_never_victims(change: Document) -> None:
    low = {**gang("low", 1, 8, "a0"), **change}
    answer = decided(problem([node("a0", "a")], gang("high", 1, 8, priority=5), low))["gangs"][0]
    assert (answer["outcome"], answer["victims"]) == ("infeasible", [])


def test_inv7_nobody_is_evicted_when_the_gang_would_still_not_fit() -> None:
    low = gang("low", 1, 8, "a0")
    first, second = decided(problem([node("a0", "a")], gang("high", 2, 8, priority=5), low))["gangs"]
    assert (first["outcome"], first["victims"]) == ("infeasible", [])
    assert second["outcome"] == "placed"


def test_inv7_a_pod_placed_in_this_run_is_no_victim() -> None:
    answers = decided(problem([node("a0", "a")], gang("low", 1, 8), gang("high", 1, 8, priority=5)))["gangs"]
    assert [answer["outcome"] for answer in answers] == ["placed", "infeasible"]


def test_k10_nobody_is_evicted_for_extras_or_for_a_better_level() -> None:
    low = gang("low", 1, 8, "a1")
    nodes = [node("a0", "a"), node("a1", "a"), node("b0", "b")]
    extras = gang("extras", 3, 8, min=2, priority=5)
    level = gang("level", 2, 8, priority=5, preferred=RACK)
    for wanting in (extras, level):
        answer = decided(problem(nodes, wanting, low))["gangs"][0]
        assert (answer["outcome"], answer["victims"], len(answer["placements"])) == ("placed", [], 2)


def test_k10_releasing_room_comes_before_victims() -> None:
    nodes = [node("a0", "a", used={GPU: "8"}, releasing={GPU: "8"}), node("b0", "b")]
    answer = decided(problem(nodes, gang("high", 1, 8, priority=5), gang("low", 1, 8, "b0")))["gangs"][0]
    assert (answer["waits"], answer["victims"]) == (True, [])


def test_k10_a_port_that_a_victim_holds_is_a_reason_to_evict_it() -> None:
    low = gang("low", 1, 1, "a0", hostPorts=[80])
    other = gang("also-there", 1, 1, "a0")
    high = gang("high", 1, 1, priority=5, hostPorts=[80])
    answer = decided(problem([node("a0", "a")], high, low, other))["gangs"][0]
    assert (victims(answer), answer["waits"]) == ([("low", "a0")], True)


def test_k10_a_victim_later_in_the_list_is_decided_without_its_evicted_pods() -> None:
    nodes = [node("a0", "a"), node("b0", "b", 4)]
    high = gang("high", 1, 8, priority=5)
    first, second = decided(problem(nodes, high, gang("low", 1, 4, "a0")))["gangs"]
    assert victims(first) == [("low", "a0")]
    assert [placement["node"] for placement in second["placements"]] == ["b0"]


def test_g12_a_gang_does_not_evict_the_one_it_is_tied_to() -> None:
    base = gang("base", 1, 8, "a0")
    high = gang("high", 1, 8, priority=5, tiedTo={"gang": "base", "level": RACK})
    answer = decided(problem([node("a0", "a"), node("b0", "b", 4)], high, base))["gangs"][0]
    assert (answer["outcome"], answer["victims"]) == ("infeasible", [])


def test_g12_a_gang_tied_to_an_evicted_one_has_nowhere_to_go() -> None:
    tied = gang("tied", 1, 1, tiedTo={"gang": "low", "level": RACK})
    answers = decided(problem([node("a0", "a")], gang("high", 1, 8, priority=5), tied, gang("low", 1, 8, "a0")))
    assert [answer["outcome"] for answer in answers["gangs"]] == ["placed", "infeasible", "infeasible"]


def test_k9_a_budget_that_ends_is_not_a_proof() -> None:
    low = [gang(f"low-{at['name']}", 1, 8, at["name"]) for at in TWO_RACKS]
    document = problem(TWO_RACKS, gang("high", 2, 8, priority=5, required=RACK), *low, budget=1)
    answer = decided(document)["gangs"][0]
    assert answer["outcome"] == "exhausted"
    engine = engine_for(document)
    parts, _ = engine.read(read_problem(document).gangs[0])
    with pytest.raises(Exhausted):
        cheapest_victims(engine, parts, None)


def test_k4_asking_leaves_no_trace_and_evicting_turns_room_into_releasing() -> None:
    document = problem([node("a0", "a")], gang("high", 1, 8, priority=5), gang("low", 1, 8, "a0", hostPorts=[80]))
    engine = engine_for(document)
    parts, asked = engine.read(read_problem(document).gangs[0])
    found = cheapest_victims(engine, parts, None)
    assert found is not None and found.proved and len(found.victims) == 1
    assert (engine.inventory.idle[0], engine.inventory.releasing[0]) == ([0], [0])
    assert set(engine.inventory.ports(0, waiting=True)) == {80}
    assert preempt(engine, parts, asked, None) is not None
    assert (engine.inventory.idle[0], engine.inventory.releasing[0]) == ([0], [8])
    assert not set(engine.inventory.ports(0, waiting=True))
    assert engine.placed_gangs["low"].live == [] and engine.placed_gangs["low"].gang.running == ()
