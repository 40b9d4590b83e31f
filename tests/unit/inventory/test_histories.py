"""Whatever happened, in whatever order: the same as worked out anew; and rollback is as if nothing had been tried."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from spinney.api.placement.problem import (
    ANY_NODE,
    Node,
    NodeFilter,
    NodeTerm,
    Taint,
    Term,
    Toleration,
    Topology,
)
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.pods import Pod
from unit.inventory.inventory_kit import NETWORK, POWER, RESOURCES, Model, Taken, by_path

NODES = [f"n{i}" for i in range(14)]
PODS = [f"p{i}" for i in range(12)]
PORTS: list[frozenset[int]] = [frozenset(), frozenset({80}), frozenset({80, 443})]
FAST = NodeFilter(selector=(("speed", "fast"),))
TOLERANT = NodeFilter(tolerations=(Toleration(operator="Exists"),))
PICKY = NodeFilter(
    required=(
        NodeTerm(expressions=(Term("zone", "In", ("a", "b.c")), Term("speed", "Exists"))),
        NodeTerm(expressions=(Term("size", "Gt", ("2",)), Term("rack", "NotIn", ("r1",)))),
        NodeTerm(fields=(Term("metadata.name", "In", ("n3",)),)),
    )
)
SHAPES = [
    Shape((0, 1)),
    Shape((300, 0), FAST),
    Shape((100, 2), TOLERANT, frozenset({80})),
    Shape((250, 1), PICKY, single=True),
    Shape((0, 0), PICKY),
]
ROOMS = [
    (frozenset({ANY_NODE}), (1,)),
    (frozenset({FAST, TOLERANT}), (0, 1)),
    (frozenset({PICKY, FAST}), (0,)),
]
VARIANTS = [NETWORK, POWER, Topology("network", ("block",)), Topology("power", ("rack", "feed")), Topology("odd", ())]


class History:
    """The same random changes to an inventory and to the model."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.inventory = Inventory(RESOURCES, (NETWORK, POWER))
        self.model = Model(topologies={"network": NETWORK, "power": POWER})

    def step(self) -> None:
        kinds: list[Callable[[], None]] = [self.put_node, self.remove_node, self.pod, self.pod, self.release]
        kinds += [self.forget_pod, self.take, self.take, self.take, self.give, self.topology]
        self.dice.choice(kinds)()

    def random_node(self, name: str) -> Node:
        dice = self.dice
        choices = {"zone": "a b.c", "block": "b0 b1 c", "rack": "r0 r1 r2", "feed": "f0 f1", "speed": "fast slow"}
        labels = {key: dice.choice(values.split()) for key, values in choices.items() if dice.random() < 0.85}
        labels["size"] = dice.choice(["1", "3", "many"])
        taint = dice.choice([(), (), (), (Taint("k", "v", "NoSchedule"),), (Taint("k", "", "PreferNoSchedule"),)])
        return Node(
            name,
            labels,
            (dice.choice([500, 1000, 4000]), dice.choice([0, 4, 8])),
            (dice.choice([0, 0, 700]), dice.choice([0, 2])),
            (0, dice.choice([0, 1])),
            taint,
            dice.random() < 0.1,
            dice.random() < 0.9,
            dice.choice(PORTS),
        )

    def put_node(self) -> None:
        fresh = self.random_node(self.dice.choice(NODES))
        known = self.model.nodes.get(fresh.name)
        if known is not None and self.dice.random() < 0.3:
            fresh = msgspec.structs.replace(known, used=fresh.used)
        self.inventory.put_node(fresh)
        self.model.nodes[fresh.name] = fresh

    def remove_node(self) -> None:
        name = self.dice.choice(NODES)
        self.inventory.remove_node(name)
        self.model.nodes.pop(name, None)
        self.model.taken.pop(name, None)

    def pod(self) -> None:
        key, dice = self.dice.choice(PODS), self.dice
        pod = Pod(dice.choice(NODES), self.request(), dice.choice(PORTS), dice.random() < 0.2)
        self.inventory.add_pod(key, pod.node, pod.request, pod.ports, pod.releasing)
        self.model.pods[key] = pod

    def release(self) -> None:
        key = self.dice.choice(PODS)
        self.inventory.release_pod(key)
        pod = self.model.pods.get(key)
        if pod is not None:
            self.model.pods[key] = Pod(pod.node, pod.request, pod.ports, True)

    def forget_pod(self) -> None:
        key = self.dice.choice(PODS)
        self.inventory.remove_pod(key)
        self.model.pods.pop(key, None)

    def take(self) -> None:
        if not self.model.nodes:
            return
        name, dice = self.dice.choice(sorted(self.model.nodes)), self.dice
        taken = Taken(self.request(), dice.choice(PORTS), dice.choice([1, 1, 3]), dice.random() < 0.2)
        slot = self.inventory.slot(name)
        self.inventory.take(slot, taken.request, taken.ports, taken.times, taken.releasing)
        self.model.taken.setdefault(name, []).append(taken)

    def give(self) -> None:
        holding = [name for name, taken in sorted(self.model.taken.items()) if taken]
        if holding:
            name = self.dice.choice(holding)
            taken = self.model.taken[name].pop(self.dice.randrange(len(self.model.taken[name])))
            slot = self.inventory.slot(name)
            self.inventory.give(slot, taken.request, taken.ports, taken.times, taken.releasing)

    def topology(self) -> None:
        if self.dice.random() < 0.6:
            return
        topology = self.dice.choice(VARIANTS)
        if self.dice.random() < 0.3:
            self.inventory.remove_topology(topology.name)
            self.model.topologies.pop(topology.name, None)
        else:
            self.inventory.put_topology(topology)
            self.model.topologies[topology.name] = topology

    def request(self) -> tuple[int, int]:
        return self.dice.choice([(100, 1), (0, 2), (250, 0), (0, 0)])


