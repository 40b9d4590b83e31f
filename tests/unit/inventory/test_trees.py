"""Topology trees: domains, members, order, distance; several at once."""

from __future__ import annotations

import pytest

from spinney.api.placement.problem import Topology
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import distance
from unit.inventory.inventory_kit import NETWORK, POWER, RESOURCES, gpus_at, node, racked

DOCUMENT = Topology("network", ("zone", "rack", "host"))
GPUS = {
    ("Zone-A", "Rack-A1"): {"NA1": 2, "NA2": 2, "NA3": 2},
    ("Zone-A", "Rack-A2"): {"NA4": 4},
    ("Zone-A", "Rack-A3"): {"NA5": 2, "NA6": 2, "NA7": 2},
    ("Zone-B", "Rack-B1"): {"NB1": 4, "NB2": 4},
    ("Zone-B", "Rack-B2"): {"NB3": 2},
    ("Zone-C", "Rack-C1"): {"NC1": 2, "NC2": 4},
}


@pytest.fixture
def document() -> Inventory:
    """The tree of the design document."""
    nodes = [
        node(host, {"zone": zone, "rack": rack, "host": host}, (1000, gpus))
        for (zone, rack), hosts in GPUS.items()
        for host, gpus in hosts.items()
    ]
    return Inventory.of(RESOURCES, (DOCUMENT,), nodes)


def zones(inventory: Inventory) -> dict[str, int]:
    return {path[0]: gpus for path, gpus in gpus_at(inventory, "network", 1).items()}


def test_k4_the_documents_tree_adds_up_to_32_as_16_10_and_6(document: Inventory) -> None:
    assert gpus_at(document, "network", 0) == {(): 32}
    assert zones(document) == {"Zone-A": 16, "Zone-B": 10, "Zone-C": 6}
    assert gpus_at(document, "network", 2) == {path: sum(hosts.values()) for path, hosts in GPUS.items()}


def test_k4_the_documents_sums_follow_every_allocation_and_deallocation(document: Inventory) -> None:
    document.add_pod("p", "NA4", (0, 3))
    assert zones(document) == {"Zone-A": 13, "Zone-B": 10, "Zone-C": 6}
    document.remove_pod("p")
    assert zones(document) == {"Zone-A": 16, "Zone-B": 10, "Zone-C": 6}


def test_k4_the_documents_sums_follow_a_simulation_and_its_end(document: Inventory) -> None:
    with document.trial():
        document.take(document.slot("NC2"), (0, 4))
        document.remove_node("NB1")
        assert zones(document) == {"Zone-A": 16, "Zone-B": 6, "Zone-C": 2}
    assert zones(document) == {"Zone-A": 16, "Zone-B": 10, "Zone-C": 6}


def test_k7_the_documents_distances() -> None:
    assert distance(("Zone-C", "Rack-C1", "NC1"), ("Zone-C", "Rack-C1", "NC2")) == 2
    assert distance(("Zone-B", "Rack-B1"), ("Zone-A", "Rack-A1", "NA1")) == 5


def test_k7_distance_counts_edges_through_the_common_ancestor() -> None:
    assert distance((), ("a", "b")) == 2
    assert distance(("a", "r"), ("a", "r")) == 0
    assert distance(("a", "r"), ("b", "r")) == 4


def test_levels_count_from_the_broadest() -> None:
    tree = Inventory(RESOURCES, (NETWORK,)).trees["network"]
    assert [tree.depth(level) for level in ("zone", "block", "rack", "host")] == [1, 2, 3, None]


def test_equal_rack_names_in_two_blocks_are_two_racks() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b1", "r", 3), racked("n2", "a", "b2", "r", 5)])
    assert gpus_at(inventory, "network", 3) == {("a", "b1", "r"): 3, ("a", "b2", "r"): 5}


def test_dots_and_slashes_in_names_do_not_collide() -> None:
    nodes = [racked("n1", "a.b", "c", "r"), racked("n2", "a", "b.c", "r"), racked("n3", "a", "b/c", "r")]
    inventory = Inventory.of(RESOURCES, (NETWORK,), nodes)
    assert sorted(gpus_at(inventory, "network", 2)) == [("a", "b.c"), ("a", "b/c"), ("a.b", "c")]


def test_a_node_takes_part_down_to_its_first_missing_label() -> None:
    inventory = Inventory.of(
        RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r"), node("n2", {"zone": "a", "rack": "r"})]
    )
    tree, slot = inventory.trees["network"], inventory.slot("n2")
    assert [tree.domain_of(depth)[slot] >= 0 for depth in range(4)] == [True, True, False, False]
    assert gpus_at(inventory, "network", 1) == {("a",): 16}
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r"): 8}


