"""The judges together can fail: lawful answers that are not good enough are told apart."""

from __future__ import annotations

from typing import Any

from placement_oracle.answers import placed
from placement_oracle.judging import judge
from placement_oracle.reading import read
from placement_oracle.state import Member

Document = dict[str, Any]


def a_problem(gang: Document, *others: Document, **options: Any) -> Document:
    """Racks r0 and r1 of two nodes with two GPUs; the second node of r1 is still held by terminating pods."""
    nodes: list[Document] = []
    for name, rack in (("n0", "r0"), ("n1", "r0"), ("n2", "r1"), ("n3", "r1")):
        nodes.append({"name": name, "labels": {"rack": rack, "host": name}, "allocatable": {"gpu": 2}})
    nodes[3].update(used={"gpu": 2}, releasing={"gpu": 2})
    return {
        "version": 1,
        "resources": ["gpu"],
        "topologies": [{"name": "t", "levels": ["rack", "host"]}],
        "nodes": nodes,
        "gangs": [{"name": "g", "topology": "t", **gang}, *others],
        "options": options,
    }


def pods(count: int, **more: Any) -> list[Document]:
    return [{"name": "p", "count": count, "request": {"gpu": 2}, **more}]


def found(problem: Document, *nodes: str, waits: bool = False, **more: Any) -> set[str]:
    """What the judges say of an answer that puts the pods on these nodes."""
    world = read(problem)
    new: list[Member] = [("p", node) for node in nodes]
    answer = {**placed(world, world.gangs[0], [], new, waits=waits), "proved": True, **more}
    rest = [placed(world, gang, gang.running, []) for gang in world.gangs[1:]]
    return {each.split(":")[0] for each in judge(problem, {"version": 1, "gangs": [answer, *rest]}).wrong}


def refused(problem: Document, outcome: str) -> set[str]:
    answer = {"name": "g", "outcome": outcome, "placements": [], "explanation": {"reason": "no"}}
    return {each.split(":")[0] for each in judge(problem, {"version": 1, "gangs": [answer]}).wrong}


def test_the_optimum_is_accepted() -> None:
    assert found(a_problem({"pods": pods(2), "preferred": "rack"}), "n0", "n1") == set()
    assert found(a_problem({"pods": pods(3), "preferred": "rack"}), "n0", "n1", "n2") == set()


def test_a_missed_optimum_is_told_unless_the_answer_does_not_claim_it() -> None:
    problem = a_problem({"pods": pods(2), "preferred": "rack"})
    assert found(problem, "n0", "n2") == {"optimum missed"}
    assert found(problem, "n0", "n2", proved=False) == set()


def test_a_false_verdict_is_told() -> None:
    fits, too_much = a_problem({"pods": pods(4)}), a_problem({"pods": pods(5)})
    assert refused(fits, "infeasible") == {"false infeasible"}
    assert refused(fits, "exhausted") == {"exhausted on feasible"}
    assert refused(too_much, "infeasible") == refused(too_much, "exhausted") == set()


def test_needless_waiting_is_told() -> None:
    assert found(a_problem({"pods": pods(2)}), "n2", "n3", waits=True) == {"waits needlessly"}
    assert found(a_problem({"pods": pods(4)}), "n0", "n1", "n2", "n3", waits=True) == set()


def test_a_forgotten_extra_is_told() -> None:
    assert found(a_problem({"pods": pods(3, min=2)}), "n0", "n1") == {"missed extras"}
    assert found(a_problem({"pods": pods(3, min=2)}, extras="skip"), "n0", "n1") == set()


def test_dearer_victims_than_needed_are_told() -> None:
    low = [
        {"name": name, "priority": priority, "pods": pods(1), "running": [{"pods": "p", "node": node}]}
        for name, priority, node in (("cheap", 1, "n0"), ("dear", 2, "n1"))
    ]
    gang = {"pods": pods(1, nodeSelector={"rack": "r0"}), "priority": 5}
    problem = a_problem(gang, *low, preempt=True)

    def evicting(name: str, node: str) -> set[str]:
        victims = [{"gang": name, "pods": "p", "node": node}]
        world = read(problem)
        answer = {**placed(world, world.gangs[0], [], [("p", node)], waits=True), "victims": victims}
        rest = [
            {"name": gang.name, "outcome": "exhausted", "placements": [], "explanation": {"reason": "no"}}
            if gang.name == name
            else placed(world, gang, gang.running, [])
            for gang in world.gangs[1:]
        ]
        wrong = judge(problem, {"version": 1, "gangs": [answer, *rest]}).wrong
        return {each.split(":")[0] for each in wrong if each.split(": ")[1] in ("g", "violations")}

    assert evicting("cheap", "n0") == set()
    assert evicting("dear", "n1") == {"victims not cheapest"}
