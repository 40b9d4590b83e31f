"""Ranks along the topology."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spinney.api.placement.problem import Node, Topology
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import distance
from spinney.core.scheduling.gang.ranks import ranks

TOPOLOGY = Topology("t", ("zone", "rack"))


def cluster() -> Inventory:
    """2 zones x 2 racks x 2 nodes, named so that names and places disagree, and a node outside."""
    inventory = Inventory(("pods",), [TOPOLOGY])
    for index in range(8):
        zone, rack = index % 2, index // 2 % 2
        labels = {"zone": f"z{zone}", "rack": f"r{rack}"}
        inventory.put_node(Node(f"n{index}", labels, (110,), (0,), (0,)))
    inventory.put_node(Node("a-outside", {}, (110,), (0,), (0,)))
    return inventory


ORDER = ["n0", "n4", "n2", "n6", "n1", "n5", "n3", "n7", "a-outside"]
nodes = st.lists(st.sampled_from([*ORDER, "unknown"]), min_size=1, max_size=20)


def test_k11_ranks_follow_the_tree_and_then_the_names_of_nodes() -> None:
    found = ranks(cluster(), "t", [(node, node) for node in sorted(ORDER)])
    assert sorted(found, key=found.__getitem__) == ORDER


def test_k11_pods_of_one_node_keep_the_order_they_are_given_in() -> None:
    assert ranks(cluster(), "t", [("b", "n0"), ("a", "n0"), ("c", "n0")]) == {"b": 0, "a": 1, "c": 2}


def test_k11_without_a_topology_ranks_follow_node_names() -> None:
    assert ranks(cluster(), None, [("a", "n1"), ("b", "n0")]) == {"a": 1, "b": 0}
    assert ranks(cluster(), "unknown", [("a", "n1"), ("b", "n0")]) == {"a": 1, "b": 0}


def test_k11_a_replacement_takes_the_rank_that_was_lost() -> None:
    seats = [(node, node) for node in ORDER[:8]]
    before = ranks(cluster(), "t", seats)
    kept = {uid: rank for uid, rank in before.items() if uid not in ("n4", "n3")}
    after = ranks(cluster(), "t", [*((u, n) for u, n in seats if u in kept), ("new-a", "n6"), ("new-b", "n7")], kept)
    assert {uid: after[uid] for uid in kept} == kept
    assert (after["new-a"], after["new-b"]) == (before["n4"], before["n3"])


def test_k11_a_new_pod_is_numbered_after_its_nearest_neighbour() -> None:
    seats = [("a", "n0"), ("b", "n7"), ("new-0", "n4"), ("new-1", "n3")]
    assert ranks(cluster(), "t", seats, {"a": 9, "b": 4}) == {"a": 9, "b": 4, "new-0": 1, "new-1": 0}
    assert ranks(cluster(), "t", seats, {"a": 0, "b": 3}) == {"a": 0, "b": 3, "new-0": 1, "new-1": 2}
    beside = [("a", "n0"), ("b", "n1"), ("new-0", "n6"), ("new-1", "a-outside")]
    assert ranks(cluster(), "t", beside, {"a": 3, "b": 0}) == {"a": 3, "b": 0, "new-0": 2, "new-1": 1}


def test_k11_of_two_free_numbers_as_near_the_lower_is_taken() -> None:
    seats = [("a", "n0"), ("new-0", "n0"), ("new-1", "n7")]
    assert ranks(cluster(), "t", seats, {"a": 1}) == {"a": 1, "new-0": 0, "new-1": 2}


def test_k11_growth_takes_the_next_numbers() -> None:
    seats = [("a", "n0"), ("b", "n4"), ("c", "n2")]
    assert ranks(cluster(), "t", seats, {"a": 0, "b": 1}) == {"a": 0, "b": 1, "c": 2}


def test_k11_after_shrinking_free_numbers_are_used_first() -> None:
    assert ranks(cluster(), "t", [("a", "n0"), ("b", "n4")], {"a": 5}) == {"a": 5, "b": 0}


def test_k13_segments_are_contiguous_along_the_topology() -> None:
    seats = [("a", "n0"), ("b", "n1"), ("c", "n0"), ("d", "n3")]
    blocks = {"a": 1, "b": 0, "c": 1, "d": 0}
    assert ranks(cluster(), "t", seats, blocks=blocks) == {"a": 0, "c": 1, "b": 2, "d": 3}


@given(nodes)
def test_k11_ranks_are_0_to_n_and_neighbours_are_never_nearer_to_somebody_further_on(places: list[str]) -> None:
    inventory = cluster()
    seats = [(f"p{index}", node) for index, node in enumerate(places)]
    found = ranks(inventory, "t", seats)
    assert sorted(found.values()) == list(range(len(seats)))
    by_rank = sorted(seats, key=lambda seat: found[seat[0]])
    paths = [_path(inventory, node) for _, node in by_rank]
    for start in range(len(paths)):
        away = [distance(paths[start], path) for path in paths[start:] if path]
        assert not paths[start] or away == sorted(away)


@given(nodes, st.data())
def test_k11_kept_ranks_stay_and_no_rank_is_given_twice(places: list[str], data: st.DataObject) -> None:
    seats = [(f"p{index}", node) for index, node in enumerate(places)]
    uids = data.draw(st.lists(st.sampled_from([uid for uid, _ in seats]), unique=True))
    numbers = data.draw(st.lists(st.integers(0, 30), min_size=len(uids), max_size=len(uids), unique=True))
    kept = dict(zip(uids, numbers, strict=True))
    found = ranks(cluster(), "t", seats, kept)
    assert found.keys() == {uid for uid, _ in seats}
    assert {uid: found[uid] for uid in kept} == kept
    assert len(set(found.values())) == len(seats)
    assert all(rank < len(seats) for uid, rank in found.items() if uid not in kept)


def _path(inventory: Inventory, node: str) -> list[str]:
    slot = inventory.find(node)
    tree = inventory.tree("t")
    assert tree is not None
    return tree.locate(inventory.node(slot).labels) if slot is not None else []
