"""News for those who watch."""

from __future__ import annotations

import asyncio
import json

from spinney.serve.dashboard import page_handlers
from spinney.serve.dashboard.page import render
from spinney.serve.dashboard.page_handlers import Page, PageContext
from spinney.serve.dashboard.streams import MOST_WATCHERS, Streams, mark
from unit.dashboard.site import desk_of, site
from unit.dashboard.world import hall


async def known(desk: PageContext, page: Page) -> str:
    await desk.model.refresh()
    shown = await page(desk, {})
    return mark(shown, render(shown.template, shown.build()))


def read(message: bytes) -> tuple[str, str]:
    lines = message.decode().splitlines()
    return lines[0], "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data: "))


async def test_who_shows_the_newest_is_told_nothing_until_something_changes() -> None:
    world = hall()
    desk = desk_of(world)
    streams = Streams(desk.model)
    news = streams.follow(lambda: page_handlers.gangs(desk, {}), await known(desk, page_handlers.gangs))
    running = asyncio.create_task(streams.run())
    waiting = asyncio.create_task(anext(news))  # type: ignore[arg-type, var-annotated]
    await asyncio.sleep(0.02)
    assert not waiting.done()
    world.gang("third")
    event, text = read(await waiting)
    assert event == "event: page"
    assert "default/third" in text
    running.cancel()
    await news.aclose()  # type: ignore[attr-defined]


async def test_who_shows_something_old_is_told_at_once() -> None:
    desk = desk_of(hall())
    await desk.model.refresh()
    news = Streams(desk.model).follow(lambda: page_handlers.overview_page(desk, {}), "old")
    assert read(await anext(news))[0] == "event: page"
    await news.aclose()  # type: ignore[attr-defined]


async def test_b5_of_a_drawing_only_what_is_new_is_told() -> None:
    world = hall()
    desk = desk_of(world)
    streams = Streams(desk.model)
    news = streams.follow(lambda: page_handlers.tree(desk, {}), await known(desk, page_handlers.tree))
    running = asyncio.create_task(streams.run())
    event, text = read(await anext(news))
    assert event == "event: cells"
    assert len(json.loads(text)) == 16 + 6 + 1
    world.pod("late", "", "b1-r1-n3")
    event, text = read(await anext(news))
    assert event == "event: cells"
    assert json.loads(text) == {"b4": [8, 0], "b6": [8, 0], "n16": [8, 0, "", 0, [], "b1-r1-n3: 8 of 8 GPU used"]}
    world.node("another")
    assert read(await anext(news))[0] == "event: page"
    running.cancel()
    await news.aclose()  # type: ignore[attr-defined]


async def test_streams_end_with_the_server() -> None:
    desk = desk_of(hall())
    streams = Streams(desk.model)
    running = asyncio.create_task(streams.run())
    news = streams.follow(lambda: page_handlers.gangs(desk, {}), await known(desk, page_handlers.gangs))
    waiting = asyncio.create_task(anext(news, None))
    await asyncio.sleep(0.02)
    running.cancel()
    assert await waiting is None


async def test_there_is_an_end_to_how_many_may_watch() -> None:
    desk = desk_of(hall())
    await desk.model.refresh()
    streams = Streams(desk.model)
    following = [streams.follow(lambda: page_handlers.gangs(desk, {}), "old") for _ in range(MOST_WATCHERS)]
    for news in following:
        await anext(news)
    assert streams.is_full
    for news in following:
        await news.aclose()  # type: ignore[attr-defined]
    assert not streams.is_full


async def test_a_stream_is_not_opened_by_asking_for_its_head() -> None:
    async with site(hall()) as client:
        assert (await client.head("/live/gangs")).status_code == 200
