"""Documents that somebody damaged: read or refused with a field, never anything else."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.api.placement.problem import Problem
from spinney.api.placement.reading import Unreadable, decode_text, read_problem

WHOLE: dict[str, Any] = {
    "version": 1,
    "resources": ["cpu", "memory", "pods"],
    "topologies": [{"name": "t", "levels": ["zone", "rack"]}],
    "nodes": [
        {
            "name": "n0",
            "labels": {"zone": "a"},
            "allocatable": {"cpu": "8", "memory": "1Gi", "pods": 10},
            "used": {"cpu": "2"},
            "releasing": {"cpu": 1},
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "unschedulable": False,
            "ready": True,
            "hostPorts": [22],
        }
    ],
    "gangs": [
        {
            "name": "ns/g",
            "priority": 3,
            "preemptible": True,
            "topology": "t",
            "required": "zone",
            "preferred": "rack",
            "minGroups": 1,
            "tiedTo": {"gang": "x", "level": "zone"},
            "groups": [
                {
                    "name": "a",
                    "minGroups": 1,
                    "pods": [
                        {
                            "name": "w",
                            "count": 2,
                            "min": 1,
                            "request": {"cpu": "500m"},
                            "nodeSelector": {"zone": "a"},
                            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
                            "affinity": {
                                "nodeAffinity": {
                                    "requiredDuringSchedulingIgnoredDuringExecution": {
                                        "nodeSelectorTerms": [
                                            {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}
                                        ]
                                    },
                                    "preferredDuringSchedulingIgnoredDuringExecution": [
                                        {"weight": 1, "preference": {"matchFields": []}}
                                    ],
                                },
                                "podAffinity": {},
                            },
                            "hostPorts": [80],
                            "antiAffinity": ["zone"],
                        }
                    ],
                }
            ],
            "pods": [],
            "running": [{"pods": "a/w", "node": "n0"}],
        }
    ],
    "options": {"strategy": "spread", "budget": 9, "preempt": True, "consolidate": {"maxMoves": 1, "maxLoss": 0.5}},
}


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        found += _places(child, (*path, step))
    return found


PLACES = _places(WHOLE)[1:]
ODD = st.sampled_from(
    [None, True, False, 0, -1, 1, 1.5, 10**5000, -(10**30), float("nan"), float("-inf"), "", "x", "1", "-1", "1e999",
     "9" * 5000, "\ud800", "\0", "a/b", [], {}, [[]], [None], {"": None}, {1: 2}, {None: 1}, (), b"x", object(), {1, 2}]
)  # fmt: skip
ACTIONS = st.sampled_from(["replace", "delete", "rename", "repeat", "move"])


def _damage(document: Any, path: tuple[str | int, ...], action: str, odd: Any) -> None:
    part = document
    for step in path[:-1]:
        try:
            part = part[step]
        except (LookupError, TypeError):
            return
    last = path[-1]
    if not isinstance(part, (dict, list)) or (
        isinstance(part, list) and not (isinstance(last, int) and last < len(part))
    ):
        return
    if isinstance(part, dict) and last not in part:
        return
    match action:
        case "delete":
            del part[last]  # type: ignore[arg-type]
        case "rename" if isinstance(part, dict):
            part[odd if isinstance(odd, str) else "other"] = part.pop(last)
        case "repeat" if isinstance(part, list):
            part.append(part[last])  # type: ignore[index]
        case "move":
            document[str(last)] = part[last]  # type: ignore[index]
        case _:
            part[last] = odd  # type: ignore[index]


@given(st.lists(st.tuples(st.sampled_from(PLACES), ACTIONS, ODD), min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_a_damaged_document_is_read_or_refused_with_its_field(damages: list[tuple[Any, str, Any]]) -> None:
    document = copy.deepcopy(WHOLE)
    for path, action, odd in damages:
        _damage(document, path, action, odd)
    try:
        assert isinstance(read_problem(document), Problem)
    except Unreadable as error:
        assert str(error).encode()
        assert "\n" not in str(error)


def test_the_undamaged_document_is_read() -> None:
    assert isinstance(read_problem(WHOLE), Problem)


_SPLICES = st.tuples(st.integers(0, 3000), st.integers(0, 20), st.binary(max_size=8))


@given(st.lists(_SPLICES, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_a_damaged_text_is_read_or_refused(splices: list[tuple[int, int, bytes]]) -> None:
    body = msgspec.json.encode(WHOLE)
    for start, length, put in splices:
        body = body[:start] + put + body[start + length :]
    try:
        assert isinstance(read_problem(decode_text(body)), Problem)
    except Unreadable as error:
        assert "\n" not in str(error)
