"""Names and words of others that try to be more than text, and visitors without a token."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from urllib.parse import quote

from playwright.sync_api import expect

from browser.hosting import hosted
from browser.visiting import Visit
from spinney.api.labels import EXPLANATION
from spinney.core.view.topology_usage import TopologyUse
from spinney.serve.dashboard.data_sources import ClusterEvent, Key, PlanRefused, Questions
from unit.dashboard.world import BLOCK, RACK, World

EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}</textarea>"
NAME = "\"'><img src=x onerror=alert(1)><svg onload=alert(2)>{{7*7}}"
"""Without a slash, which no name has."""
TOKEN = "a-token-that-nobody-guesses"


def _world() -> World:
    world = World()
    world.topology(EVIL)
    for number in range(3):
        world.node(f"{NAME}{number}", labels={BLOCK: EVIL, RACK: f"{EVIL}{number}"})
    told = {"version": 1, "state": EVIL, "lines": [EVIL, EVIL], "level": RACK, "fitsIf": [{"level": EVIL}]}
    told |= {"best": [{"path": [EVIL], "holds": 1, "of": 2, "short": {EVIL: 1}}], "blocked": {EVIL: 3}}
    told |= {"occupied": {f"{NAME}/{NAME}": 1}}
    world.gang(NAME, namespace=NAME, queue=EVIL, on=EVIL, annotations={EXPLANATION: json.dumps(told)})
    world.pod(NAME, NAME, f"{NAME}1", namespace=NAME)
    world.pod(f"{NAME}w", NAME, namespace=NAME)
    return world


async def _events(gang: Key, pods: Sequence[str]) -> list[ClusterEvent]:
    return [ClusterEvent(EVIL, EVIL, EVIL, EVIL, EVIL)]


async def _plan(text: str) -> PlanRefused:
    return PlanRefused(text)


def test_b5_names_are_shown_and_never_obeyed(visit: Callable[..., Visit]) -> None:
    questions = Questions(_events, lambda: [TopologyUse(EVIL, f"{EVIL}/{EVIL}", False, EVIL)], _plan, lambda: EVIL)
    name = quote(NAME, safe="")
    addresses = ["/", "/gangs", f"/gangs/{name}/{name}", "/topologies", f"/nodes/{name}1", f"/gangs?q={quote(EVIL)}"]
    addresses += [f"/tree?topology={quote(EVIL)}&gang={name}/{name}", f"/gangs?state={quote(EVIL)}"]
    with hosted(_world(), questions) as pages:
        page = visit(pages.url).page
        for address in addresses:
            page.goto(address)
            page.locator("#light[data-state=live]").wait_for()
            expect(page.locator("#live")).to_contain_text("onerror=alert(1)>")
            expect(page.get_by_role("alert").first).to_contain_text("<script>alert(2)</script>{{7*7}}")
            assert page.locator("img").count() == 0
        page.goto("/plan")
        page.get_by_label("Manifest").fill(EVIL)
        page.get_by_role("button", name="Plan").click()
        expect(page.locator("#answer")).to_have_text(EVIL)
        page.goto("/gangs")
        page.locator("#light[data-state=live]").wait_for()
        pages.do(lambda: pages.world.gang(f"{NAME}2", namespace=NAME))
        expect(page.locator("#live tbody tr")).to_have_count(2)


def test_b5_without_the_token_nothing_is_shown(visit: Callable[..., Visit]) -> None:
    with hosted(_world(), token=TOKEN) as pages:
        visited = visit(pages.url)
        visited.expected = {401}
        page = visited.page
        page.goto("/gangs")
        expect(page.get_by_role("heading", name="Spinney")).to_be_visible()
        assert "script>alert" not in page.content()
        page.get_by_label("Token").fill("wrong, wrong, wrong")
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_role("alert")).to_have_text("That is not the token.")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.locator("#light[data-state=live]").wait_for()
        cookie = page.context.cookies()[0]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and TOKEN not in cookie["value"]
        other = visit(pages.url).page
        other.goto(f"/gangs?state=waits&token={TOKEN}")
        expect(other).to_have_url(f"{pages.url}/gangs?state=waits")
        expect(other.get_by_role("heading", name="Gangs")).to_be_visible()
