"""Zones in the exchange format: read, written, refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from spinney.api.placement.problem import Running, Topology, Zone
from spinney.api.placement.reading import Unreadable, read_problem
from spinney.api.placement.result import Decision, Move, Placement, Result, Victim
from spinney.api.placement.writing import write_result
from unit.api.placement.problem_writing import write_problem

PROBLEM: dict[str, Any] = {
    "version": 1,
    "resources": ["cpu", "gpu"],
    "topologies": [{"name": "t", "levels": ["host", "numa"], "zones": True}],
    "nodes": [
        {
            "name": "n0",
            "labels": {"host": "n0"},
            "allocatable": {"cpu": "8", "gpu": "4"},
            "zones": [
                {"name": "z0", "allocatable": {"gpu": "2"}, "used": {"gpu": "1"}, "releasing": {"gpu": "1"}},
                {"name": "z1", "allocatable": {"gpu": "2"}},
            ],
            "zonePolicy": "single-numa-node",
        }
    ],
    "gangs": [{"name": "g", "pods": [{"name": "w"}], "running": [{"pods": "w", "node": "n0", "zone": "z1"}]}],
}


def test_k12_zones_are_read_and_written_back() -> None:
    read = read_problem(PROBLEM)
    [node] = read.nodes
    assert read.topologies == (Topology("t", ("host", "numa"), zones=True),)
    assert node.zones == (Zone("z0", (0, 2), (0, 1), (0, 1)), Zone("z1", (0, 2), (0, 0), (0, 0)))
    assert node.is_divided
    assert read.gangs[0].running == (Running("w", "n0", "z1"),)
    assert read_problem(write_problem(read)) == read


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("nodes", 0, "zonePolicy"), "numa", "zonePolicy"),
        (("nodes", 0, "zones", 1, "name"), "z0", "zones"),
        (("nodes", 0, "zones", 0, "releasing", "gpu"), "2", "no more than is used"),
        (("gangs", 0, "running", 0, "zone"), "z9", "the name of a zone of node n0"),
    ],
)
def test_k12_what_zones_cannot_be_is_refused(path: tuple[str | int, ...], value: str, complaint: str) -> None:
    document: Any = deepcopy(PROBLEM)
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(Unreadable, match=complaint):
        read_problem(document)


def test_k12_a_result_names_zones_where_there_are_any() -> None:
    decision = Decision(
        "g",
        "placed",
        placements=(Placement("w", 0, "n0", "z1"), Placement("w", 1, "n1")),
        victims=(Victim("low", "w", "n0", "z0"),),
        moves=(Move("low", "w", "n0", "n1", "z0"),),
    )
    [written] = write_result(Result((decision,)))["gangs"]
    assert written["placements"] == [
        {"pods": "w", "index": 0, "node": "n0", "zone": "z1"},
        {"pods": "w", "index": 1, "node": "n1"},
    ]
    assert written["victims"] == [{"gang": "low", "pods": "w", "node": "n0", "zone": "z0"}]
    assert written["moves"] == [{"gang": "low", "pods": "w", "from": "n0", "to": "n1", "fromZone": "z0"}]
