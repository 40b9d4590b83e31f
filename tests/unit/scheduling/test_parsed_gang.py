"""From a PodGroup and its pods to a gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PriorityClass
from spinney.api.kinds.podgang import PodGang
from spinney.api.placement.problem import Running, Tie, Topology
from spinney.core.expansion.backends.kai import podgroup_spec
from spinney.core.scheduling.gang.demand import demand
from spinney.core.scheduling.gang.parsed_gang import Context, read_gang
from spinney.core.scheduling.gang.priorities import Priorities
from unit.scheduling.reading_kit import RESOURCES, member, members, podgroup, reading, subgroup, waiting_names

TOPOLOGY = Topology("cluster", ("zone", "rack", "host"))
RACK = {"topology": "cluster", "requiredTopologyLevel": "rack"}
CHECKED = Context(RESOURCES, topologies={"cluster": TOPOLOGY})
SUCCEEDED = {"phase": "Succeeded"}


def test_pods_without_subgroups_are_the_leaf_default() -> None:
    found = reading({"minMember": 2}, members(3))
    (pods,) = found.gang.root.pods
    assert (found.gang.name, pods.name, pods.min, pods.count) == ("ns/gang", "default", 2, 3)
    assert waiting_names(found) == {"default": ["p-0", "p-1", "p-2"]}
    assert found.members == {"uid-p-0": "default", "uid-p-1": "default", "uid-p-2": "default"}
    assert found.ready and not found.mistake and not found.held


def test_k14_the_minimum_of_a_leaf_is_at_least_one() -> None:
    assert reading({}, members(2)).gang.root.pods[0].min == 1
    assert reading({"minMember": 0}, members(2)).gang.root.pods[0].min == 1


def test_k14_a_sub_group_may_say_that_it_can_be_empty() -> None:
    spec = {"subGroups": [subgroup("head", 1), subgroup("pool", 0), subgroup("silent")]}
    found = reading(spec, [*members(1, "head"), *members(2, "pool"), *members(1, "silent")])
    assert {pods.name: pods.min for pods in found.gang.root.pods} == {"head": 1, "pool": 0, "silent": 1}
    assert reading(spec, [*members(1, "head"), *members(1, "silent")]).ready


def test_podgroups_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    names = {reading({}, [], namespace=namespace).gang.name for namespace in ("a", "b")}
    assert names == {"a/gang", "b/gang"}


def test_k3_subgroups_are_a_tree_of_any_depth_with_names_as_they_are_written() -> None:
    groups = [
        subgroup("Workers", parent="All", minSubGroup=1, topologyConstraint=RACK),
        subgroup("All"),
        subgroup("w0", 2, "Workers"),
        subgroup("w1", 2, "Workers"),
        subgroup("leader", 1),
    ]
    pods = members(2, "w0") + members(2, "w1") + members(1, "leader")
    found = reading(
        {"subGroups": groups, "topologyConstraint": {**RACK, "requiredTopologyLevel": "zone"}}, pods, CHECKED
    )
    root = found.gang.root
    assert (root.topology, root.required) == ("cluster", "zone")
    assert [pods.name for pods in root.pods] == ["leader"]
    workers = root.groups[0].groups[0]
    assert (workers.name, workers.min_groups, workers.required) == ("Workers", 1, "rack")
    assert [(pods.name, pods.min) for pods in workers.pods] == [("w0", 2), ("w1", 2)]
    assert waiting_names(found)["All/Workers/w1"] == ["w1-0", "w1-1"]
    assert found.ready and not found.mistake


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"subGroups": [subgroup("a"), subgroup("a")]}, "duplicate subgroup name a"),
        ({"subGroups": [subgroup("a", parent="A"), subgroup("b")]}, "parent A of a was not found"),
        ({"subGroups": [subgroup("a", parent="b"), subgroup("b", parent="a")]}, "cycle detected in subgroups"),
        ({"subGroups": [subgroup("a", parent="a"), subgroup("b")]}, "cycle detected in subgroups"),
        ({"subGroups": [subgroup("a/b")]}, "subgroup name a/b has a slash"),
        (
            {"subGroups": [subgroup("a", 1, minSubGroup=1), subgroup("b", parent="a")]},
            "sub-group a has both minMember 1 and minSubGroup 1, expected one of them",
        ),
        ({"minSubGroup": 2, "subGroups": [subgroup("a")]}, "minSubGroup of workload is 2, but it has 1 sub-groups"),
        ({"minSubGroup": 1}, "minSubGroup is 1, but there are no subGroups"),
        (
            {"topologyConstraint": {"topology": "cluster"}},
            "no topology constraints were found for workload, with topology name cluster",
        ),
        (
            {"subGroups": [subgroup("a", topologyConstraint={"topology": "cluster"})]},
            "no topology constraints were found for subgroup a, with topology name cluster",
        ),
        (
            {"topologyConstraint": {"requiredTopologyLevel": "rack"}},
            "topology constraint error: workload specified 'rack' as the required topology constraint level, but no "
            "topology",
        ),
        (
            {"subGroups": [subgroup("a", topologyConstraint={**RACK, "preferredTopologyLevel": "rck"})]},
            "topology constraint error: sub-group a specified 'rck' as the preferred topology constraint level, but "
            "the topology tree 'cluster' does not contain a level with this name; did you mean rack?",
        ),
        ({"topologyConstraint": {**RACK, "topology": "other"}}, "Requested topology other does not exist"),
    ],
)
def test_k2_mistakes_in_a_podgroup_are_said_and_hold_its_pods(spec: dict[str, Any], text: str) -> None:
    found = reading(spec, members(1), CHECKED)
    assert found.mistake == text
    assert [(held.key, held.reason) for held in found.held] == [(("ns", "p-0"), text)]
    assert not found.ready and not found.waiting


def test_subgroups_nested_beyond_reason_are_a_mistake_not_a_crash() -> None:
    chain = [subgroup("g0"), *(subgroup(f"g{i}", parent=f"g{i - 1}") for i in range(1, 2000))]
    assert "nested deeper than" in reading({"subGroups": chain}, []).mistake


def test_k2_a_pod_of_an_unknown_subgroup_is_a_mistake_and_not_dropped() -> None:
    spec = {"subGroups": [subgroup("a", 1), subgroup("inner"), subgroup("b", 1, "inner")]}
    strays = [member("x", "c"), member("y"), member("z", "inner")]
    found = reading(spec, [*members(1, "a"), *members(1, "b"), *strays])
    assert [held.key[1] for held in found.held] == ["x", "y", "z"]
    assert [held.reason for held in found.held] == [
        "pod ns/x is in SubGroup c, which PodGroup gang does not have",
        "pod ns/y has no label kai.scheduler/subgroup-name, and PodGroup gang has SubGroups",
        "pod ns/z is in SubGroup inner of PodGroup gang, which has sub-groups, not pods",
    ]
    assert all(held.reason in found.mistake for held in found.held)


def test_k14_a_gang_is_ready_when_every_leaf_has_its_minimum_without_gated_pods() -> None:
    gated = member("p-9", spec={"schedulingGates": [{"name": "g"}]})
    found = reading({"minMember": 3}, [*members(2), gated])
    assert not found.ready
    assert found.not_ready == "Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated"
    assert reading({"minMember": 2}, [*members(2), gated]).ready


def test_k14_the_text_names_the_subgroup_that_is_not_complete() -> None:
    spec = {"subGroups": [subgroup("a", 1), subgroup("b", 2)]}
    found = reading(spec, members(1, "a") + members(1, "b"))
    assert not found.ready
    assert found.not_ready == (
        "Job is not ready for scheduling. Waiting for 2 pods for SubGroup b, currently 1 exist, 0 are gated."
    )


def test_k14_with_min_sub_group_a_child_that_is_not_complete_waits_alone() -> None:
    spec = {"minSubGroup": 1, "subGroups": [subgroup("a", 2), subgroup("b", 2)]}
    found = reading(spec, members(1, "a") + members(2, "b"))
    assert found.ready
    assert [pods.name for pods in found.gang.root.pods] == ["b"]
    assert found.gang.root.min_groups == 1
    assert [held.key[1] for held in found.held] == ["a-0"]
    assert "SubGroup a" in found.held[0].reason


def test_k14_a_child_group_that_is_not_complete_is_held_back_whole() -> None:
    groups = [subgroup("x"), subgroup("x0", 1, "x"), subgroup("x1", 1, "x"), subgroup("y", 1)]
    found = reading({"minSubGroup": 1, "subGroups": groups}, members(1, "x0") + members(1, "y"))
    assert found.ready
    assert waiting_names(found) == {"y": ["y-0"]}
    assert [held.key[1] for held in found.held] == ["x0-0"]


def test_terminating_failed_and_finished_pods_are_no_members() -> None:
    gone = [
        member("a", node="n1", deletionTimestamp="2026-01-01T00:00:00Z"),
        member("b", status={"phase": "Failed"}),
        member("c", deletionTimestamp="2026-01-01T00:00:00Z"),
        member("d", node="n1", status=SUCCEEDED),
    ]
    found = reading({"minMember": 1}, [*gone, *members(1)])
    assert list(found.members) == ["uid-p-0"]
    assert found.gang.running == ()


def test_k14_pods_that_succeeded_do_not_keep_the_rest_from_being_scheduled() -> None:
    done = [member(f"d-{i}", node="n1", status=SUCCEEDED) for i in range(2)]
    found = reading({"minMember": 4}, [*done, *members(2)])
    assert found.ready
    assert (found.gang.root.pods[0].min, found.gang.root.pods[0].count) == (2, 2)


def test_k14_the_next_wave_of_a_job_is_a_gang_again() -> None:
    done = [member(f"d-{i}", node="n1", status=SUCCEEDED) for i in range(4)]
    assert reading({"minMember": 4}, [*done, *members(5)]).gang.root.pods[0].min == 4


def test_k14_a_leaf_all_of_whose_pods_succeeded_counts_as_scheduled() -> None:
    spec = {"minSubGroup": 2, "subGroups": [subgroup("a", 1), subgroup("b", 1), subgroup("c", 1)]}
    done = member("a-0", "a", "n1", status=SUCCEEDED)
    others = members(1, "b") + members(1, "c")
    found = reading(spec, [done, *others])
    assert found.ready
    assert found.gang.root.min_groups == 1
    assert reading(spec, [done, member("a-1", "a"), *others]).gang.root.min_groups == 2


def test_k14_members_that_run_pin_the_gang_and_count_towards_its_minimum() -> None:
    found = reading({"minMember": 3}, [member("r", node="n1"), *members(3)])
    (pods,) = found.gang.root.pods
    assert (pods.min, pods.count) == (3, 4)
    assert found.gang.running == (Running("default", "n1"),)
    assert found.members["uid-r"] == "default"


def test_g12_a_replacement_does_not_wait_for_other_replacements() -> None:
    found = reading({"minMember": 4}, [member("r", node="n1"), *members(1)])
    assert found.ready
    assert (found.gang.root.pods[0].min, found.gang.root.pods[0].count) == (2, 2)


def test_g12_a_leaf_lost_as_a_whole_waits_for_its_minimum_while_the_others_are_repaired() -> None:
    spec = {"subGroups": [subgroup("a", 2), subgroup("b", 2)]}
    found = reading(spec, [member("r", "a", "n1"), *members(1, "a", start=5), *members(1, "b")])
    assert found.ready
    assert waiting_names(found) == {"a": ["a-5"]}
    assert [held.key[1] for held in found.held] == ["b-0"]


def test_members_on_a_node_that_is_gone_pin_nothing() -> None:
    context = Context(RESOURCES, has_node=lambda name: name == "n1")
    found = reading({"minMember": 3}, [member("r", node="n1"), member("l", node="n2"), *members(1)], context)
    assert found.gang.running == (Running("default", "n1"),)
    assert found.ready
    assert (found.gang.root.pods[0].min, found.gang.root.pods[0].count) == (2, 2)


def test_g12_a_gang_that_lost_all_its_nodes_begins_anew_as_a_whole() -> None:
    context = Context(RESOURCES, has_node=lambda name: False)
    lost = members(2, node="n1")
    early = reading({"minMember": 4}, [*lost, *members(2, start=2)], context)
    assert not early.ready
    assert early.not_ready == "Job is not ready for scheduling. Waiting for 4 pods, currently 4 exist, 0 are gated"
    assert reading({"minMember": 4}, [*lost, *members(4, start=2)], context).ready


def test_elastic_pods_beyond_the_minimum_are_count() -> None:
    found = reading({"minMember": 2}, [*members(3, node="n1"), *members(2, start=3)])
    assert (found.gang.root.pods[0].min, found.gang.root.pods[0].count) == (2, 5)


def test_k5_pods_of_different_shapes_in_a_leaf_are_counted_as_what_they_are() -> None:
    pods = [member("big-0", gpus=8), member("p-0"), member("p-1"), member("big-1", gpus=8)]
    found = reading({"minMember": 3, "topologyConstraint": RACK}, pods)
    (leaf,) = found.gang.root.groups
    assert leaf.name == "default"
    assert [(each.request[3], each.min, each.count) for each in leaf.pods] == [(8, 2, 2), (1, 1, 2)]
    assert waiting_names(found) == {"default/shape-0": ["big-0", "big-1"], "default/shape-1": ["p-0", "p-1"]}
    assert demand(found.gang, RESOURCES) == (0, 0, 3, 17)


def test_a_leaf_of_several_shapes_keeps_its_constraint() -> None:
    spec = {"subGroups": [subgroup("a", 2, topologyConstraint=RACK)]}
    (leaf,) = reading(spec, [member("x", "a", gpus=8), member("y", "a")]).gang.root.groups
    assert (leaf.topology, leaf.required) == ("cluster", "rack")
    assert all(pods.topology is None for pods in leaf.pods)


def test_k8_what_a_pod_cannot_have_makes_its_set_unsupported_but_not_once_it_runs() -> None:
    spread = {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}
    assert reading({}, [member("p", spec=spread)]).gang.root.pods[0].unsupported
    (pods,) = reading({}, [member("p", node="n1", spec=spread)]).gang.root.pods
    assert pods.unsupported == ""


def test_k8_pods_that_keep_apart_by_a_label_may_be_of_two_shapes() -> None:
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def one(name: str, gpus: int) -> Any:
        containers = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpus}}}]
        return member(name, labels={"app": "web"}, spec={"affinity": affinity, "containers": containers})

    assert reading({}, [one("a", 1), one("b", 1)]).gang.root.pods[0].anti_affinity == ("rack",)
    (leaf,) = reading({}, [one("a", 1), one("b", 2)]).gang.root.groups
    assert [(pods.anti_affinity, pods.unsupported) for pods in leaf.pods] == [(("rack",), "")] * 2


def test_pods_get_places_by_role_task_priority_index_age_and_name() -> None:
    pods = [
        member("young", creationTimestamp="2026-01-02T00:00:00Z"),
        member("old-b", creationTimestamp="2026-01-01T00:00:00Z"),
        member("old-a", creationTimestamp="2026-01-01T00:00:00Z"),
        member("ten", labels={"grove.io/podclique-pod-index": "10"}),
        member("nine", labels={"grove.io/podclique-pod-index": "9"}),
        member("first", labels={"kai.scheduler/task-priority": "5"}),
        member("odd", labels={"kai.scheduler/task-priority": "high"}, creationTimestamp="2026-01-03T00:00:00Z"),
        member("head", labels={"ray.io/node-type": "head"}),
        member("launcher", labels={"training.kubeflow.org/job-role": "launcher"}),
        member("worker", labels={"training.kubeflow.org/job-role": "worker", "kai.scheduler/task-priority": "-1"}),
    ]
    expected = ["head", "launcher", "first", "nine", "ten", "old-a", "old-b", "young", "odd", "worker"]
    assert waiting_names(reading({}, pods)) == {"default": expected}


@pytest.mark.parametrize(
    ("name", "preemptibility", "priority", "preemptible"),
    [
        ("train", "", 50, True),
        ("build", "", 100, False),
        ("build", "preemptible", 100, True),
        ("train", "non-preemptible", 50, False),
        ("unknown", "", 75, True),
        ("", "", 75, True),
    ],
)
def test_priority_and_preemptibility_come_from_the_class(
    name: str, preemptibility: str, priority: int, preemptible: bool
) -> None:
    classes = [("train", 50, False), ("build", 100, False), ("fallback", 75, True)]
    known = tuple(
        msgspec.convert({"metadata": {"name": name}, "value": value, "globalDefault": default}, PriorityClass)
        for name, value, default in classes
    )
    context = Context(RESOURCES, Priorities(known))
    gang = reading({"priorityClassName": name, "preemptibility": preemptibility}, [], context).gang
    assert (gang.priority, gang.preemptible) == (priority, preemptible)


def test_without_any_class_the_priority_is_50() -> None:
    assert reading({"priorityClassName": "gone"}, []).gang.priority == 50


def test_a_class_that_is_removed_counts_no_more() -> None:
    priorities = Priorities()
    priorities.put(msgspec.convert({"metadata": {"name": "a"}, "value": 7, "globalDefault": True}, PriorityClass))
    assert (priorities.of("a"), priorities.of("")) == (7, 7)
    priorities.remove("a")
    assert (priorities.of("a"), priorities.of("")) == (50, 50)


def test_k16_a_gang_that_names_no_queue_is_in_the_default_queue() -> None:
    assert reading({}, []).queue == "default-queue"
    assert reading({"queue": "team"}, []).queue == "team"


def test_g12_a_scaled_gang_is_tied_to_the_podgroup_of_its_base() -> None:
    found = reading({}, members(1), annotations={"spinney.dev/tied-to": "set-0,example.com/rack"})
    assert found.gang.tied_to == Tie("ns/set-0", "example.com/rack")
    assert not found.mistake


@pytest.mark.parametrize("written", ["", "set-0", "set-0,", ",rack", "a,b,c"])
def test_g12_a_tie_that_cannot_be_read_is_a_mistake_not_freedom(written: str) -> None:
    found = reading({}, members(1), annotations={"spinney.dev/tied-to": written})
    assert found.mistake == f"annotation spinney.dev/tied-to is '{written}', expected <base gang>,<level key>"


@pytest.mark.parametrize("written", ["", "3", "{}", '[{"name": "a"}]', "[[", '[{"name": "a", "count": "many"}]'])
def test_g12_what_a_base_gang_tells_of_its_set_is_a_hint_that_may_be_unreadable(written: str) -> None:
    found = reading({}, members(1), annotations={"spinney.dev/scaled-gangs": written})
    assert (found.scaled_gangs, found.mistake) == ((), "")


def test_g11_the_podgroup_of_a_podgang_is_read_as_its_tree() -> None:
    gang = msgspec.convert(
        {
            "metadata": {"name": "set-0", "namespace": "ns", "annotations": {"grove.io/topology-name": "cluster"}},
            "spec": {
                "topologyConstraint": {"packConstraint": {"required": "zone"}},
                "podgroups": [
                    {"name": "set-0-router", "minReplicas": 1, "podReferences": []},
                    {"name": "set-0-workers-0-leader", "minReplicas": 1, "podReferences": []},
                    {"name": "set-0-workers-0-worker", "minReplicas": 2, "podReferences": []},
                ],
                "topologyConstraintGroupConfigs": [
                    {
                        "name": "set-0-workers-0",
                        "podGroupNames": ["set-0-workers-0-leader", "set-0-workers-0-worker"],
                        "topologyConstraint": {"packConstraint": {"required": "rack"}},
                    }
                ],
            },
        },
        PodGang,
    )
    pods = members(1, "set-0-router") + members(1, "set-0-workers-0-leader") + members(3, "set-0-workers-0-worker")
    made = msgspec.structs.replace(podgroup(name="set-0"), spec=podgroup_spec(gang))
    found = read_gang(made, pods, CHECKED)
    assert found.ready and not found.mistake
    (workers,) = found.gang.root.groups
    assert (workers.required, workers.min_groups) == ("rack", 2)
    assert [(pods.min, pods.count) for pods in workers.pods] == [(1, 1), (2, 3)]


def test_demand_counts_what_is_missing_to_the_minimum() -> None:
    found = reading({"minMember": 3}, [member("r", node="n1"), *members(4)])
    assert demand(found.gang, RESOURCES) == (0, 0, 2, 2)
    assert demand(reading({}, []).gang, RESOURCES) == (0, 0, 0, 0)


def test_k14_demand_counts_the_children_that_ask_for_least_where_some_suffice() -> None:
    spec = {"minSubGroup": 1, "subGroups": [subgroup("a", 2), subgroup("b", 1), subgroup("c", 3)]}
    pods = [*members(2, "a"), *members(3, "c"), member("big", "b", gpus=8)]
    assert demand(reading(spec, pods).gang, RESOURCES) == (0, 0, 1, 2)


def test_live3_who_runs_where_is_known_while_the_level_of_a_gang_is_away() -> None:
    spec = {"minMember": 2, "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": "rck"}}
    found = reading(spec, [member("r", node="n1"), *members(1)], CHECKED)
    assert [(one.pods, one.node) for one in found.gang.running] == [("default", "n1")]
    assert (found.ready, dict(found.waiting), len(found.held)) == (False, {}, 1)
    assert found.gang.root.required is None


@pytest.mark.parametrize(
    ("pods", "short"),
    [
        pytest.param([*members(2, "a", node="n"), *members(2, "b", node="n")], set(), id="everybody is there"),
        pytest.param([*members(2, "a", node="n"), *members(1, "b", node="n")], {"b"}, id="too few of a leaf"),
        pytest.param([*members(2, "a", node="n"), *members(1, "b"), *members(1, "b", 1, node="n")], set(), id="waits"),
        pytest.param(members(2, "a", node="n"), set(), id="enough leaves without the one that is not there"),
        pytest.param(members(1, "a", node="n"), {"a"}, id="too few of the only leaf"),
    ],
)
def test_inv7_a_reading_says_which_parts_have_too_few_pods_for_their_minimum(pods: list[Pod], short: set[str]) -> None:
    spec = {"minSubGroup": 1, "subGroups": [subgroup("a", 2), subgroup("b", 2)]}
    assert reading(spec, pods).gang.short == short


def test_inv7_a_group_without_one_of_its_leaves_has_not_its_minimum_unless_that_may_be_empty() -> None:
    for least, short in ((1, {"g"}), (0, set())):
        leaves = [subgroup("a", 1, "g"), subgroup("b", least, "g"), subgroup("c", 1)]
        spec = {"minSubGroup": 1, "subGroups": [subgroup("g"), *leaves]}
        assert reading(spec, [member("a-0", "a", "n"), member("c-0", "c", "n")]).gang.short == short
