"""The page of queues: the tree with bars of quota, share, use and demand (Q8)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spinney.api.kinds.queue import Queue
from spinney.api.labels import GPU_RESOURCE
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.queue_page import Bar, QueuesPage, queues_page
from unit.dashboard.site import site
from unit.dashboard.world import World, hall

Json = dict[str, Any]
EVIL = "<script>alert(1)</script>"


def put(world: World, name: str, parent: str = "", status: Json | None = None, **gpu: float) -> None:
    shares = {"gpu": {"quota": 16, "limit": -1, **gpu}, "cpu": {"quota": 2000, "limit": -1}}
    spec = {"parentQueue": parent, "resources": shares, "displayName": EVIL}
    document = {"metadata": {"name": name}, "spec": spec, "status": status or {}}
    world.queues.put(("", name), msgspec.convert(document, Queue))


def told(used: int, asked: int, share: int, borrowed: int = 0) -> Json:
    amounts = {"allocated": used, "asked": asked, "fairShare": share, "borrowed": borrowed}
    return {field: {GPU_RESOURCE: str(amount)} for field, amount in amounts.items()}


def borrowing() -> World:
    world = hall()
    put(world, "root", quota=-1, status=told(40, 64, 40))
    put(world, "other", "root", told(8, 32, 16))
    put(world, "main", "root", told(32, 32, 24, 16), limit=64)
    put(world, "main-a", "main", limit=1000)
    return world


async def seen(world: World, resource: str = "") -> QueuesPage:
    model = Model(world.views)
    await model.refresh()
    return queues_page(model, resource)


async def test_q8_bars_stand_for_quota_share_use_and_demand_on_one_scale_for_siblings() -> None:
    page = await seen(borrowing())
    assert [(line.name, line.depth) for line in page.lines] == [("root", 0), ("main", 1), ("main-a", 2), ("other", 1)]
    root, main, below, other = (line.bar for line in page.lines)
    assert root == Bar(used=62.5, borrowed=0, asked=37.5, share=62.5, quota=None, limit=None)
    assert main == Bar(used=25, borrowed=25, asked=0, share=37.5, quota=25, limit=100), "its limit of 64 is the scale"
    assert other == Bar(used=12.5, borrowed=0, asked=37.5, share=25, quota=25, limit=None)
    assert below == Bar(used=0, borrowed=0, asked=0, share=0, quota=100, limit=None), "its limit is far away"
    figures = [(line.used, line.share, line.quota, line.borrowed, line.asked, line.limit) for line in page.lines]
    assert figures[:2] == [("40", "40", "all", "0", "64", "none"), ("32", "24", "16", "16", "32", "64")]
    assert [line.waiting for line in page.lines] == [1, 0, 0, 1], "a gang of queue other waits"


async def test_q8_another_resource_is_chosen_by_the_address_and_follows_the_cluster() -> None:
    world = borrowing()
    async with site(world) as client:
        page = (await client.get("/queues?resource=cpu")).text
        assert re.search(r'aria-current="true">CPU cores<', page)
        assert (await client.get("/queues?resource=nonsense")).text.count("GPUs</th>") == 1
        put(world, "main", "root", told(24, 24, 24, 8), limit=64)
        assert re.search(r'data-label="used">24<', (await client.get("/queues")).text)
        assert EVIL not in page
    assert [line.quota for line in (await seen(world, "cpu")).lines] == ["2"] * 4


async def test_q8_without_shares_the_page_says_so() -> None:
    world = hall()
    async with site(world) as client:
        assert "There are no queues yet" in (await client.get("/queues")).text
        put(world, "main", status={"allocated": {GPU_RESOURCE: "8"}})
        assert "No scheduler has written shares" in (await client.get("/queues")).text
    [line] = (await seen(world)).lines
    assert (line.used, line.share, line.asked, line.bar.share) == ("8", "?", "?", None)
