"""The record of a plan."""

from __future__ import annotations

import json
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.core.scheduling.plan import Assignment, Plan, PlanError, decode, encode

KIB = 1024
names = st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=20)
uids = st.one_of(st.uuids().map(str), names)
assignments = st.builds(
    Assignment,
    uid=uids,
    node=names,
    rank=st.integers(0, 10_000),
    segment=st.none() | st.integers(0, 1000),
    zone=st.sampled_from(["", "node-0", "node-1"]),
)
plans = st.builds(
    Plan,
    epoch=st.integers(0, 2**31 - 1),
    state=st.sampled_from(["bind", "wait"]),
    assignments=st.lists(assignments, max_size=30, unique_by=lambda assignment: assignment.uid).map(tuple),
    domain=st.lists(st.text(max_size=10), max_size=4).map(tuple),
    score=st.floats(0, 1),
    victims=st.lists(uids, max_size=5).map(tuple),
)


@given(plans)
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    assert decode(encode(plan)) == plan


def big(node: str, per_node: int = 1) -> Plan:
    assignments = [
        Assignment(str(uuid.UUID(int=i * 7919**9)), node.format(i // per_node), i, i // 8) for i in range(1000)
    ]
    return Plan(
        7,
        "bind",
        tuple(assignments),
        ("zone-a", "block-3"),
        0.75,
        tuple(assignment.uid for assignment in assignments[:100]),
    )


@pytest.mark.parametrize(
    "node", ["ip-10-0-{}.us-west-2.compute.internal", "gke-training-cluster-a3-mega-pool-4f9e{:04x}-wxyz", "n{}"]
)
def test_a_thousand_pods_stay_below_64_kib(node: str) -> None:
    text = encode(big(node))
    assert decode(text) == big(node)
    assert len(text) < 32 * KIB


def test_a_thousand_pods_on_nodes_named_like_nothing_else_stay_below_64_kib() -> None:
    assignments = [
        Assignment(str(uuid.UUID(int=i * 7919**9)), str(uuid.UUID(int=i * 104729**7)), i) for i in range(1000)
    ]
    assert len(encode(Plan(7, "bind", tuple(assignments)))) < 64 * KIB


def test_a_small_plan_can_be_read_by_people() -> None:
    plan = Plan(3, "wait", (Assignment("a", "n-1", 0), Assignment("b", "n-1", 1), Assignment("c", "n-2", 2)), ("z",))
    assert json.loads(encode(plan)) == {
        "v": 1,
        "epoch": 3,
        "state": "wait",
        "uids": ["a", "b", "c"],
        "prefix": "n-",
        "names": ["1", "2"],
        "node": "0*2,1",
        "rank": "0-2",
        "domain": ["z"],
    }


GOOD = json.loads(encode(Plan(1, "bind", (Assignment("a", "n1", 0), Assignment("b", "n2", 1)))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "bind",
        '{"v":1}',
        *(
            json.dumps({**GOOD, **change})
            for change in (
                {"v": 2},
                {"v": "1"},
                {"v": True},
                {"state": "done"},
                {"uids": "AAAA"},
                {"uids": "!!"},
                {"uids": ["a", "a"]},
                {"node": "0,9"},
                {"node": "0"},
                {"node": "0-999999999"},
                {"node": "0*999999999"},
                {"node": "1-0"},
                {"node": "-1,0"},
                {"rank": "x"},
                {"epoch": "1"},
                {"zone": "0,0"},
                {"unknown": 1},
            )
        ),
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        decode(text)


@given(st.text(max_size=200))
def test_no_text_does_anything_but_decode_or_be_refused(text: str) -> None:
    try:
        decode(text)
    except PlanError:
        return
