"""Every page in a browser, over a running stack (B5, K15)."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.scene import PLANNED, clique, podcliqueset, text
from browser.visiting import Visit
from stack_kit.spinney import Spinney

LIVE = "#light[data-state=live]"
WITHIN_S = 1.0


def test_b5_the_overview_tells_capacity_reach_and_who_waits_for_what(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_label("Capacity")).to_contain_text("of 944 used")
    expect(page.get_by_label("Capacity")).to_contain_text("172")
    waiting = page.get_by_role("row", name="default/giant-0")
    expect(waiting).to_contain_text("needs 9 pods in one h100.example.com/rack")
    expect(waiting).to_contain_text("It would fit in one h100.example.com/block")
    reach = page.get_by_role("region", name="Largest gang by level of gb200").get_by_role(
        "row", name=re.compile("^rack")
    )
    expect(reach).to_have_text(re.compile(r"rack\s*6\s*72\s*72\s*18"))


def test_b5_the_tree_is_drawn_with_occupancy_and_a_gang_in_it(page: Page) -> None:
    page.goto("/tree?topology=h100&gang=default/chat-0")
    expect(page.get_by_role("tree")).to_be_visible()
    assert page.locator("svg.cells a.cell").count() == 172
    holds = page.locator("a.cell[aria-label*='by the chosen gang']")
    expect(holds.first).to_be_visible()
    racks = {one.get_attribute("data-name").rpartition("-")[0] for one in holds.all()}  # type: ignore[union-attr]
    assert len(racks) == 1
    assert holds.first.locator("rect.gang").get_attribute("width") == "32.00"


def test_b5_another_topology_is_chosen_without_leaving_the_page(page: Page) -> None:
    page.goto("/tree?topology=h100")
    page.locator(LIVE).wait_for()
    page.get_by_label("Topology", exact=True).select_option("gb200")
    expect(page.get_by_role("tree", name="Topology gb200")).to_be_visible()
    expect(page).to_have_url(re.compile("topology=gb200"))


def test_b5_gangs_are_filtered_and_the_address_keeps_it(page: Page) -> None:
    page.goto("/gangs")
    expect(page.locator("#found")).to_contain_text(re.compile(r"of \d\d gangs"))
    page.get_by_label("State").select_option("waits")
    expect(page.locator("#found")).to_contain_text("of 2 gangs")
    page.get_by_label("Search").fill("giant")
    expect(page.locator("#found")).to_contain_text("of 1 gang")
    expect(page).to_have_url(re.compile(r"/gangs\?state=waits&q=giant$"))
    page.reload()
    expect(page.get_by_label("Search")).to_have_value("giant")
    expect(page.locator("#live tbody tr")).to_have_count(1)
    page.get_by_role("link", name="default/giant-0").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("giant-0")
    page.go_back()
    expect(page.locator("#live tbody tr")).to_have_count(1)


def test_k15_a_gang_that_waits_says_what_is_missing_where_and_what_would_help(page: Page) -> None:
    page.goto("/gangs/default/giant-0")
    why = page.locator("section[aria-labelledby=why]")
    expect(why).to_contain_text("requirement h100.example.com/rack couldn't be satisfied")
    missing = page.locator("section[aria-labelledby=lacks] tbody tr")
    assert missing.count() >= 3
    expect(missing.first).to_contain_text("8 of 9")
    expect(missing.first).to_contain_text("8 nvidia.com/gpu")
    expect(page.locator("section[aria-labelledby=ways] li")).to_have_text(["in one block", "with 8 pods"])
    expect(page.locator("section[aria-labelledby=events] tbody tr").first).to_contain_text("PodGroup giant-0")


def test_k15_a_gang_that_is_placed_shows_where_with_the_score_of_each_group(page: Page) -> None:
    page.goto("/gangs/default/chat-0")
    picture = page.get_by_role("tree", name="Domains that hold default/chat-0")
    expect(picture).to_be_visible()
    assert page.locator("a.cell").count() == 8
    groups = page.locator("section[aria-labelledby=groups] tbody tr")
    expect(groups).to_have_count(3)
    for row in groups.all():
        assert re.fullmatch(r"[01]\.\d\d", row.locator("td").last.inner_text())
    page.locator("section[aria-labelledby=pods] tbody a").first.click()
    expect(page.get_by_role("heading", name="Allocatable")).to_be_visible()


def test_b5_topologies_are_told_with_levels_problems_and_users(page: Page) -> None:
    page.goto("/topologies")
    expect(page.get_by_role("region", name="Levels of gb200")).to_contain_text("nvidia.com/gpu.clique")
    expect(page.locator("section[aria-labelledby=usage]")).to_contain_text("default/chat")
    expect(page.locator("section[aria-labelledby=problems]")).to_be_visible()


def test_b1_a_pasted_manifest_is_planned_and_nothing_is_created(stack: Spinney, page: Page) -> None:
    page.goto("/plan")
    page.get_by_label("Manifest").fill(text(PLANNED))
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("heading", name="It fits")).to_be_visible()
    expect(page.locator("#answer")).to_contain_text("default/planned-0")
    expect(page.locator("#answer")).to_contain_text("h100-b")
    drawn = page.get_by_role("tree", name="Where it would go in h100")
    assert drawn.locator("a.cell.here[aria-label*='planned for default/planned-0']").count() == 2
    too_much = podcliqueset("planned", "h100", {"packDomain": "rack"}, clique("worker", 9, 8))
    page.get_by_label("Manifest").fill(json.dumps(too_much))
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("heading", name="It does not fit")).to_be_visible()
    expect(page.locator("#answer")).to_contain_text("couldn't be satisfied")
    path = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/planned"
    assert stack.http("GET", path)[0] == 404


@pytest.mark.parametrize(
    "wrong", ["a: [", "just words", "kind: PodCliqueSet", "- 1", "apiVersion: v1\nkind: Pod\nmetadata: 3"]
)
def test_b1_what_is_no_manifest_is_answered_with_a_sentence(page: Page, wrong: str) -> None:
    page.goto("/plan")
    page.get_by_label("Manifest").fill(wrong)
    page.get_by_role("button", name="Plan").click()
    said = page.locator("#answer")
    expect(said).to_be_visible()
    assert "Traceback" not in said.inner_text()
    expect(page.get_by_label("Manifest")).to_have_value(wrong)


def test_b5_a_bind_is_seen_within_a_second(stack: Spinney, page: Page) -> None:
    """The best of a few: whoever else is busy on the machine is not measured."""
    page.goto("/tree?topology=h100")
    page.locator(LIVE).wait_for()
    took = []
    for attempt in range(4):
        took.append(_seen_after_s(stack, page, f"quick{attempt}"))
        if took[-1] <= WITHIN_S:
            break
    print(f"a bind was seen after {', '.join(f'{one:.2f}' for one in took)} s")
    assert min(took) <= WITHIN_S


def _seen_after_s(stack: Spinney, page: Page, name: str) -> float:
    sums = (
        "() => [...document.querySelectorAll('.tree > .box > .head .u')].reduce((a, b) => a + Number(b.textContent), 0)"
    )
    before = page.evaluate(sums)
    bound: list[float] = []
    watching = threading.Thread(target=lambda: bound.append(_bound_at(stack, name)))
    watching.start()
    made = podcliqueset(name, "h100", {"packDomain": "rack"}, clique("worker", 1, 8))
    assert stack.http("POST", "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets", made)[0] == 201
    page.wait_for_function(f"before => ({sums})() > before", arg=before, polling=10)
    seen = time.monotonic()
    watching.join()
    return seen - bound[0]


def _bound_at(stack: Spinney, name: str) -> float:
    path = f"/api/v1/namespaces/default/pods?labelSelector=app.kubernetes.io/part-of={name}"
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        pods = stack.http("GET", path)[1]["items"]
        if any(pod["spec"].get("nodeName") for pod in pods):
            return time.monotonic()
        time.sleep(0.02)
    raise AssertionError(f"no pod of {name} was bound")


def test_b5_a_list_follows_what_happens(stack: Spinney, page: Page) -> None:
    page.goto("/gangs?q=follower")
    expect(page.locator("#found")).to_contain_text("None of")
    page.locator(LIVE).wait_for()
    made = podcliqueset("follower", "h100", {"packDomain": "rack"}, clique("worker", 2, 1))
    path = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
    assert stack.http("POST", path, made)[0] == 201
    expect(page.locator("#live tbody tr")).to_contain_text("Scheduled")
    assert stack.http("DELETE", f"{path}/follower")[0] == 200
    expect(page.locator("#found")).to_contain_text("None of")


def test_b5_the_tree_is_walked_by_keyboard(page: Page) -> None:
    page.goto("/tree?topology=h100")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.locator(".tree > .box").first.focus()
    page.keyboard.press("ArrowDown")
    rack = page.locator(":focus")
    expect(rack).to_have_attribute("aria-label", re.compile("^rack "))
    page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_class(re.compile("cell"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^rack "))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(":focus")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    name = page.locator(":focus").get_attribute("data-name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(name))


def test_b5_gangs_have_colours_with_a_legend_and_details_by_pointer_and_focus(page: Page) -> None:
    page.goto("/tree?topology=h100")
    named = page.get_by_role("list", name="Gangs").get_by_role("link")
    expect(named.first).to_be_visible()
    assert "default/chat-0" in named.all_inner_texts()
    inks = page.evaluate("() => [...new Set([...document.querySelectorAll('.g')].map(e => getComputedStyle(e).fill))]")
    assert len(inks) > 1
    cell = page.locator("a.cell[aria-label*='of default/chat-0']").first
    cell.hover()
    expect(page.locator(".at")).to_contain_text("of default/chat-0")
    expect(page.locator(".at")).to_contain_text("rack")
    page.get_by_role("link", name="default/chat-0").hover()
    faded = page.locator(".g.faded")
    assert faded.count() > 0
    assert page.locator(".g.faded[data-gang='default/chat-0']").count() == 0
    page.locator("a.cell").last.focus()
    name = page.locator("a.cell").last.get_attribute("data-name")
    expect(page.locator(".at")).to_contain_text(str(name))


def test_b5_history_has_curves_and_a_table(page: Page) -> None:
    page.goto("/history")
    expect(page.get_by_role("img", name="GPUs used in the last 24 hours")).to_be_visible()
    assert page.locator("svg.chart path.curve").count() == 3
    page.get_by_text("As a table").click()
    expect(page.get_by_role("region", name="Samples").locator("tbody tr").first).to_be_visible()


def test_b5_a_list_is_sorted_by_its_headings(page: Page) -> None:
    page.goto("/gangs")
    page.get_by_role("link", name="Pods", exact=True).click()
    expect(page).to_have_url(re.compile("sort=pods"))
    expect(page.locator("#live tbody th").first).to_contain_text("default/pg-pretrain")
    expect(page.locator("#live thead [aria-sort=ascending]")).to_have_text("Pods")


def test_b5_every_page_has_landmarks_labels_and_one_title(page: Page) -> None:
    for address in ("/", "/tree", "/gangs", "/gangs/default/giant-0", "/queues", "/topologies", "/history", "/plan"):
        page.goto(address)
        assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1, address
        assert page.get_by_role("heading", level=1).count() == 1, address
        assert page.locator("nav[aria-label]").count() >= 1, address
        unnamed = page.evaluate(
            "() => [...document.querySelectorAll('input, select, textarea, button, a[href]')]"
            ".filter(e => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))"
            ".map(e => e.outerHTML)"
        )
        assert unnamed == [], address
        ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)), address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_b5_pages_are_readable_in_light_and_dark(stack: Spinney, visit: Callable[..., Visit], scheme: str) -> None:
    page = visit(stack.pages, color_scheme=scheme).page
    page.goto("/gangs/default/giant-0")
    for chosen in ("body", ".reason", ".line", "h1 .state", "#live a", "footer p", "dt"):
        contrast = page.evaluate(_CONTRAST, chosen)
        assert contrast >= 4.5, (chosen, contrast)
    bright = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", bright)[0]) < 128) is (scheme == "dark")


_CONTRAST = """chosen => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const element = document.querySelector(chosen);
  let ground = element;
  while (ground && (rgb(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
  const one = light(rgb(getComputedStyle(element).color)), other = light(rgb(getComputedStyle(ground).backgroundColor));
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""


def test_b5_nothing_is_wider_than_a_phone(stack: Spinney, visit: Callable[..., Visit]) -> None:
    page = visit(stack.pages, viewport={"width": 390, "height": 800}).page
    for address in (
        "/",
        "/tree?topology=gb200",
        "/gangs",
        "/gangs/default/giant-0",
        "/gangs/default/chat-0",
        "/queues",
        "/topologies",
        "/history",
    ):
        page.goto(address)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, address


def test_b5_what_is_not_there_is_said(stack: Spinney, visit: Callable[..., Visit]) -> None:
    visited = visit(stack.pages)
    visited.expected = {404}
    for address in ("/gangs/default/nobody", "/nodes/nobody", "/nowhere"):
        answer = visited.page.goto(address)
        assert answer is not None and answer.status == 404
        expect(visited.page.get_by_role("heading", name="Not found")).to_be_visible()
