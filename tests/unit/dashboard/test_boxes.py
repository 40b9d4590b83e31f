"""What is drawn of a topology."""

from __future__ import annotations

import pytest

from spinney.serve.dashboard import boxes as boxes_module
from spinney.serve.dashboard.boxes import (
    Box,
    Share,
    cells,
    depth_of,
    fill_of,
    filling,
    legend,
    path_of,
    path_text,
    pruned,
)
from spinney.serve.dashboard.gang_page import tree_for
from unit.dashboard.site import desk_of
from unit.dashboard.world import World, hall

GANG = ("default", "placed")


async def drawn(world: World, gang: tuple[str, str] | None = None) -> tuple[Box, ...]:
    desk = desk_of(world)
    await desk.model.refresh()
    view = desk.model.trees()
    tree = tree_for(view, "")
    assert tree is not None
    return desk.kept.boxes(view, tree, gang)


async def test_b5_domains_are_boxes_and_nodes_are_cells() -> None:
    boxes = await drawn(hall(), GANG)
    assert [(box.level, box.name, box.used, box.total) for box in boxes] == [
        ("block", "b0", 12, 64),
        ("block", "b1", 0, 64),
    ]
    rack = boxes[0].kids[0]
    assert [(cell.name, cell.used, cell.gang) for cell in rack.cells][:2] == [("b0-r0-n0", 8, 8), ("b0-r0-n1", 4, 4)]
    assert cells(boxes) == 16


async def test_b5_nodes_outside_come_last() -> None:
    world = hall()
    world.node("lonely")
    boxes = await drawn(world)
    assert (boxes[-1].name, [cell.name for cell in boxes[-1].cells]) == ("not in this topology", ["lonely"])


async def test_nodes_that_take_no_pods_say_so() -> None:
    world = hall()
    world.node("b0-r0-n0", ready=False, labels={"example.com/block": "b0", "example.com/rack": "b0-r0"})
    assert (await drawn(world))[0].kids[0].cells[0].state == "not ready"


async def test_a_picture_of_a_gang_has_only_its_domains() -> None:
    boxes = pruned(await drawn(hall(), GANG))
    assert [(box.name, [kid.name for kid in box.kids]) for box in boxes] == [("b0", ["b0-r0"])]


async def test_k15_pods_that_hold_none_of_what_is_counted_are_in_the_picture() -> None:
    world = hall()
    world.gang("light")
    world.pod("light-0", "light", "b1-r0-n0", gpus=0)
    (block,) = pruned(await drawn(world, ("default", "light")))
    assert [(cell.name, cell.gang, cell.pods) for cell in block.kids[0].cells if cell.pods] == [("b1-r0-n0", 0, 1)]


async def test_b5_nodes_are_counted_in_what_they_have() -> None:
    world = hall()
    world.node("b1-r9-n0", gpus=0, labels={"example.com/block": "b1", "example.com/rack": "b1-r9"})
    block = (await drawn(world))[1]
    plain = block.kids[-1]
    assert (block.total, block.unit) == (64, "")
    assert (plain.name, plain.total, plain.unit) == ("b1-r9", 64, "CPU")
    assert [(cell.total, cell.unit) for cell in plain.cells] == [(64, "CPU")]


async def test_b5_a_bind_changes_its_cell_and_the_boxes_around_it_and_nothing_else() -> None:
    world = hall()
    desk = desk_of(world)

    async def look() -> dict[str, tuple[object, ...]]:
        await desk.model.refresh()
        view = desk.model.trees()
        return dict(filling(desk.kept.boxes(view, view.trees[0], None)))

    before = await look()
    world.pod("late", "", "b1-r1-n3")
    after = await look()
    changed = {key: value for key, value in after.items() if before[key] != value}
    assert before.keys() == after.keys()
    assert changed == {"b4": (8, 0), "b6": (8, 0), "n16": (8, 0, "", 0, (), "b1-r1-n3: 8 of 8 GPU used")}


async def test_what_has_not_changed_is_not_drawn_again() -> None:
    world = hall()
    desk = desk_of(world)
    await desk.model.refresh()
    view = desk.model.trees()
    first = desk.kept.boxes(view, view.trees[0], None)
    world.pod("late", "", "b1-r1-n3")
    await desk.model.refresh()
    view = desk.model.trees()
    second = desk.kept.boxes(view, view.trees[0], None)
    assert second[0] is first[0]
    assert second[1] is not first[1]
    assert second[1].kids[0] is first[1].kids[0]


async def test_b5_gangs_of_a_node_have_colours_that_depend_on_their_names_alone() -> None:
    world = hall()
    world.gang("other")
    world.pod("other-0", "other", "b0-r0-n1", gpus=3)
    boxes = await drawn(world)
    half = boxes[0].kids[0].cells[1]
    assert half.shares == (
        Share("default/other", fill_of("default/other"), 0, 3),
        Share("default/placed", fill_of("default/placed"), 3, 4),
    )
    assert half.words == "b0-r0-n1: 7 of 8 GPU used, 1 pod of default/other, 1 pod of default/placed"
    names = [name for name, _ in legend(boxes)]
    assert names == ["default/other", "default/placed"]
    world.gone("other-0")
    assert legend(await drawn(world)) == [("default/placed", half.shares[1].fill)]
    assert not any(cell.shares for cell in (await drawn(world, GANG))[0].kids[0].cells)


async def test_b5_the_words_of_a_node_name_its_state_and_taints() -> None:
    world = hall()
    place = {"example.com/block": "b0", "example.com/rack": "b0-r0"}
    world.node("b0-r0-n3", cordoned=True, taints=("nvidia.com/gpu", "present"), labels=place)
    cell = (await drawn(world))[0].kids[0].cells[3]
    assert cell.words == "b0-r0-n3: 0 of 8 GPU used, cordoned, taint nvidia.com/gpu=present:NoSchedule"


async def test_b5_of_too_many_nodes_boxes_are_drawn_that_open(monkeypatch: pytest.MonkeyPatch) -> None:
    world = hall()
    desk = desk_of(world)
    await desk.model.refresh()
    view = desk.model.trees()
    tree = view.trees[0]
    monkeypatch.setattr(boxes_module, "MOST_CELLS", 8)
    depth = depth_of(tree, tree.root)
    whole = desk.kept.boxes(view, tree, GANG, depth=depth)
    racks = [rack for block in whole for rack in block.kids]
    assert [(rack.name, rack.nodes, rack.used, rack.gang, rack.closed) for rack in racks][:2] == [
        ("b0-r0", 4, 12, 12, True),
        ("b0-r1", 4, 0, 0, True),
    ]
    monkeypatch.setattr(boxes_module, "_MOST_BOXES", 3)
    blocks = desk.kept.boxes(view, tree, GANG, depth=depth_of(tree, tree.root))
    assert [(block.name, block.closed, block.nodes, block.used) for block in blocks] == [
        ("b0", True, 8, 12),
        ("b1", True, 8, 0),
    ]
    for name in (("b0",), ("b0", "b0-r0")):
        at = tree.root.find(name)
        assert at is not None and depth_of(tree, at) == 0
        assert cells(desk.kept.boxes(view, tree, GANG, at)) == at.nodes


def test_a_path_in_an_address_is_the_same_path() -> None:
    for path in ((), ("b0",), ("a/b", "c d", "é%2F")):
        assert path_of(path_text(path)) == path
