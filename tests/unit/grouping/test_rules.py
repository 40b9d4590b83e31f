"""Topology, segments, queue, priority and who is left alone: the rules that hold for every owner kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spinney.api.kinds.podgroup import PodGroup, PodGroupSpec
from spinney.api.meta import ObjectMeta, OwnerReference
from spinney.core.grouping.podgroups import Skip
from spinney.core.grouping.queue_and_priority import GrouperSettings
from unit.grouping.grouping_kit import (
    PREFERRED,
    RACK,
    REQUIRED,
    SEGMENT_REQUIRED,
    SEGMENT_SIZE,
    TOPOLOGY,
    ZONE,
    Cluster,
    ask,
    mistake,
    owner,
    pod,
    wanted,
)

AT = "Job ns/w: metadata.annotations"
LEVELS = f"a level of topology network: {ZONE}, {RACK}, zone, rack"


def job(**annotations: str) -> Any:
    return owner("batch/v1/Job", {"parallelism": 4}, annotations=annotations)


# K1


@pytest.mark.parametrize(
    ("asked", "levels"),
    [
        ({REQUIRED: RACK}, (RACK, "")),
        ({PREFERRED: ZONE}, ("", ZONE)),
        ({REQUIRED: "zone", PREFERRED: "rack"}, (ZONE, RACK)),
    ],
)
def test_k1_either_level_is_enough_by_node_label_or_short_name(asked: dict[str, str], levels: Any) -> None:
    constraint = wanted(pod(), job(**{TOPOLOGY: "network", **asked})).spec.topology_constraint
    assert constraint.topology == "network"
    assert (constraint.required_topology_level, constraint.preferred_topology_level) == levels


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {REQUIRED: "rack"},
            f"{AT}[{TOPOLOGY}]: found none, expected the name of a Topology, for a level of it is asked for",
        ),
        (
            {TOPOLOGY: "nowhere", REQUIRED: "rack"},
            f'{AT}[{TOPOLOGY}]: found "nowhere", expected the name of a Topology '
            "(Requested topology nowhere does not exist)",
        ),
        (
            {TOPOLOGY: "network", REQUIRED: "rak"},
            f'{AT}[{REQUIRED}]: found "rak", expected {LEVELS}; did you mean rack?',
        ),
        ({TOPOLOGY: "network", PREFERRED: "block"}, f'{AT}[{PREFERRED}]: found "block", expected {LEVELS}'),
        (
            {TOPOLOGY: "network"},
            f"{AT}[{REQUIRED}]: found none, expected a level of topology network here or in {PREFERRED}",
        ),
    ],
)
def test_k1_anything_else_is_a_mistake_in_words(asked: dict[str, str], sentence: str) -> None:
    assert mistake(pod(), job(**asked)) == sentence


def test_k1_a_short_name_needs_a_cluster_topology_of_that_name() -> None:
    cluster = Cluster(cluster_topologies={"other": {"rack": RACK}})
    assert 'found "rack"' in mistake(pod(), job(**{TOPOLOGY: "network", REQUIRED: "rack"}), cluster=cluster)


def test_k1_a_level_below_the_host_is_one_that_only_the_cluster_topology_has() -> None:
    cluster = Cluster(cluster_topologies={"network": {"rack": RACK, "numa": "example.com/numa"}})
    found = wanted(pod(), job(**{TOPOLOGY: "network", REQUIRED: "numa"}), cluster=cluster)
    assert found.spec.topology_constraint.required_topology_level == "example.com/numa"


def test_k1_a_preferred_level_that_is_broader_than_the_required_one_is_told() -> None:
    found = wanted(pod(), job(**{TOPOLOGY: "network", REQUIRED: "rack", PREFERRED: "zone"}))
    assert found.warnings == (f"Job ns/w: the preferred level {ZONE} is broader than the required level {RACK}",)


def test_k1_annotations_on_the_pod_template_are_told_to_be_in_the_wrong_place() -> None:
    member = pod("p", annotations={TOPOLOGY: "network", REQUIRED: "rack"})
    found = wanted(member, job())
    assert found.spec.topology_constraint.topology == ""
    assert found.warnings == (f"Pod ns/p: {REQUIRED} on a pod is not read: annotate Job ns/w",)
    assert wanted(member).spec.topology_constraint.required_topology_level == RACK


# K13


def test_k13_segments_are_passed_on_with_levels_by_node_label() -> None:
    found = wanted(pod(), job(**{TOPOLOGY: "network", SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"}))
    assert (found.annotations[SEGMENT_SIZE], found.annotations[SEGMENT_REQUIRED]) == ("2", RACK)
    assert found.spec.min_member == 4


@pytest.mark.parametrize("size", ["0", "-2", "two", "1.5", "٣", "1" * 5000])
def test_k13_a_segment_has_a_whole_number_of_pods(size: str) -> None:
    assert "expected a whole number from 1 to 999999999" in mistake(pod(), job(**{SEGMENT_SIZE: size}))


def test_k13_a_level_without_a_size_or_a_topology_is_a_mistake() -> None:
    assert "found none, expected a whole number" in mistake(
        pod(), job(**{SEGMENT_REQUIRED: "rack", TOPOLOGY: "network"})
    )
    assert "expected the name of a Topology" in mistake(pod(), job(**{SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"}))
    assert "for segments are asked for" in mistake(pod(), job(**{TOPOLOGY: "network", SEGMENT_SIZE: "2"}))
    unknown = {TOPOLOGY: "network", SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rak"}
    assert LEVELS in mistake(pod(), job(**unknown))


def test_k13_segments_that_pods_ask_for_are_checked_as_well() -> None:
    member = pod("p", annotations={SEGMENT_SIZE: "none"})
    assert mistake(member, job()).startswith(f"Pod ns/p: metadata.annotations[{SEGMENT_SIZE}]")


@pytest.mark.parametrize("role", ["master", "worker"])
def test_k13_the_topology_of_segments_may_be_named_on_the_owner_and_the_rest_on_a_template(role: str) -> None:
    segments = {SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"}
    roles = {"Master": {}, "Worker": {"replicas": 4, "template": {"metadata": {"annotations": segments}}}}
    top = owner("kubeflow.org/v1/PyTorchJob", {"pytorchReplicaSpecs": roles}, annotations={TOPOLOGY: "network"})
    said = segments if role == "worker" else {}
    found = wanted(pod("p", labels={"training.kubeflow.org/replica-type": role}, annotations=said), top)
    assert found.annotations[TOPOLOGY] == "network"
    assert found.spec.topology_constraint.topology == ""


def test_k1_a_topology_without_a_level_is_a_mistake_though_a_template_names_one_that_is_not_read() -> None:
    template = {"metadata": {"annotations": {REQUIRED: "rack"}}}
    top = owner("apps/v1/StatefulSet", {"template": template}, annotations={TOPOLOGY: "network"})
    assert "expected a level of topology network" in mistake(pod("p", annotations={REQUIRED: "rack"}), top)


# K16


@pytest.mark.parametrize(
    ("above", "below", "queue"),
    [
        ({}, {}, "default-queue"),
        ({"kai.scheduler/queue": "research"}, {"kai.scheduler/queue": "other"}, "research"),
        ({}, {"kai.scheduler/queue": "research"}, "research"),
        ({"project": "research"}, {}, "research"),
        ({"project": "llm", "kai.scheduler/node-pool": "h100"}, {}, "llm-h100"),
    ],
)
def test_k16_the_queue_is_the_one_that_is_named_else_the_default(above: Any, below: Any, queue: str) -> None:
    cluster = Cluster(queues={"default-queue", "research", "llm-h100"})
    found = wanted(pod("p", labels=below), owner("apps/v1/StatefulSet", labels=above), cluster=cluster)
    assert (found.spec.queue, found.warnings) == (queue, ())


def test_k16_queue_class_and_preemptibility_may_be_named_by_any_owner_the_upper_one_first() -> None:
    """By the Jobs of a CronJob, for example: their labels are those of its template."""
    said = {"kai.scheduler/queue": "research", "priorityClassName": "batch"}
    job = owner("batch/v1/Job", name="run", labels={**said, "kai.scheduler/preemptibility": "non-preemptible"})
    found = wanted(pod(), job, owner("batch/v1/CronJob", labels={"priorityClassName": "urgent"}))
    assert (found.spec.queue, found.spec.priority_class_name) == ("research", "urgent")
    assert (found.spec.preemptibility, found.by_pod) == ("non-preemptible", frozenset())


def test_k16_only_a_queue_that_is_named_and_missing_is_told() -> None:
    top = owner("apps/v1/StatefulSet", labels={"kai.scheduler/queue": "gone"})
    found = wanted(pod(), top)
    assert found.spec.queue == "gone"
    assert found.warnings == ("StatefulSet ns/w: metadata.labels[kai.scheduler/queue]: Queue 'gone' does not exist",)
    assert wanted(pod(), owner("apps/v1/StatefulSet"), cluster=Cluster(queues=set())).warnings == ()


def test_the_label_of_the_queue_can_be_another() -> None:
    settings = GrouperSettings(queue_label="example.com/queue")
    assert wanted(pod(labels={"example.com/queue": "research"}), settings=settings).spec.queue == "research"


# Priority


@pytest.mark.parametrize(
    ("above", "below", "spec", "priority"),
    [
        ({"priorityClassName": "urgent"}, {"priorityClassName": "batch"}, {}, "urgent"),
        ({}, {"priorityClassName": "batch"}, {"priorityClassName": "urgent"}, "batch"),
        ({}, {}, {"priorityClassName": "urgent"}, "urgent"),
        ({"ray.io/priority-class-name": "batch", "priorityClassName": "urgent"}, {}, {}, "batch"),
        ({}, {}, {}, "train"),
    ],
)
def test_the_first_priority_class_that_is_named_counts(above: Any, below: Any, spec: Any, priority: str) -> None:
    found = wanted(pod("p", spec, labels=below), owner("apps/v1/StatefulSet", labels=above))
    assert (found.spec.priority_class_name, found.warnings) == (priority, ())


def test_a_priority_class_that_does_not_exist_is_told_and_passed_over() -> None:
    found = wanted(
        pod("p", {"priorityClassName": "batch"}), owner("apps/v1/StatefulSet", labels={"priorityClassName": "x"})
    )
    assert found.spec.priority_class_name == "batch"
    assert found.warnings == ("StatefulSet ns/w: metadata.labels[priorityClassName]: PriorityClass 'x' does not exist",)


def test_kinds_can_be_given_a_priority_class_of_their_own() -> None:
    settings = GrouperSettings(default_classes={"StatefulSet": "inference"})
    assert wanted(pod(), owner("apps/v1/StatefulSet"), settings=settings).spec.priority_class_name == "inference"


def test_preemptibility_is_one_of_two_words() -> None:
    label = "kai.scheduler/preemptibility"
    assert wanted(pod(labels={label: "non-preemptible"})).spec.preemptibility == "non-preemptible"
    assert mistake(pod("p", labels={label: "no"})) == (
        f'Pod ns/p: metadata.labels[{label}]: found "no", expected preemptible or non-preemptible'
    )


# What a group takes over


def test_a_group_takes_over_labels_and_annotations_but_no_records() -> None:
    annotations = {
        "a": "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "spinney.dev/plan": "x",
        "spinney.dev/tied-to": "base,zone",
    }
    top = owner("apps/v1/StatefulSet", labels={"l": "2", "kai.scheduler/node-pool": "h100"}, annotations=annotations)
    found = wanted(pod("p", labels={"user": "ada"}), top)
    assert found.labels == {"l": "2"}
    assert sorted(found.annotations) == ["a", "kai.scheduler/top-owner-metadata"]
    assert found.initial_labels == {"kai.scheduler/node-pool": "h100", "user": "ada"}


# Who is left alone


@pytest.mark.parametrize(
    "key", ["skip-podgrouper", "kai.scheduler/skip-podgrouper", "grove.io/ignore", "kai.scheduler/ignore-workload-api"]
)
def test_k2_a_pod_that_opts_out_is_left_alone(key: str) -> None:
    assert isinstance(ask(pod(annotations={key: "true"})), Skip)
    assert isinstance(ask(pod(labels={key: ""})), Skip)
    assert not isinstance(ask(pod(annotations={key: "false"})), Skip)


def test_k2_a_pod_in_a_group_that_its_user_wrote_is_left_alone() -> None:
    named = pod("p", annotations={"pod-group-name": "mine"})
    assert isinstance(ask(named), Skip)
    assert isinstance(ask(named, job()), Skip)


def test_k2_a_pod_moves_from_a_group_of_ours_to_the_right_one() -> None:
    old = PodGroup(
        ObjectMeta("mine", "ns", annotations={"kai.scheduler/top-owner-metadata": "x"}), PodGroupSpec(min_member=1)
    )
    named = pod("p", annotations={"pod-group-name": "mine"})
    assert wanted(named, owner("apps/v1/StatefulSet"), cluster=Cluster(podgroups=[old])).name == "pg-w-uid-w"


# Grove


def gang(**more: Any) -> Any:
    spec = {
        "podgroups": [
            {"name": "lead", "minReplicas": 1, "podReferences": [{"namespace": "ns", "name": "p"}]},
            {"name": "work", "minReplicas": 3, "podReferences": [], "topologyConstraint": pack(required=RACK)},
        ],
        "topologyConstraint": pack(required=ZONE),
        "topologyConstraintGroupConfigs": [
            {
                "name": "replica-0",
                "podGroupNames": ["lead", "work", "stray"],
                "topologyConstraint": pack(preferred=RACK),
            },
            {"name": "empty", "podGroupNames": []},
        ],
        **more,
    }
    return owner(
        "scheduler.grove.io/v1alpha1/PodGang", spec, name="g", annotations={"grove.io/topology-name": "network"}
    )


def pack(**levels: str) -> Any:
    return {"packConstraint": levels}


SET = owner("grove.io/v1alpha1/PodCliqueSet", name="set", labels={"kai.scheduler/queue": "research"})


def test_k2_a_pod_gang_becomes_a_group_with_its_tree() -> None:
    found = wanted(
        pod("p", labels={"grove.io/podgang": "g"}), owner("grove.io/v1alpha1/PodClique", name="c"), SET, gang=gang()
    )
    assert (found.name, found.owner["kind"], found.spec.queue) == ("pg-g-uid-g", "PodGang", "research")
    assert (found.spec.min_member, found.part) == (4, "lead")
    assert found.spec.topology_constraint.required_topology_level == ZONE
    tree = [(each.name, each.parent, each.min_member, each.min_sub_group) for each in found.spec.sub_groups]
    assert tree == [("replica-0", None, None, 2), ("lead", "replica-0", 1, None), ("work", "replica-0", 3, None)]
    levels = [each.topology_constraint for each in found.spec.sub_groups]
    assert [(one.required_topology_level, one.preferred_topology_level) if one else None for one in levels] == [
        ("", RACK),
        None,
        (RACK, ""),
    ]


def test_g12_a_tie_that_the_scheduler_could_not_follow_is_not_passed_on() -> None:
    """It names the base gang as the operator does; the names of the pod-grouper end in a uid."""
    tied = replace(gang(), annotations={**gang().annotations, "spinney.dev/tied-to": f"base,{ZONE}"})
    found = wanted(pod("p", labels={"grove.io/podgang": "g"}), SET, gang=tied)
    assert "spinney.dev/tied-to" not in found.annotations


def test_b4_the_priority_class_of_a_pod_gang_comes_before_all_others_and_its_labels_before_those_of_the_set() -> None:
    ranked = owner("grove.io/v1alpha1/PodCliqueSet", name="set", labels={"priorityClassName": "batch"})
    assert wanted(pod("p"), ranked, gang=gang()).spec.priority_class_name == "batch"
    urgent = gang(priorityClassName="urgent")
    assert wanted(pod("p"), ranked, gang=urgent).spec.priority_class_name == "urgent"
    labelled = replace(gang(), labels={"kai.scheduler/preemptibility": "non-preemptible"})
    assert wanted(pod("p"), ranked, gang=labelled).spec.preemptibility == "non-preemptible"


def test_k2_a_gang_that_does_not_name_its_topology_is_a_mistake() -> None:
    nameless = owner("scheduler.grove.io/v1alpha1/PodGang", gang().body["spec"], name="g")
    assert mistake(pod("p"), SET, gang=nameless) == (
        "PodGang ns/g: metadata.annotations[grove.io/topology-name]: found none, "
        "expected the name of a Topology, for a level of it is asked for"
    )


def test_k2_a_constraint_that_is_there_but_empty_asks_for_nothing() -> None:
    found = wanted(pod("p"), SET, gang=gang(topologyConstraint=pack(required="", preferred="")))
    assert found.spec.topology_constraint.topology == ""


def test_k1_annotations_fill_in_what_a_gang_does_not_say() -> None:
    asking = owner("grove.io/v1alpha1/PodCliqueSet", name="set", annotations={TOPOLOGY: "network", PREFERRED: "rack"})
    found = wanted(pod("p"), asking, gang=gang())
    constraint = found.spec.topology_constraint
    assert (constraint.required_topology_level, constraint.preferred_topology_level) == (ZONE, RACK)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (
            [{"name": "lead", "podReferences": []}],
            "spec.podgroups[0].minReplicas: found none, expected a whole number of 1",
        ),
        ([{"name": "lead", "minReplicas": 1, "podReferences": []}], "expected a reference to Pod ns/p"),
        (
            [{"name": "lead", "minReplicas": 1, "podReferences": [{"namespace": "else", "name": "p"}]}],
            'podReferences[0].namespace: found "else", expected ns',
        ),
        (
            [{"name": "lead", "minReplicas": 1, "podReferences": ["p"]}],
            'spec.podgroups[0].podReferences: found ["p"], expected a list of objects',
        ),
    ],
)
def test_k2_a_gang_that_cannot_be_a_group_is_a_mistake(groups: Any, sentence: str) -> None:
    assert sentence in mistake(pod("p"), SET, gang=gang(podgroups=groups))


def test_k2_a_pod_of_a_set_without_a_gang_is_a_mistake() -> None:
    assert mistake(pod("p", labels={"grove.io/podgang": "g"}), SET).startswith(
        'Pod ns/p: metadata.labels[grove.io/podgang]: found "g", expected the name of a PodGang'
    )


def test_k2_a_gang_whose_operator_writes_its_group_is_left_alone() -> None:
    ours = PodGroup(ObjectMeta("g", "ns", owner_references=(OwnerReference(uid="uid-g", controller=True),)))
    assert isinstance(ask(pod("p"), SET, gang=gang(), cluster=Cluster(podgroups=[ours])), Skip)


def test_k2_a_gang_that_opts_out_is_left_alone() -> None:
    out = owner("scheduler.grove.io/v1alpha1/PodGang", {}, name="g", annotations={"grove.io/ignore": "true"})
    assert isinstance(ask(pod("p"), SET, gang=out), Skip)
