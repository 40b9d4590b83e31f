"""The checker can fail: every kind of wrong answer is caught, and lawful ones pass."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from placement_oracle.answers import answered
from placement_oracle.checker import missed_extras, violations
from placement_oracle.instances import PROFILES, instance
from placement_oracle.quantities import base_units

Document = dict[str, Any]


def a_node(name: str, block: str | None, rack: str | None, gpus: int = 4, **more: Any) -> Document:
    labels = {"block": block, "rack": rack, "host": name}
    return {
        "name": name,
        "labels": {key: value for key, value in labels.items() if value},
        "allocatable": {"cpu": "10", "pods": "4", "gpu": str(gpus)},
        **more,
    }


def a_problem(*gangs: Document, **options: Any) -> Document:
    """Two racks of two nodes in block a, a rack of the same name in block b, and a node without labels."""
    return {
        "version": 1,
        "resources": ["cpu", "pods", "gpu"],
        "topologies": [{"name": "t", "levels": ["block", "rack", "host"]}],
        "nodes": [
            a_node("a0", "a", "r0"),
            a_node("a1", "a", "r0", used={"gpu": "2"}, releasing={"gpu": "2"}),
            a_node("a2", "a", "r1"),
            a_node("a3", "a", "r1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
            a_node("b0", "b", "r0", gpus=8),
            a_node("b1", "b", "r0", unschedulable=True),
            a_node("x0", None, None, hostPorts=[80]),
        ],
        "gangs": list(gangs),
        "options": options,
    }


def a_gang(*pods: Document, name: str = "g", **more: Any) -> Document:
    return {"name": name, "topology": "t", "pods": list(pods), **more}


def pods(name: str = "p", count: int = 2, gpus: int = 2, **more: Any) -> Document:
    return {"name": name, "count": count, "request": {"gpu": str(gpus)}, **more}


def an_answer(*where: tuple[str, str], name: str = "g", score: float = 1.0, **more: Any) -> Document:
    seen: dict[str, int] = {}
    placements = []
    for path, node in where:
        placements.append({"pods": path, "index": seen.get(path, 0), "node": node})
        seen[path] = seen.get(path, 0) + 1
    answer = {"name": name, "outcome": "placed", "waits": False, "proved": True, "score": score}
    return {**answer, "placements": placements, "domains": [], "victims": [], "moves": [], "explanation": {}, **more}


def a_refusal(outcome: str, name: str = "g", reason: str = "no room") -> Document:
    return {"name": name, "outcome": outcome, "placements": [], "explanation": {"reason": reason}}


def a_result(*answers: Document) -> Document:
    return {"version": 1, "gangs": list(answers)}


def domain(group: str, level: str, *path: str) -> Document:
    return {"group": group, "level": level, "path": list(path)}


IN_RACK = [domain("", "rack", "a", "r0")]
TWO = (("p", "a0"), ("p", "a0"))

LAWFUL = {
    "plain": (a_problem(a_gang(pods())), an_answer(*TWO)),
    "required": (a_problem(a_gang(pods(), required="rack")), an_answer(*TWO, domains=IN_RACK)),
    "preferred, split": (
        a_problem(a_gang(pods(), preferred="rack")),
        an_answer(("p", "a0"), ("p", "a2"), score=(1 + 1 / 2) / 3, domains=[domain("", "block", "a")]),
    ),
    "preferred, outside": (a_problem(a_gang(pods(count=1), preferred="rack")), an_answer(("p", "x0"), score=1 / 3)),
    "waits": (
        a_problem(a_gang(pods(gpus=4, nodeSelector={"host": "a1"}, count=1))),
        an_answer(("p", "a1"), waits=True),
    ),
    "running": (
        a_problem(a_gang(pods(), required="rack", running=[{"pods": "p", "node": "a0"}])),
        an_answer(("p", "a0"), domains=IN_RACK),
    ),
    "tolerated": (
        a_problem(a_gang(pods(count=1, tolerations=[{"key": "k", "operator": "Exists"}]))),
        an_answer(("p", "a3")),
    ),
    "nothing left": (
        a_problem(a_gang(pods(count=1), running=[{"pods": "p", "node": "a0"}])),
        an_answer(),
    ),
    "invalid": (a_problem(a_gang(pods(), required="row")), a_refusal("invalid")),
    "infeasible": (a_problem(a_gang(pods(gpus=99))), a_refusal("infeasible")),
    "optional": (
        a_problem(a_gang(pods("p"), pods("q", gpus=99), minGroups=1)),
        an_answer(*TWO),
    ),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_a_lawful_answer_passes(name: str) -> None:
    problem, answer = LAWFUL[name]
    assert violations(problem, a_result(answer)) == []


APART: dict[str, Any] = {"antiAffinity": ["rack"]}
PORT: dict[str, Any] = {"hostPorts": [80]}
SELECTED: dict[str, Any] = {"nodeSelector": {"rack": "r1"}}
AFFINE: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r0"]}]}]
            }
        }
    }
}
POD_AFFINITY: dict[str, Any] = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}
RUNNING = [{"pods": "p", "node": "a2"}]

WRONG = {
    "over capacity": (a_problem(a_gang(pods(count=3))), an_answer(*TWO, ("p", "a0")), "has 4 gpu for 6"),
    "over pods": (a_problem(a_gang(pods(count=5, gpus=0))), an_answer(*[("p", "a0")] * 5), "has 4 pods for 5"),
    "releasing without waiting": (a_problem(a_gang(pods())), an_answer(*[("p", "a1")] * 2), "has 2 gpu for 4"),
    "waiting without need": (a_problem(a_gang(pods())), an_answer(*TWO, waits=True), "fits on idle room"),
    "over idle and releasing": (
        a_problem(a_gang(pods(count=3))),
        an_answer(*[("p", "a1")] * 3, waits=True),
        "has 4 gpu for 6 (waits: True)",
    ),
    "running members have no room": (
        a_problem(a_gang(pods(count=3), running=RUNNING)),
        an_answer(*[("p", "a2")] * 2),
        "has 2 gpu for 4",
    ),
    "taint": (a_problem(a_gang(pods())), an_answer(("p", "a0"), ("p", "a3")), "may not use node a3"),
    "cordoned": (a_problem(a_gang(pods())), an_answer(("p", "a0"), ("p", "b1")), "may not use node b1"),
    "selector": (a_problem(a_gang(pods(**SELECTED))), an_answer(*TWO), "may not use node a0"),
    "affinity": (a_problem(a_gang(pods(**AFFINE))), an_answer(*TWO), "may not use node a0"),
    "port of a stranger": (a_problem(a_gang(pods(count=1, **PORT))), an_answer(("p", "x0")), "port 80"),
    "port of a sibling": (a_problem(a_gang(pods(**PORT))), an_answer(*TWO), "port 80"),
    "anti-affinity": (a_problem(a_gang(pods(**APART))), an_answer(("p", "a0"), ("p", "b0")), "share rack=r0"),
    "anti-affinity to a running one": (
        a_problem(a_gang(pods(**APART), running=RUNNING)),
        an_answer(("p", "a2")),
        "share rack=r1",
    ),
    "required is split": (
        a_problem(a_gang(pods(), required="rack")),
        an_answer(("p", "a0"), ("p", "b0")),
        "not in one domain of rack",
    ),
    "required is left by a new pod": (
        a_problem(a_gang(pods(), required="rack", running=RUNNING)),
        an_answer(("p", "a0"), domains=[domain("", "block", "a")]),
        "not in one domain of rack",
    ),
    "required outside the topology": (
        a_problem(a_gang(pods(count=1), required="block")),
        an_answer(("p", "x0")),
        "not in one domain of block",
    ),
    "required of a pod set": (
        a_problem(a_gang(pods(required="host"))),
        an_answer(("p", "a0"), ("p", "a1"), domains=[domain("p", "rack", "a", "r0")]),
        "'p' is not in one domain",
    ),
    "below the minimum": (a_problem(a_gang(pods())), an_answer(("p", "a0")), "'' is below its minimum"),
    "too few children": (
        a_problem(a_gang(pods("p"), pods("q"), pods("s"), minGroups=2)),
        an_answer(*TWO),
        "'' is below its minimum",
    ),
    "half a child": (
        a_problem(a_gang(pods("p"), pods("q"), minGroups=1)),
        an_answer(*TWO, ("q", "a2")),
        "'q' is below its minimum",
    ),
    "above the count": (a_problem(a_gang(pods())), an_answer(*TWO, ("p", "a2")), "count is 2"),
    "extras although skipped": (
        a_problem(a_gang(pods(min=1)), extras="skip"),
        an_answer(*TWO),
        "an extra pod is placed",
    ),
    "optional child although skipped": (
        a_problem(a_gang(pods("p"), pods("q"), minGroups=1), extras="skip"),
        an_answer(*TWO, ("q", "a2"), ("q", "a2")),
        "an optional child is placed",
    ),
    "wrong score": (a_problem(a_gang(pods(), preferred="rack")), an_answer(*TWO, score=0.9, domains=IN_RACK), "score"),
    "no score": (a_problem(a_gang(pods())), an_answer(*TWO, score=None), "score"),  # type: ignore[arg-type]
    "missing domain": (a_problem(a_gang(pods(), required="rack")), an_answer(*TWO), "domains"),
    "broader domain": (
        a_problem(a_gang(pods(), required="block", preferred="rack")),
        an_answer(*TWO, domains=[domain("", "block", "a")]),
        "domains",
    ),
    "domain by its own name": (
        a_problem(a_gang(pods(), required="rack")),
        an_answer(*TWO, domains=[domain("", "rack", "r0")]),
        "domains",
    ),
    "unknown pod set": (a_problem(a_gang(pods())), an_answer(("q", "a0")), "unknown pod set"),
    "unknown node": (a_problem(a_gang(pods())), an_answer(("p", "zz")), "unknown node"),
    "unknown outcome": (a_problem(a_gang(pods())), an_answer(*TWO, outcome="maybe"), "outcome 'maybe'"),
    "silent refusal": (a_problem(a_gang(pods())), a_refusal("infeasible", reason=" "), "without a reason"),
    "refusal with pods": (a_problem(a_gang(pods())), {**an_answer(*TWO), "outcome": "exhausted"}, "with placements"),
    "mistake placed": (a_problem(a_gang(pods(min=3))), an_answer(*TWO), "mistakes"),
    "mistake called infeasible": (a_problem(a_gang(pods(**POD_AFFINITY))), a_refusal("infeasible"), "mistakes"),
    "fine called invalid": (a_problem(a_gang(pods())), a_refusal("invalid"), "mistakes: []"),
    "another gang": (a_problem(a_gang(pods())), an_answer(*TWO, name="other"), "in their order"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_caught(name: str) -> None:
    problem, answer, said = WRONG[name]
    found = violations(problem, a_result(answer))
    assert any(said in each for each in found), found


def test_indices_count_from_zero() -> None:
    answer = an_answer(*TWO)
    answer["placements"][1]["index"] = 2
    assert any("indices" in each for each in violations(a_problem(a_gang(pods())), a_result(answer)))


def test_a_gang_sees_the_ones_before_it() -> None:
    problem = a_problem(a_gang(pods(), name="first"), a_gang(pods(), name="second"))
    first, second = an_answer(*TWO, name="first"), an_answer(*TWO, name="second")
    assert any(each.startswith("second: node a0 has 0 gpu") for each in violations(problem, a_result(first, second)))


MISTAKES = {
    "unknown topology": a_gang(pods(), topology="u"),
    "topology without levels": a_gang(pods(), topology="empty"),
    "level of another topology": a_gang(pods(required="zone")),
    "level without a topology": {"name": "g", "required": "rack", "pods": [pods()]},
    "min above count": a_gang(pods(min=3)),
    "minGroups out of range": a_gang(pods(), minGroups=2),
    "two of one name": a_gang(pods(), pods()),
    "a group named like a pod set": a_gang(pods(), groups=[{"name": "p", "pods": [pods()]}]),
    "more running than count": a_gang(pods(count=1), running=[*RUNNING, *RUNNING]),
    "tied at a foreign level": a_gang(pods(), tiedTo={"gang": "h", "level": "zone"}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_must_be_answered_with_invalid(name: str) -> None:
    problem = a_problem(MISTAKES[name])
    problem["topologies"].append({"name": "empty", "levels": []})
    assert violations(problem, a_result(a_refusal("invalid"))) == []
    assert violations(problem, a_result(a_refusal("infeasible"))) != []


def tied(*where: tuple[str, str], level: str = "rack", other: str = "base") -> list[str]:
    problem = a_problem(a_gang(pods(), name="base"), a_gang(pods(), tiedTo={"gang": other, "level": level}))
    return violations(problem, a_result(an_answer(("p", "a0"), ("p", "a1"), name="base"), an_answer(*where)))


def test_a_tied_gang_shares_the_domain() -> None:
    assert tied(("p", "a0"), ("p", "a2"), level="block") == []
    assert any("outside the tied domain" in each for each in tied(("p", "a0"), ("p", "a2")))
    assert any("outside the tied domain" in each for each in tied(("p", "b0"), ("p", "b0")))


def test_a_tie_to_nobody_or_to_a_split_gang_cannot_be_placed() -> None:
    assert any("not placed" in each for each in tied(("p", "b0"), ("p", "b0"), other="nobody"))
    assert any("split" in each for each in tied(("p", "b0"), ("p", "b0"), level="host"))


def a_preemption(victims: list[str], **of_victim: Any) -> list[str]:
    """The preemptor needs all of b0 (8 GPUs); `low` runs there with 2 x 2 GPUs above a minimum of one, and on a0."""
    low = a_gang(pods(count=3, min=1), name="low", running=[{"pods": "p", "node": node} for node in ("b0", "b0", "a0")])
    high = a_gang(pods(count=2, gpus=3, nodeSelector={"host": "b0"}), priority=5)
    problem = a_problem(high, {**low, **of_victim}, preempt=True)
    evicted = [{"gang": "low", "pods": "p", "node": node} for node in victims]
    answer = an_answer(("p", "b0"), ("p", "b0"), waits=bool(victims), victims=evicted)
    return violations(problem, a_result(answer, an_answer(name="low")))


def test_a_needed_elastic_victim_is_lawful() -> None:
    assert a_preemption(["b0"]) == []


@pytest.mark.parametrize(
    ("victims", "of_victim", "said"),
    [
        (["b0", "b0"], {}, "can be spared"),
        (["b0", "a0"], {}, "can be spared"),
        (["b0"], {"priority": 5}, "may not be preempted"),
        (["b0"], {"preemptible": False}, "may not be preempted"),
        (["a2"], {}, "not all running"),
        (["b0"], {"pods": [pods(count=3)]}, "neither whole nor above its minimum"),
        ([], {}, "has 4 gpu for 6"),
    ],
)
def test_an_unlawful_victim_is_caught(victims: list[str], of_victim: Document, said: str) -> None:
    found = a_preemption(victims, **of_victim)
    assert any(said in each for each in found), found


def test_victims_must_be_allowed_and_needed() -> None:
    low = a_gang(pods(count=1), name="low", running=[{"pods": "p", "node": "b0"}])
    answer = an_answer(*TWO, waits=True, victims=[{"gang": "low", "pods": "p", "node": "b0"}])
    result = a_result(answer, a_refusal("infeasible", name="low"))
    high = a_gang(pods(), priority=1)
    assert any("without preempt" in each for each in violations(a_problem(high, low), result))
    assert any("fits without any" in each for each in violations(a_problem(high, low, preempt=True), result))


def a_move(to: str, **consolidate: Any) -> list[str]:
    """Eight GPUs are wanted on b0, where two are held by a pod of `low`."""
    low = a_gang(pods(count=1), name="low", preferred="rack", running=[{"pods": "p", "node": "b0"}])
    problem = a_problem(a_gang(pods(count=1, gpus=8)), low, consolidate={"maxMoves": 1, **consolidate})
    move = {"gang": "low", "pods": "p", "from": "b0", "to": to}
    own = domain("", "rack", "a", "r0") if to.startswith("a") else domain("", "rack", "b", "r0")
    stays = an_answer(name="low", domains=[own] if to != "x0" else [], score=1.0 if to != "x0" else 1 / 3)
    return violations(problem, a_result(an_answer(("p", "b0"), waits=True, moves=[move]), stays))


def test_a_move_that_harms_nobody_is_lawful() -> None:
    assert a_move("a0") == []


def test_an_unlawful_move_is_caught() -> None:
    assert any("loses" in each for each in a_move("x0"))
    assert a_move("x0", maxLoss=0.7) == []
    assert any("may not use" in each for each in a_move("a3"))
    assert any("moves, allowed" in each for each in a_move("a0", maxMoves=0))
    assert any("for 8" in each for each in a_move("b0"))


def test_pods_that_would_still_fit_are_missed_extras() -> None:
    problem, answer = a_problem(a_gang(pods(min=1, count=3), required="rack")), an_answer(*TWO, domains=IN_RACK)
    assert violations(problem, a_result(answer)) == []
    assert any("1 more of p on node a1" in each for each in missed_extras(problem, a_result(answer)))
    full = an_answer(*TWO, ("p", "a1"), domains=IN_RACK)
    assert missed_extras(problem, a_result(full)) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_answers_of_the_exact_judge_pass_and_spoilt_ones_do_not(profile: Any) -> None:
    for seed in range(500, 525):
        problem = instance(seed, profile)
        problem["options"] = {"extras": "skip"}
        result = answered(problem)
        assert violations(problem, result) == [], seed
        if len(result["gangs"]) == 1 and result["gangs"][0]["placements"]:
            spoilt = deepcopy(result)
            spoilt["gangs"][0]["placements"].pop()
            assert violations(problem, spoilt), seed


@pytest.mark.parametrize(
    ("resource", "quantity", "up", "units"),
    [
        ("cpu", "128", False, 128_000),
        ("cpu", "100u", True, 1),
        ("cpu", "100u", False, 0),
        ("cpu", 0.5, True, 500),
        ("memory", "1Ti", False, 2**40),
        ("memory", "1.5G", False, 1_500_000_000),
        ("memory", "12e3", True, 12_000),
        ("memory", "1500m", True, 2),
        ("gpu", 8, False, 8),
    ],
)
def test_quantities_are_read_in_base_units(resource: str, quantity: Any, up: bool, units: int) -> None:
    assert base_units(resource, quantity, up=up) == units
