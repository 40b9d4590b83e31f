"""The page of queues in a browser: bars, marks and figures, light and dark, wide and narrow (Q8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from browser.hosting import hosted
from browser.visiting import Visit
from unit.dashboard.test_queue_page import borrowing

LIVE = "#light[data-state=live]"


def box(part: Locator) -> tuple[float, float]:
    """Where it begins, and how wide it is."""
    found = part.bounding_box()
    assert found is not None
    return found["x"], found["width"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_q8_bars_are_drawn_to_scale_with_marks_that_can_be_told_apart(
    visit: Callable[..., Visit], scheme: str, width: int
) -> None:
    with hosted(borrowing()) as pages:
        page = visit(pages.url, color_scheme=scheme, viewport={"width": width, "height": 800}).page
        page.goto("/queues")
        page.locator(LIVE).wait_for()
        row = page.get_by_role("row", name="main", exact=False).filter(has_text="64").first
        bar = row.locator("svg.queue-bar")
        (start, whole), (_, used) = box(bar.locator(".bg")), box(bar.locator(".used"))
        lent, _ = box(bar.locator(".lent"))
        share, quota, limit = (box(bar.locator(mark))[0] for mark in (".share", ".quota", ".limit"))
        assert used == pytest.approx(whole / 4, abs=1.5), "16 of 64"
        assert lent == pytest.approx(start + whole / 4, abs=1.5)
        assert quota == pytest.approx(start + whole / 4, abs=2.5)
        assert share == pytest.approx(start + whole * 3 / 8, abs=2.5)
        assert limit == pytest.approx(start + whole, abs=2.5)
        colours = page.evaluate(
            "() => ['.used', '.lent', '.bg'].map(one => getComputedStyle(document.querySelector(one)).fill)"
            ".concat(['.share', '.quota', '.limit'].map(one => getComputedStyle(document.querySelector(one)).stroke))"
        )
        assert len(set(colours)) == 6 and "none" not in colours
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_q8_the_resource_is_chosen_and_the_gangs_of_a_queue_are_one_click_away(visit: Callable[..., Visit]) -> None:
    with hosted(borrowing()) as pages:
        page = visit(pages.url).page
        page.goto("/queues")
        expect(page.get_by_role("link", name="Queues")).to_have_attribute("aria-current", "page")
        page.get_by_role("link", name="CPU cores").click()
        expect(page.get_by_role("columnheader", name="cores")).to_be_visible()
        page.get_by_role("link", name="other", exact=True).click()
        expect(page.locator("#found")).to_contain_text("1 to 1 of 1 gang")
