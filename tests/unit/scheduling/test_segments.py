"""Blocks of pods inside a leaf."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import Topology
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang
from spinney.core.scheduling.gang.ranks import assign_segments
from unit.scheduling.reading_kit import RESOURCES, member, members, reading, subgroup, waiting_names

TOPOLOGY = Topology("cluster", ("zone", "rack", "host"))
CONTEXT = Context(RESOURCES, topologies={"cluster": TOPOLOGY}, short_levels={"cluster": {"shelf": "rack"}})
ZONE = {"topology": "cluster", "requiredTopologyLevel": "zone"}
SIZE = "kai.scheduler/segment-size"
REQUIRED = "kai.scheduler/segment-topology-required-placement"
PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
INDEX = "batch.kubernetes.io/job-completion-index"


def segmented(pods: list[Pod], count: int | None = None, **annotations: str) -> ParsedGang:
    given = {SIZE: "2", REQUIRED: "rack", **{_key(name): text for name, text in annotations.items()}}
    kept = {key: text for key, text in given.items() if text}
    spec = {"minMember": len(pods) if count is None else count, "topologyConstraint": ZONE}
    return reading(spec, pods, CONTEXT, annotations=kept)


def _key(name: str) -> str:
    return {"size": SIZE, "required": REQUIRED, "preferred": PREFERRED, "topology": "kai.scheduler/topology"}[name]


def indexed(count: int, **more: Any) -> list[Pod]:
    return [member(f"p-{i}", labels={INDEX: str(i)}, **more) for i in range(count)]


def test_k13_indexed_pods_go_by_index_and_the_last_block_may_be_smaller() -> None:
    found = segmented(indexed(5))
    assert waiting_names(found) == {
        "default/segment-0": ["p-0", "p-1"],
        "default/segment-1": ["p-2", "p-3"],
        "default/segment-2": ["p-4"],
    }
    (leaf,) = found.gang.root.groups
    assert [(pods.name, pods.min, pods.count) for pods in leaf.pods] == [
        ("segment-0", 2, 2),
        ("segment-1", 2, 2),
        ("segment-2", 1, 1),
    ]
    assert all((pods.topology, pods.required, pods.preferred) == ("cluster", "rack", None) for pods in leaf.pods)
    assert found.segments == {"uid-p-0": 0, "uid-p-1": 0, "uid-p-2": 1, "uid-p-3": 1, "uid-p-4": 2}


@pytest.mark.parametrize(
    "key",
    [
        INDEX,
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
        "grove.io/podclique-pod-index",
        "apps.kubernetes.io/pod-index",
    ],
)
def test_k13_every_owner_that_numbers_its_pods_is_understood(key: str) -> None:
    pods = [member(name, labels={key: index}) for name, index in (("a", "2"), ("b", "0"), ("c", "3"), ("d", "1"))]
    assert waiting_names(segmented(pods)) == {"default/segment-0": ["b", "d"], "default/segment-1": ["a", "c"]}


def test_k13_pods_that_their_owner_has_put_into_blocks_stay_there() -> None:
    """A LeaderWorkerSet of five in blocks of two: the leader is one more in the first block."""
    prefix = "leaderworkerset.sigs.k8s.io"
    pods = [
        member(f"p-{i}", labels={f"{prefix}/worker-index": str(i), f"{prefix}/subgroup-index": block})
        for i, block in enumerate("00011")
    ]
    assert waiting_names(segmented(pods)) == {
        "default/segment-0": ["p-0", "p-1", "p-2"],
        "default/segment-1": ["p-3", "p-4"],
    }


def test_k13_pods_that_name_a_level_only_have_the_size_of_their_podgroup() -> None:
    pods = [member(f"p-{i}", annotations={REQUIRED: "rack"}) for i in range(4)]
    assert waiting_names(segmented(pods, size="2")) == {
        "default/segment-0": ["p-0", "p-1"],
        "default/segment-1": ["p-2", "p-3"],
    }


def test_k13_pods_without_an_index_are_dealt_out_in_order() -> None:
    assert waiting_names(segmented(members(3))) == {"default/segment-0": ["p-0", "p-1"], "default/segment-1": ["p-2"]}


@pytest.mark.parametrize("index", ["-1", "one", "", "99999999999999999999"])
def test_k13_an_index_that_is_no_number_is_no_index(index: str) -> None:
    pods = [member("a", labels={INDEX: index}), member("b", labels={INDEX: "2"})]
    assert segmented(pods).segments == {"uid-a": 0, "uid-b": 1}


def test_k13_a_far_index_costs_nothing() -> None:
    found = segmented([member("far", labels={INDEX: "999999999"}), *members(2)], size="1")
    assert found.segments == {"uid-far": 999999999, "uid-p-0": 0, "uid-p-1": 1}


def test_k13_members_that_run_keep_their_segment_and_are_joined_first() -> None:
    running = [
        member("r-0", node="n1", annotations={"spinney.dev/segment": "3"}),
        member("r-1", node="n2", annotations={"spinney.dev/segment": "1"}),
    ]
    found = segmented([*running, *members(4)])
    assert waiting_names(found) == {
        "default/segment-1": ["p-0"],
        "default/segment-3": ["p-1"],
        "default/segment-0": ["p-2", "p-3"],
    }
    assert found.members["uid-r-0"] == "default/segment-3"
    assert {(run.pods, run.node) for run in found.gang.running} == {
        ("default/segment-3", "n1"),
        ("default/segment-1", "n2"),
    }


def test_k13_elastic_blocks_come_after_the_minimum() -> None:
    (leaf,) = segmented(indexed(5), count=3).gang.root.groups
    assert [(pods.min, pods.count) for pods in leaf.pods] == [(2, 2), (1, 2), (0, 1)]


def test_k13_pods_of_different_shapes_share_a_segment() -> None:
    pods = [member("p-0", gpus=8, labels={INDEX: "0"}), member("p-1", labels={INDEX: "1"})]
    found = segmented(pods)
    (segment,) = found.gang.root.groups[0].groups
    assert (segment.name, segment.required) == ("segment-0", "rack")
    assert waiting_names(found) == {"default/segment-0/shape-0": ["p-0"], "default/segment-0/shape-1": ["p-1"]}


def test_k13_annotations_of_the_pods_win_over_those_of_the_podgroup() -> None:
    own = {SIZE: "3", PREFERRED: "host"}
    found = segmented(members(3, annotations=own))
    (leaf,) = found.gang.root.groups
    assert [(pods.count, pods.required, pods.preferred) for pods in leaf.pods] == [(3, None, "host")]


def test_k13_only_leaves_that_ask_are_cut() -> None:
    spec = {"subGroups": [subgroup("master", 1), subgroup("worker", 4)], "topologyConstraint": ZONE}
    pods = [*members(1, "master"), *members(4, "worker", annotations={SIZE: "2", REQUIRED: "rack"})]
    root = reading(spec, pods, CONTEXT).gang.root
    assert [pods.name for pods in root.pods] == ["master"]
    assert [(group.name, len(group.pods)) for group in root.groups] == [("worker", 2)]


def test_k13_segments_of_two_leaves_are_different_blocks() -> None:
    spec = {"subGroups": [subgroup("a", 1), subgroup("b", 1)], "topologyConstraint": ZONE}
    found = reading(spec, members(1, "a") + members(1, "b"), CONTEXT, annotations={SIZE: "1", REQUIRED: "rack"})
    assert found.segments == {"uid-a-0": 0, "uid-b-0": 0}
    assert found.blocks == {"uid-a-0": ("a", 0), "uid-b-0": ("b", 0)}


def test_k1_a_level_may_be_given_by_its_short_name() -> None:
    assert segmented(members(2), required="shelf").gang.root.groups[0].pods[0].required == "rack"


def test_k13_a_gang_without_a_constraint_names_the_topology_by_annotation() -> None:
    annotations: dict[str, Any] = {SIZE: "2", REQUIRED: "rack", "kai.scheduler/topology": "cluster"}
    found = reading({}, members(2), CONTEXT, annotations=annotations)
    assert found.gang.root.groups[0].pods[0].topology == "cluster"


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"size": "0"}, f"annotation {SIZE} of sub-group default is '0', expected a whole number from 1"),
        ({"size": "two"}, f"annotation {SIZE} of sub-group default is 'two', expected a whole number from 1"),
        ({"size": ""}, f"annotation {REQUIRED} of sub-group default is given without {SIZE}"),
        (
            {"required": ""},
            f"annotation {SIZE} of sub-group default is given without {REQUIRED} or {PREFERRED}",
        ),
        (
            {"required": "rck"},
            "topology constraint error: sub-group default specified 'rck' as the required segment topology constraint "
            "level, but the topology tree 'cluster' does not contain a level with this name; did you mean rack?",
        ),
    ],
)
def test_k13_mistakes_are_said(annotations: dict[str, Any], text: str) -> None:
    found = segmented(members(2), **annotations)
    assert found.mistake == text
    assert {held.reason for held in found.held} == {text}


def test_k13_segments_without_a_topology_are_a_mistake() -> None:
    found = reading({}, members(2), CONTEXT, annotations={SIZE: "2", REQUIRED: "rack"})
    assert found.mistake == f"annotation {SIZE} of sub-group default is given without a topology"


def test_k13_pods_that_contradict_each_other_are_a_mistake() -> None:
    pods = [member(name, annotations={SIZE: size, REQUIRED: "rack"}) for name, size in (("a", "2"), ("b", "3"))]
    assert segmented(pods).mistake == "pods a and b of sub-group default have different segment annotations"


@given(
    size=st.integers(1, 5),
    running=st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=8),
    indices=st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=12),
)
def test_k13_every_pod_gets_a_segment_and_no_dealt_pod_overfills_one(
    size: int, running: list[int | None], indices: list[int | None]
) -> None:
    bound = [
        member(f"r-{i}", node="n", annotations={} if at is None else {"spinney.dev/segment": str(at)})
        for i, at in enumerate(running)
    ]
    fresh = [member(f"w-{i}", labels={} if at is None else {INDEX: str(at)}) for i, at in enumerate(indices)]
    found = assign_segments(bound, fresh, size)
    assert found.keys() == {pod.metadata.uid for pod in (*bound, *fresh)}
    loose = {f"uid-r-{i}" for i, at in enumerate(running) if at is None}
    loose |= {f"uid-w-{i}" for i, at in enumerate(indices) if at is None}
    for uid in loose:
        assert sum(other == found[uid] for other in found.values()) <= size
    for i, at in enumerate(running):
        assert at is None or found[f"uid-r-{i}"] == at
    for i, at in enumerate(indices):
        assert at is None or found[f"uid-w-{i}"] == at // size
