"""Nodes, pods and what is free: fold, trials, counts and rooms, one behaviour at a time."""

from __future__ import annotations

import pytest

from spinney.api.placement.problem import ANY_NODE, NodeFilter, Taint, Topology
from spinney.core.inventory import change_log
from spinney.core.inventory.counts import UNBOUNDED, Shape
from spinney.core.inventory.inventory import Inventory
from unit.inventory.inventory_kit import NETWORK, RESOURCES, gpus_at, node, racked

ONE_GPU = Shape((0, 1))
GPU = 1


def one(**changes: object) -> Inventory:
    return Inventory.of(RESOURCES, (NETWORK,), [node("n", {"zone": "a"}, **changes)])  # type: ignore[arg-type]


def test_k4_idle_and_releasing_are_kept_apart() -> None:
    inventory = one(used=(0, 6), releasing=(0, 2))
    assert inventory.free(0, waiting=False) == [1000, 2]
    assert inventory.free(0, waiting=True) == [1000, 4]
    assert inventory.counts(ONE_GPU).total == 2
    assert inventory.counts(ONE_GPU, waiting=True).total == 4


def test_k4_a_pod_that_is_deleted_gives_its_room_back_in_two_steps() -> None:
    inventory = one()
    inventory.add_pod("p", "n", (100, 3))
    assert (inventory.idle[0], inventory.releasing[0]) == ([900, 5], [0, 0])
    inventory.release_pod("p")
    assert (inventory.idle[0], inventory.releasing[0]) == ([900, 5], [100, 3])
    inventory.remove_pod("p")
    assert (inventory.idle[0], inventory.releasing[0]) == ([1000, 8], [0, 0])


def test_the_same_event_twice_changes_nothing() -> None:
    inventory = one()
    for _ in range(2):
        inventory.add_pod("p", "n", (0, 3))
        inventory.put_node(node("n", {"zone": "a"}))
    assert inventory.idle[0] == [1000, 5]
    for _ in range(2):
        inventory.remove_pod("p")
        inventory.release_pod("p")
    assert inventory.idle[0] == [1000, 8]


def test_a_known_pod_that_moved_or_changed_is_replaced() -> None:
    inventory = Inventory.of(RESOURCES, (), [node("n1"), node("n2")])
    inventory.add_pod("p", "n1", (0, 3))
    inventory.add_pod("p", "n2", (0, 1))
    assert inventory.idle == [[1000, 8], [1000, 7]]


def test_a_pod_on_a_node_that_is_not_there_yet_counts_once_it_appears() -> None:
    inventory = Inventory(RESOURCES)
    inventory.add_pod("p", "late", (0, 3), frozenset({80}), releasing=True)
    inventory.put_node(node("late"))
    assert (inventory.idle[0], inventory.releasing[0]) == ([1000, 5], [0, 3])
    assert set(inventory.ports(0, waiting=False)) == {80}


def test_pods_stay_remembered_when_their_node_goes() -> None:
    inventory = one()
    inventory.add_pod("p", "n", (0, 3))
    inventory.remove_node("n")
    assert inventory.pods_on("n") == ["p"]
    inventory.put_node(node("n"))
    assert inventory.idle[inventory.slot("n")] == [1000, 5]


def test_a_node_that_shrinks_below_its_use_holds_nothing_more() -> None:
    inventory = one()
    inventory.add_pod("p", "n", (0, 6))
    inventory.put_node(node("n", {"zone": "a"}, (1000, 4)))
    assert inventory.idle[0] == [1000, -2]
    assert inventory.counts(ONE_GPU).total == 0
    assert inventory.room(frozenset({ANY_NODE}), (GPU,)).total(GPU) == 0
    assert inventory.counts(Shape((100, 0))).total == 10


def test_a_cordon_takes_a_node_out_and_its_end_brings_it_back() -> None:
    inventory = one()
    counts = [inventory.counts(ONE_GPU).total]
    inventory.put_node(node("n", {"zone": "a"}, unschedulable=True))
    counts.append(inventory.counts(ONE_GPU).total)
    inventory.put_node(node("n", {"zone": "a"}))
    counts.append(inventory.counts(ONE_GPU).total)
    assert counts == [8, 0, 8]


