"""Topologies proposed from labels: usual keys, nesting checked on the nodes, one proposal for each kind of nodes"""

from __future__ import annotations

from typing import Any

import pytest

from kube_apimachinery.name_validation import qualified_name
from spinney.api.builtin.node import Node
from spinney.api.labels import HOSTNAME, REGION, ZONE
from spinney.core.view.discovery import KNOWN, Discovery, Proposal, discover, known
from unit.view.clusters import BLOCK, RACK, cluster_topology, hall, labelled, lingjun, node

H100, GB200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-GB200"


def only(found: Discovery) -> Proposal:
    assert len(found.proposals) == 1, found
    return found.proposals[0]


def levels(proposal: Proposal) -> dict[str, str]:
    return {level.domain: level.key for level in proposal.levels}


def why(proposal: Proposal, key: str) -> str:
    return next(one.why for one in proposal.left_out if one.key == key)


def grid(keys: list[str], widths: list[int], product: str = "", **constant: str) -> list[Node]:
    """Nodes of a full tree: every value names its path."""
    nodes: list[Node] = []

    def grow(path: list[str], labels: dict[str, str]) -> None:
        depth = len(path)
        if depth == len(widths):
            nodes.append(labelled("-".join(path), {**constant, **labels}, product=product))
            return
        for at in range(widths[depth]):
            here = [*path, f"{product.lower()[:1]}{'abcdefg'[depth]}{at}"]
            more = {keys[depth]: "-".join(here)} if depth < len(keys) else {}
            grow(here, {**labels, **more})

    grow([], {})
    return nodes


VENDORS: dict[str, tuple[list[str], dict[str, str]]] = {
    "AWS": (
        [f"topology.k8s.aws/network-node-layer-{at}" for at in (1, 2, 3)],
        {"datacenter": "layer-1", "block": "layer-2", "rack": "layer-3"},
    ),
    "Google Cloud": (
        ["cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"],
        {"block": "topology-block", "rack": "topology-subblock"},
    ),
    "Oracle Cloud": (
        [f"oci.oraclecloud.com/rdma.{each}" for each in ("hpc_island_id", "network_block_id", "local_block_id")],
        {"datacenter": "hpc_island_id", "block": "network_block_id", "rack": "local_block_id"},
    ),
    "CoreWeave": (
        [f"backend.coreweave.cloud/{each}" for each in ("fabric", "superpod", "leafgroup")],
        {"datacenter": "fabric", "block": "superpod", "rack": "leafgroup"},
    ),
    "Nebius": (
        [f"topology.nebius.com/{each}" for each in ("gpu-cluster-id", "tier-2", "tier-1")],
        {"datacenter": "gpu-cluster-id", "block": "tier-2", "rack": "tier-1"},
    ),
    "Topograph": (
        [f"network.topology.nvidia.com/{each}" for each in ("core", "spine", "leaf")],
        {"datacenter": "core", "block": "spine", "rack": "leaf"},
    ),
    "Kueue": (
        ["cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"],
        {"block": "topology-block", "rack": "topology-rack"},
    ),
    "convention": (
        [ZONE, "topology.kubernetes.io/block", "topology.kubernetes.io/rack"],
        {"zone": "zone", "block": "block", "rack": "rack"},
    ),
}


@pytest.mark.parametrize("vendor", list(VENDORS))
def test_b2_the_usual_keys_become_levels(vendor: str) -> None:
    keys, expected = VENDORS[vendor]
    found = levels(only(discover(grid(keys, [2] * len(keys) + [2]))))
    assert list(found) == [*expected, "host"]
    assert all(found[domain].endswith(ending) for domain, ending in expected.items())
    assert found["host"] == HOSTNAME


def test_b2_levels_stand_broad_to_narrow_whatever_the_names_say() -> None:
    """Topograph's older `block` is what is now called leaf: the data decides."""
    keys = ["network.topology.nvidia.com/spine", "network.topology.nvidia.com/block", "nvidia.com/gpu.clique"]
    assert [level.key for level in only(discover(grid(keys, [2, 2, 2, 2]))).levels] == [*keys, HOSTNAME]


def test_b2_four_layers_below_a_zone_use_all_names() -> None:
    keys = [ZONE, *(f"topology.k8s.aws/network-node-layer-{at}" for at in (1, 2, 3, 4))]
    found = levels(only(discover(grid(keys, [2, 2, 2, 2, 2, 2]))))
    assert list(found.values()) == [*keys, HOSTNAME]
    assert list(found) == ["region", "zone", "datacenter", "block", "rack", "host"]


def test_b2_with_more_keys_than_names_one_that_divides_nothing_goes() -> None:
    keys = [ZONE, *(f"topology.k8s.aws/network-node-layer-{at}" for at in (1, 2, 3, 4))]
    proposal = only(discover(grid(keys, [2, 2, 2, 2, 2, 2], **{REGION: "one"})))
    assert "at most 5 levels" in why(proposal, REGION)


