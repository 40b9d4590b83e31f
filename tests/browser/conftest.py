"""A browser and a stack for the tests of the pages.

Without a browser they are skipped, loudly; in CI that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from browser.scene import GB200, H100, NODES, WORKLOADS, text
from browser.visiting import Visit
from cluster_kit.server import eventually
from stack_kit.spinney import Spinney, spinney

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE_S = 90
expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module: while it is there a loop runs in this thread, and no asynchronous test of others could."""
    if not CHROMIUM:
        reason = "NO BROWSER: the pages are not tested; install chromium, or name it in CHROMIUM"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spinney]:
    """`spinney up` with gangs that are placed and gangs that wait, once all have been told."""
    directory = tmp_path_factory.mktemp("pages")
    (directory / "nodes.yaml").write_text(NODES)
    (directory / "topologies.yaml").write_text(text(H100, GB200))
    (directory / "workloads.yaml").write_text(text(*WORKLOADS))
    files = ["-f", str(directory / "topologies.yaml"), "-f", str(directory / "workloads.yaml")]
    arguments = ["--nodes", str(directory / "nodes.yaml"), "--dashboard-port", "0", *files]
    with spinney(directory / "up", *arguments) as up:
        up.ready()
        eventually(lambda: _is_told(up), "every gang is placed or told why not")
        yield up


def _is_told(up: Spinney) -> bool:
    groups = up.http("GET", "/apis/scheduling.run.ai/v2alpha2/podgroups")[1]["items"]
    pods = up.http("GET", "/api/v1/pods")[1]["items"]
    told = [one for one in groups if "spinney.dev/explanation" in (one["metadata"].get("annotations") or {})]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    return len(groups) == 10 and len(told) == 2 and len(pods) - len(bound) == 28


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Open pages in a browser that notes errors and where it sends requests; both must have been well at the end."""
    visits: list[Visit] = []

    def start(site: str, **settings: Any) -> Visit:
        context = browser.new_context(base_url=site, **settings)
        context.set_default_timeout(PATIENCE_S * 1000)
        visits.append(Visit(site, context.new_page()))
        return visits[-1]

    yield start
    for each in visits:
        each.page.context.close()
        each.check()


@pytest.fixture
def page(stack: Spinney, visit: Callable[..., Visit]) -> Page:
    """A page of the stack."""
    return visit(stack.pages).page
