"""R8: twenty thousand requests from a seed, each answered; and topology verdicts against an oracle that is slow."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from spinney.api.domains import DOMAINS
from spinney.core.admission.operator_admission import OperatorAdmission
from unit.admission.admission_kit import OFF, ON, Json, View, clique, group, pcs, request, topology, view

REQUESTS = 20_000
VERDICTS = 3_000
LEVELS = {"grove-topology": ("zone", "block", "rack", "host"), "h100": ("zone", "rack", "host")}
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    1.5,
    "",
    "w",
    "x y",
    [],
    {},
    [None],
    [{}],
    {"name": "w"},
    ["w", "w"],
    2**70,
)


def some_constraint(dice: random.Random) -> Json | None:
    if dice.random() < 0.4:
        return None
    if dice.random() < 0.7:
        return {"packDomain": dice.choice(DOMAINS[1:6])}
    return {"pack": {dice.choice(("required", "preferred")): dice.choice(DOMAINS[1:6])}}


def some_workload(dice: random.Random) -> Json:
    names = ["a", "b", "c"][: dice.randint(1, 3)]
    members = dice.sample(names, dice.randint(0, len(names)))
    more: dict[str, Any] = {"clusterTopologyName": dice.choice(("h100", "nowhere"))} if dice.random() < 0.4 else {}
    return pcs(
        *(clique(name, some_constraint(dice), replicas=dice.randint(1, 3)) for name in names),
        constraint=some_constraint(dice),
        groups=(group("g", *members, constraint=some_constraint(dice)),) if members else (),
        **more,
    )


def bend(obj: Json, dice: random.Random) -> None:
    """Replace, remove or double something at a place that is drawn."""
    here: Any = obj
    for _ in range(dice.randint(0, 7)):
        inner = [one for one in (here.values() if isinstance(here, dict) else here) if isinstance(one, dict | list)]
        if not inner:
            break
        here = dice.choice(inner)
    if isinstance(here, list):
        here.insert(dice.randint(0, len(here)), dice.choice(here) if here and dice.random() < 0.5 else dice.choice(ODD))
    elif here:
        key = dice.choice(list(here))
        if dice.random() < 0.3:
            del here[key]
        else:
            here[key] = dice.choice(ODD)


def seen() -> View:
    return view(*(topology(*levels, name=name) for name, levels in LEVELS.items()))


def verdict_of(obj: Any, old: Any, kind: str, rules: OperatorAdmission, lookup: View) -> Any:
    asked = request(obj, old, kind=kind)
    changed = rules.mutate(asked, lookup).object
    return rules.validate(asked if changed is None else replace(asked, object=changed), lookup)


def test_r8_every_request_is_answered() -> None:
    dice, lookup = random.Random(8), seen()
    on, off = OperatorAdmission(ON), OperatorAdmission(OFF)
    allowed = 0
    for index in range(REQUESTS):
        kind = "ClusterTopology" if index % 5 == 0 else "PodCliqueSet"
        obj = topology(*dice.sample(DOMAINS, 3)) if kind == "ClusterTopology" else some_workload(dice)
        old = None if dice.random() < 0.5 else some_workload(dice)
        for _ in range(dice.randint(0, 3)):
            bend(obj, dice)
        verdict = verdict_of(obj, old, kind, on if index % 3 else off, lookup)
        assert verdict.allowed or verdict.errors or verdict.message
        assert all(str(error) for error in verdict.errors)
        allowed += verdict.allowed
    assert 0 < allowed < REQUESTS


def oracle(workload: Json) -> bool:
    """Whether the topology of a new set is in order, told pair by pair from the JSON alone."""
    template = workload["spec"]["template"]
    groups = template.get("podCliqueScalingGroups", [])

    def half(part: Json, word: str) -> str | None:
        constraint = part.get("topologyConstraint") or {}
        return (constraint.get("packDomain") if word == "required" else None) or constraint.get("pack", {}).get(word)

    parts = [template, *groups, *template["cliques"]]
    constrained = [part for part in parts if "topologyConstraint" in part]
    name = template.get("clusterTopologyName")
    if not constrained:
        return name is None
    levels = LEVELS.get(name or "grove-topology")
    if levels is None:
        return False
    pairs = [(template, part) for part in parts[1:]]
    pairs += [(one, part) for one in groups for part in template["cliques"] if part["name"] in one["cliqueNames"]]
    for word in ("required", "preferred"):
        if any(half(part, word) not in (None, *levels) for part in constrained):
            return False
        for above, below in pairs:
            outer, inner = half(above, word), half(below, word)
            if outer and inner and DOMAINS.index(outer) > DOMAINS.index(inner):
                return False
    return True


def test_r8_p2_p3_p6_topology_verdicts_are_those_of_the_oracle() -> None:
    dice, lookup, rules = random.Random(9), seen(), OperatorAdmission(ON)
    answers = []
    for _ in range(VERDICTS):
        workload = some_workload(dice)
        expected = oracle(workload)
        verdict = verdict_of(workload, None, "PodCliqueSet", rules, lookup)
        assert verdict.allowed == expected, (workload, verdict.errors)
        answers.append(expected)
    assert VERDICTS // 10 < sum(answers) < VERDICTS - VERDICTS // 10


def test_r12_a_hostile_set_is_answered_with_a_bounded_text() -> None:
    """As many cliques, groups and unknown members as the schema lets through."""
    cliques = [clique(f"c{index}", replicas=1, startsAfter=["x"] * 512) for index in range(256)]
    groups = tuple(group(f"g{index}", *(f"n{member}" for member in range(512))) for index in range(128))
    hostile = pcs(*cliques, groups=groups, cliqueStartupType="CliqueStartupTypeExplicit")
    verdict = verdict_of(hostile, None, "PodCliqueSet", OperatorAdmission(ON), seen())
    assert not verdict_of(
        hostile, hostile | {"spec": {**hostile["spec"], "replicas": 2}}, "", OperatorAdmission(ON), seen()
    ).allowed
    assert len(verdict.errors) == 201
    assert "too many errors" in str(verdict.errors[-1])
    assert sum(len(str(error)) for error in verdict.errors) < 100_000
