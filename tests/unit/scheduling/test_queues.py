"""Who may schedule, how much, and who comes first."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.api.kinds.queue import Queue
from spinney.core.scheduling.queues.tree import Queues, Refusal, Shares, Usage
from unit.scheduling.reading_kit import RESOURCES, queue


def gpus(count: int, cpu_m: int = 0, memory: int = 0) -> tuple[int, ...]:
    return (cpu_m, memory, 1, count)


def refused(refusal: Refusal | None) -> tuple[str, str]:
    assert refusal is not None
    return refusal.reason, refusal.message


def test_a_leaf_with_room_has_nothing_against_a_gang() -> None:
    queues = Queues(RESOURCES, [queue("root"), queue("team", "root", gpu={"limit": 8})])
    assert queues.verdict("team", gpus(8), preemptible=True) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone", "Queue 'gone' does not exist"),
        ("root", "Queue 'root' is not a leaf queue: it is the parent of a, b, c, ..."),
        ("orphan", "Queue 'nowhere' does not exist: it is the parent of queue 'lost'"),
        ("x", "Queue 'x' has no root: the parents of 'y' are a circle"),
    ],
)
def test_k16_only_leaves_of_a_whole_tree_schedule(name: str, text: str) -> None:
    children = [queue(child, "root") for child in "abcd"]
    strange = [queue("lost", "nowhere"), queue("orphan", "lost")]
    circle = [queue("y", "z"), queue("z", "y"), queue("x", "y")]
    queues = Queues(RESOURCES, [queue("root"), *children, *strange, *circle])
    assert refused(queues.verdict(name, gpus(1), preemptible=True)) == ("QueueDoesNotExist", text)


def test_a_limit_holds_with_everything_that_is_in_use() -> None:
    queues = Queues(RESOURCES, [queue("root"), queue("team", "root", gpu={"limit": 8})])
    queues.allocate("team", gpus(6), preemptible=True)
    assert queues.verdict("team", gpus(2), preemptible=True) is None
    assert refused(queues.verdict("team", gpus(3), preemptible=True)) == (
        "OverLimit",
        "team quota has reached the allowable limit of GPUs. Limit is 8 GPUs, in use are 6 GPUs, the workload asks for "
        "3 GPUs",
    )


def test_a_limit_of_an_ancestor_counts_all_queues_below_it() -> None:
    tree = [queue("root", gpu={"limit": 8}), queue("dept", "root"), queue("a", "dept"), queue("b", "dept")]
    queues = Queues(RESOURCES, tree)
    queues.allocate("a", gpus(6), preemptible=True)
    refusal = queues.verdict("b", gpus(4), preemptible=True)
    assert refused(refusal)[0] == "OverLimit"
    assert refusal is not None and refusal.details is not None
    details = refusal.details
    assert details.name == "root"
    assert details.queue_allocated_resources["nvidia.com/gpu"] == "6"
    assert details.queue_requested_resources["nvidia.com/gpu"] == "10"
    assert details.queue_resource_limits == {"nvidia.com/gpu": "8"}
    assert details.pod_group_requested_resources["nvidia.com/gpu"] == "4"
    assert details.pod_group_requested_non_preemptible_resources == {}


def test_what_is_not_preemptible_stays_inside_the_quota() -> None:
    queues = Queues(RESOURCES, [queue("team", gpu={"quota": 4})])
    queues.allocate("team", gpus(8), preemptible=True)
    queues.allocate("team", gpus(2), preemptible=False)
    assert queues.verdict("team", gpus(3), preemptible=True) is None
    assert queues.verdict("team", gpus(2), preemptible=False) is None
    refusal = queues.verdict("team", gpus(3), preemptible=False)
    assert refused(refusal) == (
        "NonPreemptibleOverQuota",
        "Non-preemptible workload is over quota. It asks for 3 GPUs, the quota of team is 4 GPUs, and non-preemptible "
        "workloads hold 2 GPUs",
    )
    assert refusal is not None and refusal.details is not None
    assert refusal.details.pod_group_requested_non_preemptible_resources["nvidia.com/gpu"] == "3"


def test_cpu_is_in_millicores_and_memory_in_megabytes() -> None:
    queues = Queues(RESOURCES, [queue("team", cpu={"limit": 1500}, memory={"limit": 2000})])
    assert queues.verdict("team", gpus(0, cpu_m=1500, memory=2 * 10**9), preemptible=True) is None
    cpu = queues.verdict("team", gpus(0, cpu_m=1501), preemptible=True)
    assert "limit of CPU cores. Limit is 1.5 cores, in use are 0 cores, the workload asks for 1.501" in refused(cpu)[1]
    memory = queues.verdict("team", gpus(0, memory=2 * 10**9 + 1), preemptible=True)
    assert "limit of memory. Limit is 2 GB" in refused(memory)[1]


def test_a_limit_of_zero_refuses_only_who_asks_for_the_resource() -> None:
    queues = Queues(RESOURCES, [queue("cpu-only", gpu={"quota": 0, "limit": 0})])
    assert queues.verdict("cpu-only", gpus(0, cpu_m=1000), preemptible=False) is None
    assert refused(queues.verdict("cpu-only", gpus(1), preemptible=True))[0] == "OverLimit"


def test_a_queue_that_states_no_resources_has_no_bounds() -> None:
    bare = msgspec.convert({"metadata": {"name": "bare"}, "spec": {}}, Queue)
    assert Queues(RESOURCES, [bare]).verdict("bare", gpus(10**6), preemptible=False) is None


def test_gpus_of_every_vendor_count() -> None:
    queues = Queues(("amd.com/gpu", "nvidia.com/gpu"), [queue("team", gpu={"limit": 3})])
    assert refused(queues.verdict("team", (2, 2), preemptible=True))[0] == "OverLimit"


def test_a_gang_without_amounts_is_never_too_much() -> None:
    queues = Queues(RESOURCES, [queue("team", gpu={"limit": 0})])
    assert queues.verdict("team", (), preemptible=True) is None


def test_usage_is_kept_for_a_queue_that_comes_back() -> None:
    queues = Queues(RESOURCES, [queue("root", gpu={"limit": 4}), queue("team", "root")])
    queues.allocate("team", gpus(3), preemptible=True)
    queues.remove("team")
    queues.remove("team")
    assert queues.usage("root") == Usage()
    queues.put(queue("team", "root"))
    assert refused(queues.verdict("team", gpus(2), preemptible=True))[0] == "OverLimit"


def test_what_is_released_is_free_again() -> None:
    queues = Queues(RESOURCES, [queue("root", gpu={"limit": 4}), queue("team", "root")])
    queues.allocate("team", gpus(2), preemptible=False)
    queues.allocate("team", gpus(2), preemptible=True)
    queues.release("team", gpus(2), preemptible=False)
    assert queues.usage("root") == Usage(Shares(2000))
    queues.release("team", gpus(2), preemptible=True)
    assert queues.usage("root") == queues.usage("team") == Usage()


names = st.sampled_from(["a", "b", "c", "d"])
steps = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(["", "a", "b", "c", "d"])),
    st.tuples(st.just("remove"), names, st.just("")),
    st.tuples(st.just("allocate"), names, st.booleans()),
    st.tuples(st.just("release"), names, st.booleans()),
)


@given(st.lists(steps, max_size=40))
def test_usage_counted_as_it_changes_equals_usage_counted_anew(history: list[tuple[str, str, object]]) -> None:
    queues = Queues(RESOURCES)
    parents: dict[str, str] = {}
    held: list[tuple[str, bool]] = []
    for verb, name, what in history:
        if verb == "put":
            queues.put(queue(name, str(what)))
            parents[name] = str(what)
        elif verb == "remove":
            queues.remove(name)
            parents.pop(name, None)
        elif verb == "allocate":
            queues.allocate(name, gpus(1, cpu_m=5, memory=7), bool(what))
            held.append((name, bool(what)))
        elif (name, bool(what)) in held:
            queues.release(name, gpus(1, cpu_m=5, memory=7), bool(what))
            held.remove((name, bool(what)))
    fresh = Queues(RESOURCES, [queue(name, parent) for name, parent in parents.items()])
    for name, preemptible in held:
        fresh.allocate(name, gpus(1, cpu_m=5, memory=7), preemptible)
    for name in parents:
        assert queues.usage(name) == fresh.usage(name)
        assert queues.verdict(name, gpus(1), True) == fresh.verdict(name, gpus(1), True)
        below = [each for each, _ in held if name in _way(each, parents)]
        assert queues.usage(name).allocated == Shares(1000 * len(below), 5 * len(below), 7 * len(below))


def _way(name: str, parents: dict[str, str]) -> list[str]:
    way: list[str] = []
    while name in parents and name not in way:
        way.append(name)
        name = parents[name]
    return way