def test_a_changed_label_moves_the_node_with_all_it_holds() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r1"), racked("n2", "a", "b", "r1")])
    inventory.take(inventory.slot("n1"), (0, 3))
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r1"): 13}
    inventory.put_node(racked("n1", "a", "b", "r2"))
    assert gpus_at(inventory, "network", 3) == {("a", "b", "r1"): 8, ("a", "b", "r2"): 5}


def test_a_level_first_asked_for_after_a_move_is_right() -> None:
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked("n1", "a", "b", "r1"), racked("n2", "a", "b", "r1")])
    counts = inventory.counts(ONE_GPU)
    inventory.put_node(racked("n1", "z", "b", "r1"))
    assert counts.at("network", 1).tolist() == [8, 8]
    assert inventory.counts(ONE_GPU).at("network", 1).tolist() == [8, 8]


def test_amounts_of_another_length_are_refused() -> None:
    inventory = one()
    with pytest.raises(ValueError, match="pod p has 1 amounts, expected 2"):
        inventory.add_pod("p", "n", (1,))
    with pytest.raises(ValueError, match="node m has 3 amounts, expected 2"):
        inventory.put_node(node("m", allocatable=(1, 2, 3)))


def test_slots_are_used_again() -> None:
    inventory = Inventory.of(RESOURCES, (), [node("n1"), node("n2")])
    inventory.remove_node("n1")
    inventory.put_node(node("n3"))
    assert (inventory.slot("n3"), inventory.name(0), sorted(inventory.slots())) == (0, "n3", [0, 1])
    assert inventory.find("n1") is None


def test_a_slot_without_a_node_is_no_capacity() -> None:
    inventory = one()
    inventory.remove_node("n")
    assert inventory.counts(Shape((0, 0))).per_node.tolist() == [0]
    with pytest.raises(KeyError, match="slot 0 has no node"):
        inventory.node(0)


def test_a_request_of_nothing_is_unbounded() -> None:
    assert one().counts(Shape((0, 0))).per_node.tolist() == [UNBOUNDED]


def test_a_count_beyond_32_bits_is_capped() -> None:
    assert one(allocatable=(2**40, 8)).counts(Shape((1, 0))).per_node.tolist() == [UNBOUNDED]


def test_the_largest_amounts_do_no_harm() -> None:
    huge = 2**63 - 1
    inventory = Inventory.of(RESOURCES, (NETWORK,), [node(f"n{i}", {"zone": "a"}, (huge, 8)) for i in range(3)])
    assert inventory.counts(Shape((2**64, 0))).total == 0
    assert inventory.counts(Shape((huge, 1))).total == 3
    assert inventory.room(frozenset({ANY_NODE}), (0,)).at("network", 1, 0).tolist() == [3 * 2**46]
    inventory.take(0, (huge, 0), times=3)
    assert inventory.counts(Shape((huge, 1))).total == 2
    assert inventory.counts(Shape((huge, 2))).total == 2
    assert inventory.room(frozenset({ANY_NODE}), (0,)).at("network", 1, 0).tolist() == [2 * 2**46]
    inventory.take(1, (huge, 0), releasing=True)
    inventory.give(1, (huge, 0))
    assert inventory.counts(Shape((huge, 0)), waiting=True).per_node.tolist()[1:] == [1, 1]


def test_a_single_shape_fits_once_per_node() -> None:
    assert one().counts(Shape((0, 1), single=True)).total == 1


def test_a_host_port_is_taken_once_and_free_again_when_its_pod_leaves() -> None:
    inventory, web = one(), Shape((0, 1), ports=frozenset({80}))
    assert inventory.counts(web).total == 1
    inventory.add_pod("p", "n", (0, 1), frozenset({80}))
    assert inventory.counts(web).total == 0
    inventory.release_pod("p")
    assert (inventory.counts(web).total, inventory.counts(web, waiting=True).total) == (0, 1)
    inventory.remove_pod("p")
    assert inventory.counts(web).total == 1


def test_ports_a_node_lists_are_in_use() -> None:
    inventory = one(host_ports=frozenset({80}))
    assert set(inventory.ports(0, waiting=True)) == {80}
    assert inventory.counts(Shape((0, 0), ports=frozenset({80, 81}))).total == 0


