"""Pictures of the pages for README and docs: `PYTHONPATH=tests python -m browser.pictures [DIRECTORY]`.

Starts a stack of its own and stops it again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from browser.scene import GB200, H100, NODES, PLANNED, WORKLOADS, text
from stack_kit.spinney import spinney

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1120, "height": 760}
PAGES = {
    "overview": "/",
    "tree": "/tree?topology=h100&gang=default/chat-0",
    "colours": "/tree?topology=h100",
    "gang": "/gangs/default/giant-0",
    "placed": "/gangs/default/chat-0",
}


def take(directory: Path, scheme: str = "light", width: int = SIZE["width"], full: bool = False) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        files = {"nodes.yaml": NODES, "topologies.yaml": text(H100, GB200), "workloads.yaml": text(*WORKLOADS)}
        for name, content in files.items():
            Path(scratch, name).write_text(content)
        manifests = [f"-f{scratch}/topologies.yaml", f"-f{scratch}/workloads.yaml"]
        with spinney(
            Path(scratch, "up"), "--nodes", f"{scratch}/nodes.yaml", "--dashboard-port", "0", *manifests
        ) as up:
            site = up.ready().pages
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={**SIZE, "width": width}, color_scheme=scheme)  # type: ignore[arg-type]
            _wait_until_told(page, site)
            for name, address in PAGES.items():
                page.goto(site + address)
                page.wait_for_selector("#light[data-state=live]")
                page.screenshot(path=directory / f"{name}.png", full_page=full)
            page.goto(f"{site}/plan")
            page.get_by_label("Manifest").fill(text(PLANNED))
            page.get_by_role("button", name="Plan").click()
            page.locator("#answer").wait_for()
            page.screenshot(path=directory / "plan.png", full_page=full)
            browser.close()


def _wait_until_told(page: Page, site: str) -> None:
    """Until all that fits is placed and the rest has been told why not."""
    page.goto(f"{site}/gangs?state=placed")
    page.get_by_text("of 8 gangs").wait_for()
    page.goto(f"{site}/gangs?state=Unschedulable")
    page.get_by_text("of 2 gangs").wait_for()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