def test_a_node_without_labels_counts_in_the_cluster_only() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r"), node("n2")])
    assert gpus_at(inventory, "network", 0) == {(): 16}
    assert gpus_at(inventory, "network", 1) == {("a",): 8}


def test_t5_several_trees_stand_side_by_side() -> None:
    fed = [node(f"n{i}", {"zone": "a", "block": "b", "rack": f"r{i // 2}", "feed": f"f{i % 2}"}) for i in range(4)]
    inventory = Inventory.of(RESOURCES, (NETWORK, POWER), fed)
    inventory.take(inventory.slot("n1"), (0, 5))
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r0"): 11, ("a", "b", "r1"): 16}
    assert gpus_at(inventory, "power", 1) == {("f0",): 16, ("f1",): 11}


def test_a_topology_may_come_change_and_go_while_nodes_are_there() -> None:
    inventory = Inventory.of(RESOURCES, (), [racked("n1", "a", "b", "r")])
    inventory.put_topology(NETWORK)
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r"): 8}
    inventory.put_topology(Topology("network", ("rack",)))
    assert gpus_at(inventory, "network", 1) == {("r",): 8}
    inventory.remove_topology("network")
    assert inventory.tree("network") is None


def test_members_are_sorted_by_node_name_and_follow_changes() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked(name, "a", "b", "r") for name in ("n3", "n1", "n2")])
    tree = inventory.trees["network"]
    assert [inventory.name(slot) for slot in tree.members(3, 0)] == ["n1", "n2", "n3"]
    inventory.remove_node("n2")
    inventory.put_node(racked("n0", "a", "b", "r"))
    assert [inventory.name(slot) for slot in tree.members(3, 0)] == ["n0", "n1", "n3"]


def test_members_once_given_out_do_not_change() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked(name, "a", "b", "r") for name in ("n1", "n2")])
    before = inventory.trees["network"].members(3, 0)
    inventory.put_node(racked("n0", "a", "b", "r"))
    inventory.remove_node("n1")
    assert before == [0, 1]


def test_domains_rank_by_path_not_by_arrival() -> None:
    racks = [("b", "x", "r"), ("a", "y", "r"), ("a", "x", "s"), ("a", "x", "r")]
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked(f"n{i}", *path) for i, path in enumerate(racks)])
    tree = inventory.trees["network"]
    assert tree.rank(3).tolist() == [3, 2, 1, 0]
    inventory.put_node(racked("n9", "a", "x", "q"))
    assert tree.rank(3).tolist() == [4, 3, 2, 1, 0]
    assert [tree.path(3, domain) for domain in tree.order(3)] == sorted([*racks, ("a", "x", "q")])


def test_parents_children_and_ancestors_agree() -> None:
    nodes = [racked("n1", "a", "y", "r"), racked("n2", "a", "x", "r"), racked("n3", "b", "x", "r")]
    tree = Inventory.of(RESOURCES, (NETWORK,), nodes).trees["network"]
    zone, rack = tree.find(("a",)), tree.find(("a", "x", "r"))
    assert zone is not None and rack is not None
    assert [tree.path(2, block) for block in tree.children(1, zone)] == [("a", "x"), ("a", "y")]
    assert tree.path(2, tree.parent(3, rack)) == ("a", "x")
    assert tree.parent(1, zone) == 0
    assert tree.children(3, rack) == []


def test_an_emptied_domain_keeps_its_id_and_gets_it_back() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r1"), racked("n2", "a", "b", "r2")])
    tree = inventory.trees["network"]
    inventory.remove_node("n1")
    assert (tree.domains(3), tree.members(3, 0)) == (2, [])
    inventory.put_node(racked("n3", "a", "b", "r1"))
    assert tree.find(("a", "b", "r1")) == 0


def test_ids_do_not_pile_up_when_hosts_come_and_go_for_ever() -> None:
    inventory = Inventory(RESOURCES, (NETWORK,))
    for i in range(100):
        inventory.put_node(racked(f"n{i}", f"z{i}", "b", f"r{i}", gpus=i))
        assert gpus_at(inventory, "network", 3) == {(f"z{i}", "b", f"r{i}"): i}
        inventory.remove_node(f"n{i}")
    assert [inventory.trees["network"].domains(depth) for depth in range(4)] == [1, 1, 1, 1]


def test_ids_are_not_given_to_others_while_a_checkpoint_is_open() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r1")])
    tree = inventory.trees["network"]
    with inventory.trial():
        inventory.remove_node("n1")
        inventory.put_node(racked("n2", "a", "b", "r2"))
        assert tree.find(("a", "b", "r2")) == 1
    assert tree.find(("a", "b", "r1")) == 0
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r1"): 8}