def test_room_counts_nodes_that_any_filter_admits_once() -> None:
    fast, slow = NodeFilter(selector=(("speed", "fast"),)), NodeFilter(selector=(("speed", "slow"),))
    nodes = [node(f"n{i}", {"zone": "a", "speed": speed}) for i, speed in enumerate(("fast", "slow", "none"))]
    inventory = Inventory.of(RESOURCES, (NETWORK,), nodes)
    room = inventory.room(frozenset({fast, slow, NodeFilter(selector=(("zone", "a"), ("speed", "fast")))}), (0, GPU))
    assert (room.at("network", 1, GPU).tolist(), room.at("network", 1, 0).tolist()) == ([16], [2000])


def test_room_is_exact_in_bytes() -> None:
    nodes = [node(f"n{i}", {"zone": "a"}, (2**45 + 1, 0)) for i in range(1023)]
    room = Inventory.of(RESOURCES, (NETWORK,), nodes).room(frozenset({ANY_NODE}), (0,))
    assert room.at("network", 1, 0).tolist() == [1023 * (2**45 + 1)]


def test_k4_rollback_restores_fold_and_takes_alike() -> None:
    inventory = one()
    inventory.add_pod("p", "n", (0, 1))
    mark = inventory.checkpoint()
    inventory.take(0, (0, 2), frozenset({80}), times=2)
    inventory.remove_node("n")
    inventory.put_node(node("other", taints=(Taint("k", "", "NoSchedule"),)))
    inventory.remove_pod("p")
    inventory.put_topology(Topology("network", ("block",)))
    inventory.rollback(mark)
    assert (inventory.idle[0], set(inventory.ports(0, waiting=False))) == ([1000, 7], set())
    assert inventory.pods_on("n") == ["p"]
    assert gpus_at(inventory, "network", 1) == {("a",): 7}


def test_k4_what_an_inner_checkpoint_keeps_an_outer_one_takes_back() -> None:
    inventory = one()
    outer = inventory.checkpoint()
    inner = inventory.checkpoint()
    inventory.take(0, (0, 2))
    inventory.commit(inner)
    assert inventory.idle[0] == [1000, 6]
    inventory.rollback(outer)
    assert inventory.idle[0] == [1000, 8]


def test_a_trial_ends_with_an_error_as_without_one() -> None:
    inventory = one()
    with pytest.raises(RuntimeError), inventory.trial():
        inventory.take(0, (0, 2))
        raise RuntimeError
    assert inventory.idle[0] == [1000, 8]


def test_a_checkpoint_is_closed_once() -> None:
    inventory = one()
    mark = inventory.checkpoint()
    inventory.rollback(mark)
    with pytest.raises(ValueError, match="checkpoint 1 is not open"):
        inventory.rollback(mark)


def test_nothing_is_remembered_for_undoing_unless_a_checkpoint_is_open() -> None:
    inventory = one()
    mark = inventory.checkpoint()
    inventory.take(0, (0, 1))
    inventory.commit(mark)
    inventory.take(0, (0, 1))
    assert inventory._undo.entries == []


def test_a_long_history_is_forgotten_and_answers_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MOST_TOUCHED", 20)
    monkeypatch.setattr(change_log, "MOST_MOVED", 10)
    inventory = Inventory.of(RESOURCES, (NETWORK,), [racked(f"n{i}", "a", "b", f"r{i % 3}") for i in range(9)])
    for turn in range(200):
        inventory.take(turn % 9, (0, 1))
        inventory.give(turn * 5 % 9, (0, 1))
        if turn % 17 == 0:
            inventory.put_node(racked(f"n{turn % 9}", "a", "b", f"r{turn % 4}"))
        if turn % 50 == 0:
            expected = sum(max(0, row[GPU]) for row in inventory.idle)
            assert inventory.counts(ONE_GPU).total == expected == inventory.counts(ONE_GPU).at("network", 3).sum()
    assert len(inventory.changes.touched.entries) <= 21


def test_arrays_given_out_cannot_be_written() -> None:
    counts = one().counts(ONE_GPU)
    for array in (counts.per_node, counts.at("network", 1)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
