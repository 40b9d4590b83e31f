"""What is reported of a gang: upstream's texts to the letter, then ours."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.kinds.podgroup import PodGroupSpec
from spinney.api.placement.problem import Gang, Group, PodSet
from spinney.api.placement.reading import read_problem
from spinney.api.placement.result import Decision, Explanation, Move, Placement, Victim
from spinney.core.placement.engine import place
from spinney.core.scheduling.reporting import ClusterSummary, Report, messages, report
from spinney.core.scheduling.reporting.report import State
from unit.placement.refusal_kit import BLOCK, RACK, gang, node, nodes, pods, problem
from unit.scheduling.reporting_kit import Held, NoRoomInQueue, Read, decided, sub_groups, told, waiting_of

RACKS = {"b0/r0": [8, 8, 0], "b0/r1": [8], "b1/r2": [4]}
NOWHERE = ClusterSummary({})
POD = ("ns", "w-0")


def lines(found: Report) -> list[str]:
    return found.message.split("\n")


def reading(**more: Any) -> Read:
    asked = Gang("ns/a", Group("", pods=(PodSet("w", (1,), count=2, min=2),)))
    return Read(asked, waiting_of(asked), **more)


# Texts of fits


def test_k15_a_required_level_is_refused_with_a_line_for_each_of_the_best_domains() -> None:
    assert lines(told(nodes(RACKS), gang(required=RACK, pods=[pods("w", 3, 8)]))) == [
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a.",
        "node-group b0/r0 can allocate only 2 of 3 required pods.",
        "node-group b0/r1 can allocate only 1 of 3 required pods.",
        "node-group b1/r2 can allocate only 0 of 3 required pods.",
        "The gang needs 3 pods in one example.com/rack; the best of 3, b0/r0, holds 2, short of 8 nvidia.com/gpu.",
        "It would fit in one example.com/block or with 2 pods.",
    ]


def test_k15_a_single_domain_stands_on_the_first_line() -> None:
    there = nodes({"b0/r0": [8, 8, 0], "b0": [8]})
    assert lines(told(there, gang(required=RACK, pods=[pods("w", 3, 8)])))[0] == (
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a: "
        "node-group b0/r0 can allocate only 2 of 3 required pods."
    )


def test_k15_a_sub_group_is_named() -> None:
    asked = gang(groups=[{"name": "g", "required": RACK, "pods": [pods("w", 3, 8)]}])
    found = told(nodes(RACKS), asked, spec=sub_groups("g", "w"))
    assert lines(found)[0] == (
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a, subgroup g."
    )


def test_k15_what_a_sub_group_is_cut_into_is_told_by_the_name_of_the_sub_group() -> None:
    asked = gang(groups=[{"name": "g", "pods": [pods("segment-0", 3, 8, required=RACK)]}])
    assert ", subgroup g." in told(nodes(RACKS), asked, spec=sub_groups("g")).message


@pytest.mark.parametrize("sets", [[("w", 5)], [("v", 2), ("w", 3)]], ids=["one pod set", "two that fit alone"])
def test_k15_a_cluster_that_is_too_small_is_said_to_be(sets: list[tuple[str, int]]) -> None:
    asked = gang(required=RACK, pods=[pods(name, count, 8) for name, count in sets])
    found = told(nodes({"b0/r0": [8, 8, 8, 0, 0], "b0/r1": [8]}), asked)
    assert lines(found)[0] == (
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a: "
        "not enough resources in the cluster to allocate the job"
    )


def test_k15_running_members_and_ties_name_the_domain_that_is_too_small() -> None:
    pinned = gang(required=RACK, pods=[pods("w", 3, 8)], running=[{"pods": "w", "node": "n0"}])
    assert lines(told(nodes(RACKS), pinned))[0] == (
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a: "
        "not enough resources in b0/r0 to allocate the job"
    )
    base = gang("ns/base", pods=[pods("w", 1, 8)], running=[{"pods": "w", "node": "n0"}])
    tied = gang(tiedTo={"gang": "ns/base", "level": BLOCK}, pods=[pods("w", 3, 8)])
    assert lines(told(nodes(RACKS), base, tied))[0] == (
        "topology net, requirement example.com/block couldn't be satisfied for job ns/a: "
        "not enough resources in b0 to allocate the job"
    )


def test_k15_a_level_that_no_node_carries_is_refused_without_domains() -> None:
    assert lines(told(nodes({"": [8, 8]}), gang(required=RACK, pods=[pods("w", 2, 8)]))) == [
        "The gang needs one example.com/rack, and no node carries the label example.com/block, a broader level of "
        "topology net.",
        "It would fit without the requirement.",
        "topology net, requirement example.com/rack couldn't be satisfied for job ns/a",
    ]


def test_k15_a_gang_without_topology() -> None:
    assert lines(told(nodes({"b0/r0": [8, 4, 4]}), gang(pods=[pods("w", 3, 8)]))) == [
        "Resources were found for 1 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled "
        "due to: no nodes with enough resources were found: 3 node(s) didn't have enough resources: GPUs.",
        "w needs 3 pods; the cluster holds 1, short of 8 nvidia.com/gpu.",
        "It would fit with 1 pod.",
    ]


def test_k15_a_gang_with_sub_groups_and_no_topology() -> None:
    found = told(nodes({"b0/r0": [8, 4, 4]}), gang(pods=[pods("a", 1, 8), pods("b", 3, 8)]), spec=sub_groups("a", "b"))
    assert lines(found)[0] == (
        "Resources were found for 1 pods from all sub-groups while sub-group b requires 3 pods for gang scheduling. "
        "Additional pods cannot be scheduled in this sub-group due to: no nodes with enough resources were found: "
        "3 node(s) didn't have enough resources: GPUs."
    )


def test_k15_a_single_pod_and_nodes_of_several_reasons() -> None:
    there = [
        node("n0", "b0/r0", 4),
        node("n1", "b0/r0", 8, unschedulable=True),
        node("n2", "b0/r0", 8, ready=False),
        node("n3", "b0/r0", 8, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
    ]
    assert told(there, gang(pods=[pods("w", 1, 8)])).message.startswith(
        "Resources were not found for pod ns/w-0 due to: no nodes with enough resources were found: "
        "1 node has NotReady condition. \n"
        "1 node is unschedulable. \n"
        "1 node(s) didn't have enough resources: GPUs. \n"
        "1 node(s) kept out by untolerated taint k=v:NoSchedule.\n"
    )


@pytest.mark.parametrize(
    ("request_", "word"), [({"cpu": "65"}, "CPU cores"), ({"memory": "1Ti"}, "memory"), ({"x/y": "1"}, "x/y")]
)
def test_k15_resources_have_the_names_that_users_know(request_: dict[str, str], word: str) -> None:
    asked = {"resources": ["cpu", "memory", "pods", "nvidia.com/gpu", "x/y"]}
    document = problem(nodes({"b0/r0": [8]}), gang(pods=[{"name": "w", "count": 1, "request": request_}])) | asked
    asked_problem = read_problem(document)
    one = asked_problem.gangs[0]
    found = report(
        Read(one, waiting_of(one)),
        place(asked_problem).gangs[0],
        PodGroupSpec(),
        ClusterSummary({}, len(asked_problem.nodes)),
    )
    assert f"1 node(s) didn't have enough resources: {word}." in found.message


def test_k15_what_would_never_fit_is_told_before_what_does_not_fit_now() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    there = [node("n0", "b0/r0", 8, taints=[taint]), node("n1", "b0/r0", 0, allocatable={"cpu": "64", "pods": "110"})]
    there[1].pop("used")
    assert lines(told(there, gang(pods=[pods("w", 1, 1)]))) == [
        "w may use none of the 1 node that is large enough for a pod: "
        "1 untolerated taint nvidia.com/gpu=present:NoSchedule.",
        "Resources were not found for pod ns/w-0 due to: no nodes with enough resources were found: "
        "1 node(s) didn't have enough resources: GPUs. ",
        "1 node(s) kept out by untolerated taint nvidia.com/gpu=present:NoSchedule.",
    ]


# Mistakes


def test_k2_a_missing_topology_is_told_on_the_group_and_on_its_pods() -> None:
    found = report(reading(mistake="Requested topology nets does not exist"), None, PodGroupSpec(), NOWHERE)
    assert found.state is State.MISTAKE
    assert found.condition is not None
    assert found.condition["message"] == "Requested topology nets does not exist"
    assert found.condition["reasons"] == [
        {"reason": "InvalidPodGroup", "message": "Requested topology nets does not exist"}
    ]
    assert [one.condition for one in found.pods] == [("Unschedulable", "Requested topology nets does not exist")] * 2


def test_k2_a_topology_that_went_after_the_gang_was_read_is_told_in_the_same_words() -> None:
    seen, decision, _ = decided(nodes(RACKS), gang(topology="nets", required=RACK, pods=[pods("w", 1, 8)]))
    assert lines(report(seen, decision, PodGroupSpec(), NOWHERE))[0] == "Requested topology nets does not exist"


@pytest.mark.parametrize(
    ("asked", "subject", "kind"),
    [
        (gang(required="shelf", pods=[pods("w", 1, 8)]), "workload", "required"),
        (gang(preferred="shelf", pods=[pods("w", 1, 8)]), "workload", "preferred"),
        (gang(pods=[pods("w", 1, 8, required="shelf")]), "sub-group w", "required"),
    ],
)
def test_k2_a_level_that_the_topology_does_not_have(asked: Any, subject: str, kind: str) -> None:
    assert lines(told(nodes(RACKS), asked, spec=sub_groups("w")))[0] == (
        f"topology constraint error: {subject} specified 'shelf' as the {kind} topology constraint level, "
        "but the topology tree 'net' does not contain a level with this name"
    )


def test_what_upstream_has_no_words_for_is_told_in_ours() -> None:
    found = told(nodes(RACKS), gang(tiedTo={"gang": "ns/base", "level": BLOCK}, pods=[pods("w", 1, 8)]))
    assert (found.state, found.message) == (
        State.TIED,
        "Unable to schedule podgroup: tied to gang ns/base, which is not known.",
    )
    cut = Decision("ns/a", "exhausted", explanation=Explanation("the search budget of 5 steps ended"))
    assert report(reading(), cut, PodGroupSpec(), NOWHERE).message == (
        "Unable to schedule podgroup: the search budget of 5 steps ended."
    )


# Queues, readiness


def test_k16_a_queue_s_refusal_carries_its_reason_its_text_and_its_figures() -> None:
    refusal = NoRoomInQueue("QueueDoesNotExist", "Queue 'q' does not exist", {"name": "q"})
    found = report(reading(), refusal, PodGroupSpec(), NOWHERE)
    assert found.condition is not None
    assert found.condition["reasons"] == [
        {
            "reason": "QueueDoesNotExist",
            "message": "Queue 'q' does not exist",
            "details": {"queueDetails": {"name": "q"}},
        }
    ]
    assert found.message == "Queue 'q' does not exist"


def test_k14_a_gang_that_is_not_complete_is_an_event_and_no_condition_of_the_group() -> None:
    text = "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"
    found = report(reading(not_ready=text), None, PodGroupSpec(), NOWHERE)
    assert found.condition is None
    assert {(one.condition, one.event) for one in found.pods} == {(("Unschedulable", text), None)}
    assert found.group_event is not None
    assert (found.group_event.type, found.group_event.reason, found.group_event.message) == ("Normal", "NotReady", text)


def test_k2_a_pod_that_takes_no_part_is_told_its_own_reason() -> None:
    stray = Held("u", ("ns", "stray"), "sub-group nope does not exist")
    found = report(reading(held=(stray,), mistake="sub-group nope does not exist"), None, PodGroupSpec(), NOWHERE)
    last = found.pods[-1]
    assert (last.key, last.condition) == (("ns", "stray"), ("Unschedulable", "sub-group nope does not exist"))
    assert last.event is not None and last.event.message == "sub-group nope does not exist"


# Conditions and events of a refusal


def refused(spec: PodGroupSpec | None = None, **more: Any) -> Report:
    return told(nodes(RACKS), gang(required=RACK, pods=[pods("w", 3, 8)], **more), spec=spec)


def test_k15_the_condition_has_upstream_s_form() -> None:
    found = refused().condition
    assert found is not None
    assert {key: found[key] for key in ("type", "nodePool", "status", "reason")} == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
    }
    assert [one["reason"] for one in found["reasons"]] == ["PodSchedulingErrors"]


def test_k15_the_same_words_are_in_condition_events_and_explanation() -> None:
    found = refused()
    assert found.condition is not None and found.group_event is not None and found.explanation is not None
    assert found.condition["message"] == found.message
    assert (found.group_event.type, found.group_event.reason, found.group_event.message) == (
        "Normal",
        "Unschedulable",
        found.message,
    )
    assert "\n".join(found.explanation["lines"]) == found.message
    for one in found.pods:
        assert one.condition == ("Unschedulable", found.message)
        assert one.event is not None
        assert (one.event.type, one.event.reason, one.event.message) == ("Warning", "Unschedulable", found.message)


def test_pods_are_not_marked_where_the_group_does_not_want_it() -> None:
    found = refused(PodGroupSpec(mark_unschedulable=False))
    assert {one.condition for one in found.pods} == {None}
    assert all(one.event for one in found.pods)


def test_a_group_that_backs_off_names_its_node_pool_first() -> None:
    found = refused(PodGroupSpec(scheduling_backoff=1))
    assert found.message.startswith("Node-Pool 'default': topology net, requirement")


def test_the_condition_is_left_alone_while_a_pod_of_the_group_is_allocated() -> None:
    found = refused(running=[{"pods": "w", "node": "n0"}])
    assert found.condition is None
    assert len(found.pods) == 2


def test_a_long_message_is_cut() -> None:
    found = report(reading(mistake="x" * 5000), None, PodGroupSpec(), NOWHERE)
    assert len(found.message) == 1024


# Placed


def test_k15_a_gang_that_is_scheduled_has_a_score_and_nothing_to_explain() -> None:
    found = told(nodes(RACKS), gang(required=RACK, preferred=RACK, pods=[pods("w", 2, 8)]))
    assert (found.state, found.clears, found.explanation, found.score) == (State.SCHEDULED, True, None, 1.0)


@pytest.mark.parametrize(
    ("pods_asked", "words"), [(2, "1 pod beyond the minimum waits"), (3, "2 pods beyond the minimum wait")]
)
def test_a_gang_says_how_many_pods_wait_for_room(pods_asked: int, words: str) -> None:
    found = told(nodes({"b0/r0": [8]}), gang(pods=[pods("w", pods_asked, 8, min=1)]))
    assert found.message == f"{words} for room beside the others"


def test_pods_beyond_the_minimum_that_found_no_room_are_told_so() -> None:
    found = told(nodes({"b0/r0": [8]}), gang(pods=[pods("w", 2, 8, min=1)]))
    assert (found.state, found.clears) == (State.PARTLY, True)
    assert [one.condition for one in found.pods] == [
        (
            "Unschedulable",
            "Resources were not found for pod ns/w-1 due to: no nodes with enough resources were found.",
        )
    ]


def test_k10_pods_that_wait_for_others_to_leave_are_told_where_they_will_go() -> None:
    placed = Decision(
        "ns/a",
        "placed",
        waits=True,
        placements=(Placement("w", 0, "n0"), Placement("w", 1, "n1")),
        victims=(Victim("ns/v", "x", "n0"),),
        moves=(Move("ns/u", "x", "n1", "n2"),),
    )
    found = report(reading(), placed, PodGroupSpec(), NOWHERE)
    assert found.state is State.PIPELINED
    assert [one.event.message for one in found.pods if one.event] == [
        "Pod ns/w-0 was pipelined to node n0",
        "Pod ns/w-1 was pipelined to node n1",
    ]
    assert found.message == "its place on 2 nodes is chosen, and it waits for 2 pods of ns/u and ns/v to leave"


# Other events


@pytest.mark.parametrize(
    ("event", "kind", "reason", "message"),
    [
        (
            messages.scheduled(POD, "n0"),
            "Normal",
            "Scheduled",
            "Successfully assigned pod ns/w-0 to node n0 at node-pool default",
        ),
        (
            messages.failed_binding(POD, "n0", "gone"),
            "Warning",
            "FailedBinding",
            "Failed to bind pod ns/w-0 to node n0. gone",
        ),
        (messages.pipelined(POD, "n0"), "Normal", "Pipelined", "Pod ns/w-0 was pipelined to node n0"),
        (
            messages.stale(1, 3, [("g", 2, 0)]),
            "Normal",
            "StaleJob",
            "Job is stale. 1 pods are active, minMember is 3, subGroup g minMember is 2 and 0 pods are active",
        ),
        (messages.stale(1, 3), "Normal", "StaleJob", "Job is stale. 1 pods are active, minMember is 3"),
        (
            messages.preempted("w-0", ("ns", "big"), 2),
            "Normal",
            "Evict",
            "Pod w-0 was preempted by higher priority workload big",
        ),
        (
            messages.consolidated("w-0", ("ns", "big"), 2),
            "Normal",
            "Evict",
            "Pod w-0 was preempted and rescheduled due to bin packing (resource consolidation) procedure",
        ),
        (
            messages.evicted_as_stale("w-0", ("ns", "a"), 3, "g", 1),
            "Normal",
            "Evict",
            "Workload doesn't meet the minimum required number of pods (3) in sub-group g, evicting remaining pod: w-0",
        ),
        (
            messages.evicted_as_stale("w-0", ("ns", "a"), 3, "", 1),
            "Normal",
            "Evict",
            "Workload doesn't meet the minimum required number of pods (3), evicting remaining pod: w-0",
        ),
    ],
)
def test_k15_events_have_upstream_s_texts(event: Any, kind: str, reason: str, message: str) -> None:
    assert (event.type, event.reason, event.message) == (kind, reason, message)


def test_an_eviction_says_who_needs_the_room() -> None:
    assert dict(messages.preempted("w-0", ("ns", "big"), 2).annotations) == {
        "num-evicted-pods": "2",
        "evictor-action-type": "preempt",
        "evictor-pod-group-name": "big",
        "evictor-pod-group-namespace": "ns",
    }


def test_k15_names_that_only_we_know_are_not_told() -> None:
    why = Explanation('default/shape-0: persistentvolumeclaim "c" not found', group="default/shape-0")
    found = report(reading(), Decision("ns/a", "infeasible", explanation=why), PodGroupSpec(), NOWHERE)
    assert found.message == 'Unable to schedule podgroup: persistentvolumeclaim "c" not found.'
    why = Explanation("default needs 4 pods; each of its 2 parts fits alone, but not together", group="default")
    found = report(reading(), Decision("ns/a", "exhausted", explanation=why), PodGroupSpec(), NOWHERE)
    assert found.message.startswith("Unable to schedule podgroup: the gang needs 4 pods; ")


def test_k15_where_only_incomplete_parts_wait_their_reason_is_told() -> None:
    late = Held("u", ("ns", "late"), "SubGroup b is not complete")
    placed = Decision("ns/a", "placed", placements=(Placement("w", 0, "n0"), Placement("w", 1, "n1")))
    found = report(reading(held=(late,)), placed, PodGroupSpec(), NOWHERE)
    assert found.message == "1 pod beyond the minimum waits: SubGroup b is not complete"
