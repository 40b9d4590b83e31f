"""Five thousand nodes: the tree is drawn on a canvas and follows what happens; how fast is printed beside the goals."""

from __future__ import annotations

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


def test_b5_five_thousand_nodes_are_drawn_and_updated(pages: Hosted, visit: Callable[..., Visit]) -> None:
    page = visit(pages.url).page
    drawn = [_drawn_s(page) for _ in range(3)]
    expect(page.locator("#canvas")).to_have_attribute("data-drawn", "5000")
    page.locator("#light[data-state=live]").wait_for()
    seen = [_updated_s(page, pages, number) for number in range(TRIES)]
    print(f"5,000 nodes: page {_shown(drawn)} s (goal {PAGE_S}), update {_shown(seen)} s (goal {UPDATE_S})")


def _shown(took: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in took)


def _drawn_s(page: Page) -> float:
    begun = time.monotonic()
    page.goto("/tree?gang=default/g0008")
    page.wait_for_selector("#canvas[data-drawn]")
    return time.monotonic() - begun


def _updated_s(page: Page, pages: Hosted, number: int) -> float:
    """From the change in the view to the figure in the page."""
    figure = (
        "() => [...document.querySelectorAll('#live td .u')].reduce((sum, one) => sum + Number(one.textContent), 0)"
    )
    before = page.evaluate(figure)
    begun = time.monotonic()
    pages.do(lambda: pages.world.pod(f"late-{number}", "", f"b9-r24-n{number}", gpus=8))
    page.wait_for_function(f"before => ({figure})() > before", arg=before, polling="raf")
    return time.monotonic() - begun


def test_b5_a_canvas_is_walked_by_keyboard(pages: Hosted, visit: Callable[..., Visit]) -> None:
    page = visit(pages.url).page
    page.goto("/tree")
    page.wait_for_selector("#canvas[data-drawn]")
    page.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#at")).to_contain_text("b0-r00-n0: 8 of 8 GPU used (block b0, rack b0-r00)")
    page.keyboard.press("PageDown")
    expect(page.locator("#at")).to_contain_text("b1-r00-n0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(page.locator("#at")).to_contain_text("b9-r24-n19: 0 of 8 GPU used")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("b9-r24-n19")