def test_b2_a_key_with_the_same_domains_as_another_is_left_out_with_the_reason() -> None:
    nodes = [labelled(f"n{at}", {"topology.kubernetes.io/rack": f"r{at // 2}"}) for at in range(4)]
    nodes = [
        labelled(each.metadata.name, {**each.metadata.labels, "nvidia.com/gpu.clique": f"c{at // 2}"})
        for at, each in enumerate(nodes)
    ]
    proposal = only(discover(nodes))
    assert why(proposal, "nvidia.com/gpu.clique") == "its domains are those of topology.kubernetes.io/rack"


def test_b2_a_key_that_crosses_another_is_left_out_with_an_example() -> None:
    layer, reservation = "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/capacity-block-id"
    pairs = [("l0", "c0"), ("l0", "c1"), ("l1", "c0"), ("l1", "c1")] * 2
    nodes = [labelled(f"n{at}", {layer: one, reservation: other}) for at, (one, other) in enumerate(pairs)]
    proposal = only(discover(nodes))
    assert levels(proposal) == {"block": layer, "host": HOSTNAME}
    assert why(proposal, reservation) == f"it crosses {layer}: c0 lies in l0 and in l1"


def test_b2_a_key_with_another_value_on_every_node_is_left_out() -> None:
    key = "cloud.google.com/gce-topology-host"
    nodes = [
        labelled(f"n{at}", {"cloud.google.com/gce-topology-block": f"b{at // 2}", key: f"h{at}"}) for at in range(4)
    ]
    assert why(only(discover(nodes)), key) == "it has another value on every node"


def test_b2_names_that_repeat_below_known_levels_are_paths() -> None:
    nodes = [labelled(f"{b}{r}{h}", {BLOCK: b, RACK: r}) for b in "abc" for r in ("r0", "r1") for h in range(3)]
    proposal = only(discover(nodes))
    assert [(level.domain, level.domains) for level in proposal.levels] == [("block", 3), ("rack", 6), ("host", 18)]
    assert "r0" in proposal.levels[1].remark


def test_b2_one_wrong_label_does_not_cost_a_level_and_is_told() -> None:
    nodes = hall(4, 4, 4)
    nodes[0] = node("b0-r0-h0", block="b0", rack="b3-r3")
    proposal = only(discover(nodes))
    assert list(levels(proposal)) == ["block", "rack", "host"]
    assert "b3-r3" in proposal.levels[1].remark


def test_b2_the_lingjun_topology_is_found() -> None:
    proposal = only(discover(lingjun()))
    assert [(level.key.rpartition("/")[2], level.domains) for level in proposal.levels] == [
        ("core", 1),
        ("aggregation", 3),
        ("tor", 119),
        ("hostname", 847),
    ]


def test_b2_nodes_with_other_keys_get_a_proposal_of_their_own() -> None:
    first = grid(["h100.example.com/block", "h100.example.com/rack"], [2, 2, 2], H100)
    second = grid([ZONE, "gb200.example.com/block", "nvidia.com/gpu.clique"], [1, 2, 2, 2], GB200)
    found = discover([*first, *second])
    assert {one.name: list(levels(one)) for one in found.proposals} == {
        "h100": ["block", "rack", "host"],
        "gb200": ["zone", "block", "rack", "host"],
    }


def test_b2_a_few_nodes_of_the_same_hardware_that_lack_a_key_are_named() -> None:
    nodes = [*grid([BLOCK, RACK], [2, 2, 2], H100), labelled("forgotten", {BLOCK: "na0"}, product=H100)]
    proposal = only(discover(nodes))
    assert proposal.incomplete == (("forgotten", (RACK,)),)


def test_b2_a_key_that_few_nodes_of_the_same_hardware_carry_is_left_out_with_the_count() -> None:
    nodes = grid([BLOCK, RACK], [2, 2, 2], H100)
    first = nodes[0].metadata
    nodes[0] = labelled(first.name, {**first.labels, "example.com/switch": "s"}, product=H100)
    proposal = only(discover(nodes))
    assert len(proposal.nodes) == 8
    assert why(proposal, "example.com/switch") == "1 of 8 nodes carry it"


def test_b2_of_two_keys_for_the_only_zone_one_is_enough() -> None:
    nodes = grid([RACK], [2, 2], **{ZONE: "z", "topology.k8s.aws/zone-id": "use1-az1", REGION: "r"})
    proposal = only(discover(nodes))
    assert list(levels(proposal)) == ["region", "zone", "rack", "host"]
    assert why(proposal, "topology.k8s.aws/zone-id") == f"its domains are those of {ZONE}"


def test_b2_other_hardware_with_fewer_keys_is_not_taken_for_incomplete() -> None:
    few = [labelled(f"l{at}", {"topology.kubernetes.io/rack": f"x{at // 2}"}, product="NVIDIA-L40S") for at in range(4)]
    many = grid(["topology.kubernetes.io/block", "topology.kubernetes.io/rack"], [2, 4, 4], H100)
    assert {one.name for one in discover([*many, *few]).proposals} == {"h100", "l40s"}


