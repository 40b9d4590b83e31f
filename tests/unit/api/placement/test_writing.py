"""Writing: the result as the format shows it, and problems that read back as they were."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.api.placement.problem import (
    Consolidate,
    Gang,
    Group,
    Node,
    NodeFilter,
    NodeTerm,
    Options,
    PodSet,
    PreferredTerm,
    Problem,
    Running,
    Taint,
    Term,
    Tie,
    Toleration,
    Topology,
)
from spinney.api.placement.reading import decode_text, read_problem
from spinney.api.placement.result import (
    Blocked,
    Decision,
    Domain,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    Move,
    Placement,
    Result,
    Shortfall,
    Victim,
)
from spinney.api.placement.writing import write_result
from unit.api.placement.problem_writing import write_problem

PLACED = Decision(
    name="ns/gang-0",
    outcome="placed",
    score=1,
    placements=(Placement("prefill-0/leader", 0, "n3"),),
    domains=(Domain("prefill-0", "example.com/block", ("a", "b0")),),
)


def test_a_placed_gang_is_written_as_the_format_shows_it() -> None:
    written = json.dumps(write_result(Result((PLACED,))))
    assert written == json.dumps(
        {
            "version": 1,
            "gangs": [
                {
                    "name": "ns/gang-0",
                    "outcome": "placed",
                    "waits": False,
                    "proved": True,
                    "score": 1.0,
                    "placements": [{"pods": "prefill-0/leader", "index": 0, "node": "n3"}],
                    "domains": [{"group": "prefill-0", "level": "example.com/block", "path": ["a", "b0"]}],
                    "victims": [],
                    "moves": [],
                    "explanation": {},
                }
            ],
        }
    )


def test_victims_and_moves_are_written_pod_by_pod() -> None:
    moved = msgspec.structs.replace(
        PLACED, waits=True, victims=(Victim("low", "w", "n1"),), moves=(Move("other", "w", "n2", "n4"),)
    )
    written = write_result(Result((moved,)))["gangs"][0]
    assert written["victims"] == [{"gang": "low", "pods": "w", "node": "n1"}]
    assert written["moves"] == [{"gang": "other", "pods": "w", "from": "n2", "to": "n4"}]
    assert written["waits"] is True


def test_an_explanation_is_written_with_all_its_parts() -> None:
    explanation = Explanation(
        reason="no rack holds it",
        group="",
        level="rack",
        considered=4,
        best=(Shortfall(("a", "r0"), 5, 8, {"nvidia.com/gpu": 24, "cpu": 1500, "memory": 2**30}),),
        blocked=Blocked({"taint": 2, "not ready": 1}, {"ns/b": 3, "ns/a": 1}),
        fits_if=(FitsAtLevel(None), FitsWithCount(5), FitsWithVictims((Victim("low", "w", "n1"),))),
    )
    written = write_result(Result((Decision("g", "infeasible", explanation=explanation),)))["gangs"][0]
    assert written["score"] is None
    assert json.dumps(written["explanation"]) == json.dumps(
        {
            "reason": "no rack holds it",
            "group": "",
            "level": "rack",
            "considered": 4,
            "best": [
                {
                    "path": ["a", "r0"],
                    "holds": 5,
                    "of": 8,
                    "short": {"cpu": "1500m", "memory": 2**30, "nvidia.com/gpu": 24},
                }
            ],
            "blocked": {"not ready": 1, "taint": 2, "occupied": {"ns/a": 1, "ns/b": 3}},
            "fitsIf": [{"level": None}, {"count": 5}, {"victims": [{"gang": "low", "pods": "w", "node": "n1"}]}],
        }
    )


def test_an_explanation_that_is_only_a_reason_has_empty_parts() -> None:
    written = write_result(Result((Decision("g", "invalid", explanation=Explanation("unknown level x")),)))
    assert written["gangs"][0]["explanation"] == {
        "reason": "unknown level x",
        "group": None,
        "level": None,
        "considered": None,
        "best": [],
        "blocked": {},
        "fitsIf": [],
    }


RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
_most = st.integers(0, 2**63 - 1)
_names = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6)
_texts = st.text(st.characters(codec="utf-8"), max_size=6)
_amounts = st.tuples(_most, _most, _most, _most)
_levels = st.none() | st.sampled_from(["zone", "rack", "host"])
_ports = st.frozensets(st.integers(1, 65535), max_size=3)
_effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
_values = st.lists(_texts, min_size=1, max_size=3).map(tuple)
_label_terms = st.one_of(
    st.builds(Term, _texts, st.sampled_from(["In", "NotIn"]), _values),
    st.builds(Term, _texts, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Term, _texts, st.sampled_from(["Gt", "Lt"]), st.integers(-9, 9).map(lambda number: (str(number),))),
)
_field_terms = st.builds(Term, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), _names.map(lambda n: (n,)))


def _tuples(one: st.SearchStrategy[Any], most: int = 3, least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(one, max_size=most, min_size=least).map(tuple)


_node_terms = st.builds(NodeTerm, _tuples(_label_terms), _tuples(_field_terms, 2))
_tolerations = st.one_of(
    st.builds(Toleration, _names, st.just("Equal"), _texts, st.just("") | _effects),
    st.builds(Toleration, _texts, st.just("Exists"), st.just(""), st.just("") | _effects),
)
_filters = st.builds(
    NodeFilter,
    st.dictionaries(_texts, _texts, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    st.none() | _tuples(_node_terms, 2),
    _tuples(st.builds(PreferredTerm, st.integers(1, 100), _node_terms), 2),
    _tuples(_tolerations, 2),
)
_unsupported = st.sampled_from(
    [
        "",
        "affinity.podAffinity can not be honoured",
        "affinity.podAntiAffinity can not be honoured",
        "affinity.podAffinity and affinity.podAntiAffinity can not be honoured",
    ]
)
_pod_sets = st.builds(
    PodSet,
    name=_names,
    request=_amounts.map(lambda amounts: (*amounts[:2], 1, amounts[3])),
    count=_most,
    min=_most,
    filter=_filters,
    host_ports=_ports,
    anti_affinity=st.lists(_texts, max_size=2, unique=True).map(tuple),
    topology=st.none() | _texts,
    required=_levels,
    preferred=_levels,
    unsupported=_unsupported,
)


def _groups(name: st.SearchStrategy[str], children: st.SearchStrategy[Any] | None) -> st.SearchStrategy[Group]:
    below = st.just(()) if children is None else _tuples(children, 2)
    return st.builds(Group, name, below, _tuples(_pod_sets, 2), st.none() | st.integers(-3, 3), _levels, _levels)


_inner = st.recursive(_groups(_names, None), lambda below: _groups(_names, below), max_leaves=3)


@st.composite
def _gangs(draw: st.DrawFn, name: str, nodes: list[str]) -> Gang:
    root = draw(_groups(st.just(""), _inner))
    sets = [one.name for one in root.pods]
    members = st.just(())
    if sets and nodes:
        members = _tuples(st.builds(Running, st.sampled_from(sets), st.sampled_from(nodes)))
    return Gang(
        name=name,
        root=root,
        priority=draw(st.integers(-(2**31), 2**31)),
        preemptible=draw(st.booleans()),
        tied_to=draw(st.none() | st.builds(Tie, _texts, _texts)),
        running=draw(members),
    )


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> Node:
    used = draw(_amounts)
    return Node(
        name=name,
        labels=draw(st.dictionaries(_texts, _texts, max_size=3)),
        allocatable=draw(_amounts),
        used=used,
        releasing=tuple(draw(st.integers(0, most)) for most in used),
        taints=draw(_tuples(st.builds(Taint, _texts, _texts, _effects), 2)),
        unschedulable=draw(st.booleans()),
        ready=draw(st.booleans()),
        host_ports=draw(_ports),
    )


@st.composite
def _problems(draw: st.DrawFn) -> Problem:
    nodes = draw(st.lists(_names, max_size=3, unique=True))
    gangs = draw(st.lists(_texts.filter(bool), max_size=2, unique=True))
    topologies = draw(st.lists(_names, max_size=2, unique=True))
    return Problem(
        resources=RESOURCES,
        topologies=tuple(
            Topology(name, draw(st.lists(_names, max_size=3, unique=True).map(tuple))) for name in topologies
        ),
        nodes=tuple(draw(_nodes(name)) for name in nodes),
        gangs=tuple(draw(_gangs(name, nodes)) for name in gangs),
        options=draw(
            st.builds(
                Options,
                st.sampled_from(["binpack", "spread"]),
                _most,
                st.booleans(),
                st.sampled_from(["place", "skip"]),
                st.none() | st.builds(Consolidate, _most, st.floats(0, 1)),
            )
        ),
    )


@given(_problems())
@settings(max_examples=40, deadline=None)
def test_a_problem_reads_back_as_it_was_written(problem: Problem) -> None:
    document = write_problem(problem)
    assert read_problem(document) == problem
    text = msgspec.json.encode(document)
    again = read_problem(decode_text(text))
    assert again == problem
    assert msgspec.json.encode(write_problem(again)) == text
