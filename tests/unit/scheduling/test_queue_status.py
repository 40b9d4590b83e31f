"""What queues say of the pods in them."""

from __future__ import annotations

import msgspec

from spinney.api.kinds.queue import QueueStatus
from spinney.core.scheduling.queues.status import EMPTY, Tally, queue_status_changes, resource_usage, statuses, tally
from spinney.core.scheduling.queues.tree import Shares
from unit.scheduling.reading_kit import member, queue

GPU = "nvidia.com/gpu"
USED = Tally(Shares(3000, 500, 2**30), Shares(2000), Shares(1000))


def said(status: dict[str, object]) -> QueueStatus:
    return msgspec.convert(status, QueueStatus)


def test_pods_ask_whether_they_have_a_node_or_not_and_hold_only_with_one() -> None:
    pods = [member("a", node="n1", gpus=2), member("b", gpus=1), member("c", gpus=1)]
    assert tally(resource_usage(pods), preemptible=True) == Tally(Shares(4000), Shares(2000))


def test_what_nobody_may_preempt_is_counted_for_itself() -> None:
    held = Shares(2000)
    assert tally(resource_usage([member("a", node="n1", gpus=2)]), preemptible=False) == Tally(held, held, held)


def test_pods_that_are_over_ask_for_nothing() -> None:
    over = [member(name, node="n1", status={"phase": name}) for name in ("Succeeded", "Failed")]
    assert tally(resource_usage(over), preemptible=False) == EMPTY


def test_parents_say_what_all_below_them_ask_for() -> None:
    tree = [queue("root"), queue("team", "root"), queue("a", "team"), queue("b", "team")]
    found = statuses(tree, {"a": USED, "b": USED}, {})
    assert {name: status["requested"][GPU] for name, status in found.items()} == {
        "root": "6",
        "team": "6",
        "a": "3",
        "b": "3",
    }
    assert found["a"]["requested"] == {GPU: "3", "cpu": "500m", "memory": "1Gi"}
    assert (found["team"]["allocated"][GPU], found["team"]["allocatedNonPreemptible"][GPU]) == ("4", "2")
    assert {name: status["childQueues"] for name, status in found.items()} == {
        "root": ["team"],
        "team": ["a", "b"],
        "a": [],
        "b": [],
    }


def test_a_queue_that_is_not_there_and_a_circle_of_parents_do_no_harm() -> None:
    found = statuses([queue("a", "b"), queue("b", "a"), queue("c", "nobody")], {"a": USED, "gone": USED}, {})
    assert {name: status["requested"][GPU] for name, status in found.items()} == {"a": "3", "b": "3", "c": "0"}


def test_only_what_differs_is_written_and_nothing_is_the_same_as_zero() -> None:
    idle, busy = statuses([queue("a")], {}, {})["a"], statuses([queue("a")], {"a": USED}, {})["a"]
    assert queue_status_changes(said({}), idle) == {}
    assert queue_status_changes(said(busy), busy) == {}
    assert queue_status_changes(said(busy), idle).keys() == {"requested", "allocated", "allocatedNonPreemptible"}
    assert queue_status_changes(said({**busy, "allocated": {GPU: 9}}), busy) == {"allocated": busy["allocated"]}
    assert queue_status_changes(said({"childQueues": ["old"]}), idle) == {"childQueues": []}
