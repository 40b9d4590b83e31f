"""A wanted group as changes: what is made, what is put right, and what belongs to others."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.changes import Create, Delete, Patch
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.grouping.owner_chain import UserError
from spinney.core.grouping.podgroups import DesiredPodGroup, abandoned, keep, mark
from spinney.core.grouping.queue_and_priority import missing_queues
from spinney.core.grouping.user_feedback import pod_condition, podgroup_condition
from unit.grouping.grouping_kit import (
    RACK,
    REQUIRED,
    SEGMENT_REQUIRED,
    SEGMENT_SIZE,
    TOPOLOGY,
    Cluster,
    owner,
    pod,
    wanted,
)

ASKS = {TOPOLOGY: "network", REQUIRED: "rack"}


def asked(**metadata: Any) -> DesiredPodGroup:
    return wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 4}, **metadata))


def made(answer: DesiredPodGroup, **spec: Any) -> PodGroup:
    """The PodGroup as it is stored, after others changed its spec."""
    (create,) = keep(answer, None, Cluster().lookups())  # type: ignore[misc]
    assert isinstance(create, Create)
    body = create.body
    body["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    body["spec"] |= spec
    return msgspec.convert(body, PodGroup)


def patched(answer: DesiredPodGroup, live: PodGroup, cluster: Cluster | None = None) -> Any:
    found = keep(answer, live, (cluster or Cluster()).lookups())
    assert not isinstance(found, UserError)
    return [each.patch for each in found if isinstance(each, Patch)]


def test_a_group_that_is_right_is_not_written_again() -> None:
    answer = asked(annotations=ASKS, labels={"a": "b", "user": "ada", "kai.scheduler/node-pool": "x"})
    assert patched(answer, made(answer)) == []


def test_k2_queue_marking_and_backoff_of_a_group_belong_to_others() -> None:
    answer = asked(annotations=ASKS)
    assert patched(answer, made(answer, queue="research", markUnschedulable=False, schedulingBackoff=1)) == []


def test_k2_the_node_pool_of_a_group_belongs_to_others() -> None:
    live = made(asked(labels={"kai.scheduler/node-pool": "x"}))
    assert patched(asked(labels={"kai.scheduler/node-pool": "y"}), live) == []


def test_k16_a_queue_that_does_not_exist_gives_way_to_the_corrected_one() -> None:
    live = made(asked(labels={"kai.scheduler/queue": "resarch"}))
    corrected = asked(labels={"kai.scheduler/queue": "research"})
    assert patched(corrected, live)[0]["spec"] == {"queue": "research"}


def test_k2_minima_and_constraints_follow_the_owner() -> None:
    live = made(asked(annotations=ASKS))
    wider = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 6}, annotations={**ASKS, REQUIRED: "zone"}))
    (patch,) = patched(wider, live)
    assert patch["spec"]["minMember"] == 6
    assert patch["spec"]["topologyConstraint"] == {"requiredTopologyLevel": "topology.kubernetes.io/zone"}


def test_k13_what_the_owner_no_longer_says_goes_and_what_others_wrote_stays() -> None:
    live = made(asked(annotations={**ASKS, SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"}))
    live.metadata.annotations["spinney.dev/plan"] = "kept"
    (patch,) = patched(asked(annotations=ASKS), live)
    assert patch["metadata"]["annotations"][SEGMENT_SIZE] is None
    assert "spinney.dev/plan" not in patch["metadata"]["annotations"]


def test_what_one_pod_of_many_says_counts_only_at_birth() -> None:
    top = owner("apps/v1/StatefulSet")
    first = wanted(pod("a", {"priorityClassName": "urgent"}), top)
    second = wanted(pod("b", {"priorityClassName": "batch"}), top)
    assert patched(second, made(first)) == []


def test_what_the_only_pod_of_a_group_says_counts() -> None:
    first, later = wanted(pod("a", {"priorityClassName": "urgent"})), wanted(pod("a", {"priorityClassName": "batch"}))
    assert patched(later, made(first))[0]["spec"] == {"priorityClassName": "batch"}


def test_a_group_of_that_name_that_is_not_ours_is_left_alone() -> None:
    answer = asked()
    live = made(answer)
    live.metadata.annotations.clear()
    assert isinstance(keep(answer, live, Cluster().lookups()), UserError)


def test_k2_a_pod_is_marked_once() -> None:
    top = owner("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2}})
    labels = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
    member = pod("w-0", labels=labels)
    answer = wanted(member, top)
    (change,) = mark(answer, member)
    assert change.patch["metadata"] == {
        "labels": {"kai.scheduler/subgroup-name": "leader"},
        "annotations": {"pod-group-name": "pg-w-uid-w-group-0"},
    }
    marked = pod(
        "w-0",
        labels={**labels, "kai.scheduler/subgroup-name": "leader"},
        annotations={"pod-group-name": "pg-w-uid-w-group-0"},
    )
    assert mark(answer, marked) == ()


def test_k2_a_pod_that_joins_a_gang_leaves_no_empty_group_behind() -> None:
    alone = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 4}))
    member = pod("p", annotations={"pod-group-name": alone.name})
    cluster = Cluster(podgroups=[made(alone)])
    gang = wanted(member, owner("batch/v1/Job", {"parallelism": 4}, annotations=ASKS), cluster=cluster)
    (change,) = abandoned(gang, member, cluster.lookups())
    assert isinstance(change, Delete)
    assert change.target.name == alone.name


def test_k16_default_queues_are_made_when_missing_the_parent_first() -> None:
    made_queues = missing_queues(lambda name: False)
    assert [each.target.name for each in made_queues] == ["default-parent-queue", "default-queue"]
    assert made_queues[1].body["spec"]["parentQueue"] == "default-parent-queue"
    assert [each.target.name for each in missing_queues(lambda name: name == "default-queue")] == [
        "default-parent-queue"
    ]
    assert missing_queues(lambda name: True) == ()


def test_k2_a_mistake_is_written_to_a_pod_once_and_never_over_its_gates() -> None:
    condition = pod_condition(pod(), "wrong", 0.0)
    assert condition is not None
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "PodGrouperWarning", "wrong")
    assert pod_condition(pod(status={"conditions": [condition]}), "wrong", 9.0) is None
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert pod_condition(pod(status={"conditions": [gated]}), "wrong", 9.0) is None


def test_k2_what_a_pod_with_a_node_is_told_later_does_not_take_its_node_from_it() -> None:
    assert pod_condition(pod(spec={"nodeName": "n"}), "wrong", 0.0) is None


def test_k2_a_group_says_from_its_first_mistake_on_whether_it_is_right() -> None:
    live = made(asked())
    assert podgroup_condition(live, "", 0.0) == ()
    (wrong,) = podgroup_condition(live, "wrong", 0.0)
    (condition,) = wrong.status["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == ("Grouped", "False", "wrong")
    told = msgspec.convert({"metadata": {"name": "g"}, "status": wrong.status}, PodGroup)
    assert podgroup_condition(told, "wrong", 9.0) == ()
    (right,) = podgroup_condition(told, "", 9.0)
    assert right.status["conditions"][0]["status"] == "True"


def test_k1_the_level_of_a_group_is_a_node_label() -> None:
    assert made(asked(annotations=ASKS)).spec.topology_constraint.required_topology_level == RACK