def test_b2_nodes_without_accelerators_and_keys_are_left_alone_with_the_reason() -> None:
    found = discover([*hall(), labelled("control-plane", {ZONE: "z"}, gpus=0)])
    assert only(found).nodes[0] == "b0-r0-h0"
    assert found.without == (("no accelerators, and no key but those that all nodes carry", ("control-plane",)),)


def test_b2_zones_alone_are_a_topology_if_there_are_two() -> None:
    nodes = [labelled(f"n{at}", {ZONE: f"z{at % 2}"}) for at in range(4)]
    assert levels(only(discover(nodes))) == {"zone": ZONE, "host": HOSTNAME}


@pytest.mark.parametrize("labels", [{}, {ZONE: "z"}, {"example.com/rack": ""}])
def test_b2_without_a_key_that_divides_nodes_there_is_no_proposal(labels: dict[str, str]) -> None:
    found = discover([labelled(f"n{at}", labels) for at in range(3)])
    assert found.proposals == ()
    assert "no key that divides them" in found.without[0][0]


def test_b2_no_nodes_no_proposal() -> None:
    assert discover([]) == Discovery(())


def test_b2_an_unknown_key_that_nests_is_offered_with_its_place() -> None:
    nodes = [
        labelled(f"n{b}{r}{h}", {BLOCK: f"b{b}", RACK: f"b{b}r{r}", "example.com/cage": f"cage-{b // 2}"})
        for b in range(4)
        for r in range(2)
        for h in range(2)
    ]
    proposal = only(discover(nodes))
    assert [(offer.key, offer.domains, offer.above) for offer in proposal.offers] == [("example.com/cage", 2, BLOCK)]
    assert "example.com/cage" not in levels(proposal).values()


def test_b2_what_nodes_are_is_not_offered_as_where_they_are() -> None:
    extra = {
        "node.kubernetes.io/instance-type": "big",
        "feature.node.kubernetes.io/x": "1",
        "kubernetes.io/os": "linux",
    }
    nodes = [labelled(one.metadata.name, {**one.metadata.labels, **extra}) for one in hall()]
    assert only(discover(nodes)).offers == ()


def test_b2_hosts_that_cannot_be_told_apart_are_no_level() -> None:
    nodes = [labelled(f"n{at}", {RACK: f"r{at // 2}", HOSTNAME: "same"}) for at in range(4)]
    proposal = only(discover(nodes))
    assert (list(levels(proposal)), why(proposal, HOSTNAME)) == (["rack"], "two nodes carry the same value")


def test_b2_a_key_that_no_topology_takes_is_no_level() -> None:
    nodes = [labelled(f"n{at}", {RACK: f"r{at // 2}", f"{'x' * 60}.com/block": "b"}) for at in range(4)]
    assert list(levels(only(discover(nodes)))) == ["rack", "host"]


def test_b2_a_topology_that_is_there_is_named_and_its_name_not_taken() -> None:
    nodes = grid([BLOCK, RACK], [2, 2, 2], H100)
    there = [cluster_topology("mine"), cluster_topology("h100", rack=RACK)]
    proposal = only(discover(nodes, there))
    assert (proposal.same_as, proposal.name) == ("mine", "h100-2")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        (H100, "h100"),
        (GB200, "gb200"),
        ("NVIDIA-L40S", "l40s"),
        ("Tesla-V100-SXM2-16GB", "v100"),
        ("", "topology"),
        ("grove-topology", "topology"),
    ],
)
def test_b2_a_proposal_is_named_by_its_gpus(product: str, name: str) -> None:
    assert only(discover(grid([BLOCK], [2, 2], product))).name == name


def test_b2_the_name_may_be_given() -> None:
    assert only(discover(hall(), (), "mine")).name == "mine"


@pytest.mark.parametrize(
    ("key", "domain"),
    [
        ("acme.com/rack", "rack"),
        ("acme.com/topology-rack", "rack"),
        ("acme.com/rack_id", "rack"),
        ("acme.com/spine-name", "block"),
        ("rack", "rack"),
        ("acme.com/racked", None),
        ("node.kubernetes.io/zone", None),
        ("acme.com/", None),
    ],
)
def test_b2_keys_are_known_by_their_last_word(key: str, domain: str | None) -> None:
    found: Any = known(key)
    assert (found.domain if found else None) == domain


def test_every_known_key_can_be_the_key_of_a_level_and_is_listed_once() -> None:
    assert [one.key for one in KNOWN if len(one.key) > 63 or qualified_name(one.key)] == []
    assert len({one.key for one in KNOWN}) == len(KNOWN)


def test_for_programs_there_are_manifest_and_reasons() -> None:
    told = discover(hall()).to_json()["proposals"][0]
    assert told["manifest"]["kind"] == "ClusterTopology"
    assert told["levels"][0] == {
        "domain": "block",
        "key": BLOCK,
        "source": "by its name",
        "domains": 2,
        "nodesPerDomain": {"least": 4, "most": 4},
    }