def check(inventory: Inventory, model: Model, shapes: list[Shape] = SHAPES) -> None:
    check_nodes(inventory, model)
    check_trees(inventory, model)
    for waiting in (False, True):
        for shape in shapes:
            check_counts(inventory, model, shape, waiting)
        for filters, resources in ROOMS:
            check_room(inventory, model, filters, resources, waiting)


def check_nodes(inventory: Inventory, model: Model) -> None:
    assert {inventory.name(slot): inventory.node(slot) for slot in inventory.slots()} == model.nodes
    for name in model.nodes:
        slot = inventory.slot(name)
        for waiting in (False, True):
            assert list(inventory.free(slot, waiting)) == model.free(name, waiting)
            assert set(inventory.ports(slot, waiting)) == model.ports(name, waiting)


def check_trees(inventory: Inventory, model: Model) -> None:
    assert {name: tree.topology for name, tree in inventory.trees.items()} == model.topologies
    for name, tree in inventory.trees.items():
        for depth in range(len(tree.levels) + 1):
            ids = [i for i in range(tree.domains(depth)) if tree.size(depth, i)]
            found = {tree.path(depth, i): [inventory.name(s) for s in tree.members(depth, i)] for i in ids}
            assert found == model.members(name, depth)
            assert all(tree.find(tree.path(depth, i)) == i for i in ids)
            paths = sorted(tree.path(depth, i) for i in range(tree.domains(depth)))
            assert [paths[position] for position in tree.rank(depth)] == [
                tree.path(depth, i) for i in range(len(paths))
            ]
            assert tree.domain_array(depth).tolist() == tree.domain_of(depth)


def check_counts(inventory: Inventory, model: Model, shape: Shape, waiting: bool) -> None:
    counts = inventory.counts(shape, waiting)
    expected = {name: model.count(shape, name, waiting) for name in model.nodes}
    assert {inventory.name(slot): int(counts.per_node[slot]) for slot in inventory.slots()} == expected
    assert counts.total == sum(expected.values()) == int(counts.per_node.sum(dtype="int64"))
    for name, tree in inventory.trees.items():
        for depth in range(1, len(tree.levels) + 1):
            assert by_path(inventory, name, depth, counts.at(name, depth)) == model.summed(name, depth, expected)


def check_room(inventory: Inventory, model: Model, filters: Any, resources: tuple[int, ...], waiting: bool) -> None:
    room = inventory.room(filters, resources, waiting)
    for resource in resources:
        expected = {name: model.room(filters, resource, name, waiting) for name in model.nodes}
        assert room.total(resource) == sum(expected.values())
        for name, tree in inventory.trees.items():
            for depth in range(1, len(tree.levels) + 1):
                found = by_path(inventory, name, depth, room.at(name, depth, resource))
                assert found == model.summed(name, depth, expected)


@pytest.mark.parametrize("seed", range(12))
def test_k4_a_fold_of_any_history_equals_what_is_worked_out_anew(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        history.step()
        check(history.inventory, history.model)


@pytest.mark.parametrize("seed", range(12))
def test_k4_answers_asked_for_rarely_are_as_right_as_those_asked_for_often(seed: int) -> None:
    history = History(1000 + seed)
    for _ in range(12):
        for _ in range(history.dice.randrange(1, 40)):
            history.step()
            if history.dice.random() < 0.2:
                check_counts(history.inventory, history.model, history.dice.choice(SHAPES), history.dice.random() < 0.5)
        check(history.inventory, history.model, history.dice.sample(SHAPES, 3))


@pytest.mark.parametrize("seed", range(12))
def test_k4_rollback_equals_never_having_tried(seed: int) -> None:
    history = History(2000 + seed)
    for _ in range(40):
        history.step()
    for _ in range(8):
        before = copy.deepcopy(history.model)
        ids = tree_ids(history.inventory)
        mark = history.inventory.checkpoint()
        for _ in range(history.dice.randrange(1, 25)):
            history.step()
            if history.dice.random() < 0.4:
                check(history.inventory, history.model)
        if history.dice.random() < 0.7:
            history.inventory.rollback(mark)
            history.model = before
            assert tree_ids(history.inventory) == ids
        else:
            history.inventory.commit(mark)
        check(history.inventory, history.model)


@pytest.mark.parametrize("seed", range(6))
def test_k4_nested_checkpoints_are_taken_back_one_by_one(seed: int) -> None:
    history = History(3000 + seed)
    for _ in range(30):
        history.step()
    marks: list[tuple[int, Model]] = []
    for _ in range(40):
        roll = history.dice.random()
        if roll < 0.25:
            marks.append((history.inventory.checkpoint(), copy.deepcopy(history.model)))
        elif roll < 0.4 and marks:
            keep = history.dice.randrange(len(marks))
            mark, history.model = marks[keep]
            del marks[keep:]
            history.inventory.rollback(mark)
        elif roll < 0.45 and marks:
            history.inventory.commit(marks.pop()[0])
        else:
            history.step()
        check(history.inventory, history.model, SHAPES[:3])


def tree_ids(inventory: Inventory) -> dict[tuple[str, int, tuple[str, ...]], tuple[int, list[int]]]:
    """Which id every domain with nodes has, and its slots."""
    return {
        (name, depth, tree.path(depth, i)): (i, tree.members(depth, i))
        for name, tree in inventory.trees.items()
        for depth in range(len(tree.levels) + 1)
        for i in range(tree.domains(depth))
        if tree.size(depth, i)
    }
