"""What the pages know, folded when somebody looks."""

from __future__ import annotations

from spinney.serve.dashboard.first_page import occupancies
from spinney.serve.dashboard.model import Model
from unit.dashboard.world import hall


def used(model: Model) -> int:
    return int(occupancies(model.cluster.inventory)[0].used.sum())


async def test_changes_are_noted_and_folded_at_the_next_look() -> None:
    world = hall()
    model = Model(world.views)
    assert not model.rows()
    assert await model.refresh()
    assert used(model) == 12
    world.pod("more", "", "b1-r1-n0")
    assert used(model) == 12
    assert await model.refresh()
    assert used(model) == 20
    assert not await model.refresh()


async def test_a_pod_that_came_and_went_between_two_looks_leaves_nothing() -> None:
    world = hall()
    model = Model(world.views)
    await model.refresh()
    world.pod("brief", "", "b1-r1-n0")
    world.gone("brief")
    await model.refresh()
    assert used(model) == 12


async def test_a_pod_that_is_gone_or_over_gives_its_room_back() -> None:
    world = hall()
    model = Model(world.views)
    await model.refresh()
    world.gone("placed-0")
    world.pod("placed-1", "placed", "b0-r0-n1", gpus=4, phase="Succeeded")
    await model.refresh()
    assert used(model) == 0


async def test_a_gang_whose_pods_have_all_ended_waits_for_nothing() -> None:
    world = hall()
    model = Model(world.views)
    for name in ("placed-0", "placed-1"):
        world.pod(name, "placed", "b0-r0-n0", phase="Succeeded")
    await model.refresh()
    row = next(row for row in model.rows() if row.name == "placed")
    assert (row.state, row.waits) == ("Finished", False)


async def test_a_pod_belongs_to_the_gang_that_it_names_now() -> None:
    world = hall()
    model = Model(world.views)
    await model.refresh()
    world.pod("placed-0", "waiting", "b0-r0-n0")
    await model.refresh()
    assert [pod.metadata.name for pod in model.pods_of(("default", "placed"))] == ["placed-1"]
    assert [row.pods for row in model.rows()] == [1, 2]


async def test_a_heartbeat_is_nothing_to_show_and_a_cordon_is() -> None:
    world = hall()
    model = Model(world.views)
    await model.refresh()
    before = (model.version, model.structure)
    world.rack("b0", "b0-r0", 4)
    assert not await model.refresh()
    assert (model.version, model.structure) == before
    world.node("b0-r0-n0", cordoned=True, labels={"example.com/block": "b0", "example.com/rack": "b0-r0"})
    assert await model.refresh()
    assert model.structure == before[1] + 1


async def test_a_gang_that_is_deleted_is_no_row_any_more() -> None:
    world = hall()
    model = Model(world.views)
    await model.refresh()
    world.groups.put(("default", "placed"), None)
    await model.refresh()
    assert [row.name for row in model.rows()] == ["waiting"]


async def test_nodes_of_every_pool_are_seen() -> None:
    world = hall()
    world.node("pooled", labels={"kai.scheduler/node-pool": "special"})
    model = Model(world.views)
    await model.refresh()
    assert len(occupancies(model.cluster.inventory)[0].total) == 17


async def test_a_node_that_moves_to_another_rack_takes_its_gangs_along() -> None:
    world = hall()
    model = Model(world.views)
    world.pod("placed-1", "placed", "b0-r0-n0")
    await model.refresh()
    assert [row.domain[:2] for row in model.rows() if row.name == "placed"] == [("b0", "b0-r0")]
    world.node("b0-r0-n0", labels={"example.com/block": "b9", "example.com/rack": "b9-r9"})
    await model.refresh()
    assert [row.domain[:2] for row in model.rows() if row.name == "placed"] == [("b9", "b9-r9")]
    world.nodes.put(("", "b0-r0-n0"), None)
    await model.refresh()
    assert [row.domain for row in model.rows() if row.name == "placed"] == [()]
