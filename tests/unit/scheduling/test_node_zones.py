"""What a node publishes about its zones, read for placement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.builtin.node import NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.placement.problem import Node, Topology, Zone
from spinney.core.scheduling.amounts import below_hosts, policy_of, with_zones, zone_of, zones_of

RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")


def published(*zones: dict[str, Any], **more: Any) -> NodeResourceTopology:
    document = {"metadata": {"name": "n0"}, "zones": list(zones), **more}
    return msgspec.convert(document, NodeResourceTopology)


def zone(name: str, *resources: tuple[str, str, str], kind: str = "Node") -> dict[str, Any]:
    amounts = [
        {"name": one, "capacity": allocatable, "allocatable": allocatable, "available": available}
        for one, allocatable, available in resources
    ]
    return {"name": name, "type": kind, "resources": amounts}


def single(**more: Any) -> dict[str, Any]:
    return {"attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}], **more}


def test_k12_zones_are_read_by_name_with_what_is_allocatable() -> None:
    found = zones_of(
        published(
            zone("node-1", ("cpu", "31500m", "31500m"), ("nvidia.com/gpu", "4", "4")),
            zone("node-0", ("memory", "256Gi", "256Gi"), ("nvidia.com/gpu", "4", "4"), ("hugepages-1Gi", "4", "4")),
            zone("core-0", ("cpu", "2", "2"), kind="Core"),
        ),
        RESOURCES,
    )
    nothing = (0, 0, 0, 0)
    assert found == (
        Zone("node-0", (0, 256 * 2**30, 0, 4), nothing, nothing),
        Zone("node-1", (31500, 0, 0, 4), nothing, nothing),
    )


def test_k12_what_is_not_available_and_held_by_no_known_pod_is_used() -> None:
    shown = published(zone("node-0", ("nvidia.com/gpu", "8", "1")), zone("node-1", ("nvidia.com/gpu", "8", "8")))
    held = [("node-0", (0, 0, 1, 4)), ("", (0, 0, 1, 1)), ("node-1", (0, 0, 1, 2))]
    assert [each.used[3] for each in zones_of(shown, RESOURCES, held)] == [2, 0]


@pytest.mark.parametrize("text", ["", "many", "-4"])
def test_k12_an_amount_that_cannot_be_read_is_none(text: str) -> None:
    [found] = zones_of(published(zone("node-0", ("nvidia.com/gpu", text, text))), RESOURCES)
    assert found.allocatable == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        (single(), "single-numa-node"),
        ({"topologyPolicies": ["SingleNUMANodePodLevel"]}, "single-numa-node"),
        ({"topologyPolicies": ["SingleNUMANodeContainerLevel"]}, "single-numa-node"),
        ({"topologyPolicies": ["RestrictedContainerLevel"]}, "restricted"),
        ({"topologyPolicies": ["BestEffort"]}, "best-effort"),
        ({"topologyPolicies": ["None"]}, "none"),
        ({"topologyPolicies": ["Unheard"]}, ""),
        ({}, ""),
        (single(topologyPolicies=["None"]), "single-numa-node"),
    ],
)
def test_k12_the_policy_is_an_attribute_or_the_older_field(said: dict[str, Any], policy: str) -> None:
    assert policy_of(published(**said)) == policy


def test_k12_a_node_that_publishes_nothing_stays_as_it_is() -> None:
    node = Node("n0", {}, (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0))
    assert with_zones(node, None, RESOURCES) == node
    assert not with_zones(node, published(**single()), RESOURCES).is_divided
    assert with_zones(node, published(zone("node-0"), **single()), RESOURCES).is_divided
    assert not with_zones(node, published(zone("node-0")), RESOURCES).is_divided


def test_k12_the_zone_of_a_pod_is_the_one_it_was_bound_to() -> None:
    annotated = {"metadata": {"name": "p", "annotations": {"spinney.dev/zone": "node-1"}}}
    assert zone_of(msgspec.convert(annotated, Pod)) == "node-1"
    assert zone_of(msgspec.convert({"metadata": {"name": "p"}}, Pod)) == ""


def test_t7_the_key_of_the_numa_domain_becomes_the_level_of_zones() -> None:
    levels = [{"domain": "rack", "key": "example.com/rack"}, {"domain": "numa", "key": "example.com/numa"}]
    deep = msgspec.convert({"metadata": {"name": "t"}, "spec": {"levels": levels}}, ClusterTopology)
    flat = msgspec.convert({"metadata": {"name": "t"}, "spec": {"levels": levels[:1]}}, ClusterTopology)
    topology = Topology("t", ("example.com/rack",))
    assert below_hosts(topology, deep) == Topology("t", ("example.com/rack", "example.com/numa"), zones=True)
    assert below_hosts(topology, flat) == topology
