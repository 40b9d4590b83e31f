"""A gang that is tied to another one goes by every member with a node, also by those no view shows there yet."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import Topology as KaiTopology
from spinney.api.placement.problem import Gang, Group, PodSet, Running, Tie
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.settings import BINPACK

GPU = "nvidia.com/gpu"
BLOCK = "example.com/block"


def node(name: str, block: str) -> Node:
    status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}}
    status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]
    return msgspec.convert({"metadata": {"name": name, "labels": {BLOCK: block}}, "status": status}, Node)


def cluster() -> Cluster:
    found = Cluster()
    levels: dict[str, Any] = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": BLOCK}]}}
    found.put_kai_topology("t", msgspec.convert(levels, KaiTopology))
    for name, block in (("n0", "b0"), ("n1", "b1"), ("n2", "b0")):
        found.put_node(name, node(name, block))
    found.settle()
    return found


def gang(name: str, there: Cluster, *nodes: str, tied_to: Tie | None = None) -> Gang:
    request = tuple(1 if each in (GPU, "pods") else 0 for each in there.inventory.resources)
    root = Group("", pods=(PodSet("p", request, 2, 1),), topology="t")
    return Gang(name, root, tied_to=tied_to, running=tuple(Running("p", each) for each in nodes))


def given(there: Cluster, uid: str, name: str) -> None:
    containers = [{"name": "main", "resources": {"requests": {GPU: "1"}}}]
    metadata = {"name": uid, "namespace": "default", "uid": uid}
    there.reserve(msgspec.convert({"metadata": metadata, "spec": {"containers": containers}}, Pod), name)


@pytest.mark.parametrize(("seat", "outcome"), [("n0", "placed"), ("n2", "placed"), ("n1", "infeasible")])
def test_g12_inv3_members_of_the_base_that_were_just_given_a_node_count(seat: str, outcome: str) -> None:
    there = cluster()
    session = PlacementSession(there, BINPACK, 1000, {"default/base": ["late"]}.get)  # type: ignore[arg-type]
    session.renew()
    session.put_gang(gang("default/base", there, "n0"))
    given(there, "late", seat)
    tied = gang("default/scaled", there, tied_to=Tie("default/base", BLOCK))
    decision = session.minimum(tied)
    assert decision.outcome == outcome
    assert {each.node for each in decision.placements} <= {"n0", "n2"}
    if outcome == "infeasible":
        assert "not in one domain" in str(decision.explanation)


def test_g12_a_base_of_which_nothing_runs_yet_ties_nobody() -> None:
    there = cluster()
    session = PlacementSession(there, BINPACK, 1000, {"default/base": ["late"]}.get)  # type: ignore[arg-type]
    session.renew()
    session.put_gang(gang("default/base", there))
    given(there, "late", "n0")
    tied = gang("default/scaled", there, tied_to=Tie("default/base", BLOCK))
    assert "not placed" in str(session.minimum(tied).explanation)


def test_g12_what_was_planned_is_forgotten_after_the_question() -> None:
    there, seats = cluster(), ["late"]
    session = PlacementSession(there, BINPACK, 1000, lambda name: seats)
    session.renew()
    session.put_gang(gang("default/base", there, "n0"))
    given(there, "late", "n1")
    tied = gang("default/scaled", there, tied_to=Tie("default/base", BLOCK))
    assert session.minimum(tied).outcome == "infeasible"
    seats.clear()
    assert session.minimum(tied).outcome == "placed"
