"""What PodGroups say of the pods in them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spinney.api.kinds.podgroup import ResourcesStatus
from spinney.core.scheduling.queues.status import (
    ResourceUsage,
    podgroup_status_changes,
    resource_usage,
    resources_status,
)
from unit.scheduling.reading_kit import container, member, pod

GPU = "nvidia.com/gpu"
BUSY = resources_status(ResourceUsage({GPU: 3, "cpu": 500, "memory": 2**30, "pods": 3}, {GPU: 1}), preemptible=False)


def said(status: Mapping[str, object]) -> ResourcesStatus:
    return msgspec.convert(status, ResourcesStatus)


def test_pods_ask_with_or_without_a_node_hold_with_one_and_neither_when_over() -> None:
    over = [member(name, node="n1", status={"phase": name}) for name in ("Succeeded", "Failed")]
    pods = [member("a", node="n1", gpus=2), member("b"), member("c"), *over]
    assert resource_usage(pods) == ResourceUsage({GPU: 4, "pods": 3}, {GPU: 2, "pods": 1})


def test_every_resource_that_is_asked_for_is_said_in_the_words_of_its_kind() -> None:
    asked = {"cpu": "1500m", "memory": "1Gi", "rdma/ib": "2", "hugepages-2Mi": "4Mi", "example.com/none": "0"}
    found = resource_usage([pod(name, {"containers": [container(asked)]}) for name in ("a", "b")])
    assert resources_status(found, preemptible=True)["requested"] == {
        "cpu": "3",
        "memory": "2Gi",
        "rdma/ib": "4",
        "hugepages-2Mi": "8Mi",
    }


def test_what_is_held_is_said_again_for_those_whom_nobody_may_preempt() -> None:
    found = ResourceUsage({GPU: 2}, {GPU: 1})
    assert resources_status(found, preemptible=False)["allocatedNonPreemptible"] == {GPU: "1"}
    assert resources_status(found, preemptible=True)["allocatedNonPreemptible"] == {}


def test_what_is_said_already_is_not_news_however_it_is_spelt() -> None:
    assert podgroup_status_changes(said(BUSY), BUSY) == {}
    assert podgroup_status_changes(said({**BUSY, "requested": {GPU: 3, "cpu": "0.5", "memory": "1024Mi"}}), BUSY) == {}
    assert podgroup_status_changes(said({}), resources_status(ResourceUsage({}, {}), preemptible=False)) == {}


def test_only_what_differs_is_written_and_what_nobody_asks_for_any_more_is_taken_away() -> None:
    more = {**BUSY, "requested": {**BUSY["requested"], "rdma/ib": "1"}, "allocated": {GPU: "9"}}
    assert podgroup_status_changes(said(more), BUSY) == {"requested": {"rdma/ib": None}, "allocated": {GPU: "1"}}
    idle = resources_status(ResourceUsage({}, {}), preemptible=False)
    assert podgroup_status_changes(said(BUSY), idle) == {
        "requested": None,
        "allocated": None,
        "allocatedNonPreemptible": None,
    }
