"""Five thousand nodes: racks are drawn, opened on a click, and follow what happens; how fast is printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from browser.hosting import Hosted, hosted
from browser.visiting import Visit
from unit.dashboard.world import World

PAGE_S, UPDATE_S = 1.0, 0.3
TRIES = 5


def _world() -> World:
    world = World()
    world.topology()
    for block in range(10):
        for rack in range(25):
            world.rack(f"b{block}", f"b{block}-r{rack:02}", 20)
    names = [node.metadata.name for node in world.nodes]
    for gang in range(0, 4000, 4):
        world.gang(f"g{gang:04}")
        for pod in range(4):
            world.pod(f"g{gang:04}-{pod}", f"g{gang:04}", names[gang + pod])
    return world


@pytest.fixture(scope="module")
def pages() -> Iterator[Hosted]:
    with hosted(_world()) as found:
        yield found


def test_b5_five_thousand_nodes_are_aggregated_and_opened(pages: Hosted, visit: Callable[..., Visit]) -> None:
    page = visit(pages.url).page
    drawn = [_drawn_s(page) for _ in range(3)]
    assert page.locator(".box.closed").count() == 250
    page.locator("#light[data-state=live]").wait_for()
    seen = [_updated_s(page, pages, number) for number in range(TRIES)]
    page.get_by_role("link", name="b9-r24", exact=True).click()
    expect(page.locator("a.cell")).to_have_count(20)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    page.get_by_role("link", name="b9", exact=True).click()
    expect(page.locator("a.cell")).to_have_count(500)
    page.locator("#light[data-state=live]").wait_for()
    pages.do(lambda: pages.world.pod("last", "", "b9-r24-n19", gpus=8))
    expect(page.locator("a.cell[data-name='b9-r24-n19']")).to_have_attribute(
        "aria-label", re.compile("8 of 8 GPU used")
    )
    print(f"5,000 nodes: page {_shown(drawn)} s (goal {PAGE_S}), update {_shown(seen)} s (goal {UPDATE_S})")


def _shown(took: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in took)


def _drawn_s(page: Page) -> float:
    begun = time.monotonic()
    page.goto("/tree?gang=default/g0008")
    page.get_by_role("tree").wait_for()
    return time.monotonic() - begun


def _updated_s(page: Page, pages: Hosted, number: int) -> float:
    """From the change in the view to the figure in the page."""
    figure = (
        "() => [...document.querySelectorAll('.tree > .box > .head .u')]"
        ".reduce((sum, one) => sum + Number(one.textContent), 0)"
    )
    before = page.evaluate(figure)
    begun = time.monotonic()
    pages.do(lambda: pages.world.pod(f"late-{number}", "", f"b9-r24-n{number}", gpus=8))
    page.wait_for_function(f"before => ({figure})() > before", arg=before, polling="raf")
    return time.monotonic() - begun


def test_b5_a_large_tree_is_walked_and_opened_by_keyboard(pages: Hosted, visit: Callable[..., Visit]) -> None:
    page = visit(pages.url).page
    page.goto("/tree")
    page.locator(".tree > .box").first.focus()
    expect(page.locator(".at")).to_contain_text("block b0, 500 nodes, 4000 of 4000 GPU used")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".at")).to_contain_text("rack b0-r01, 20 nodes")
    page.keyboard.press("Enter")
    expect(page.locator("a.cell")).to_have_count(20)
    expect(page).to_have_url(re.compile("at=b0/b0-r01"))
