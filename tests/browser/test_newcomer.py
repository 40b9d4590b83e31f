"""What a newcomer does: the commands of the README until all is ready, every example, every page in a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from browser.pictures import PAGES
from browser.visiting import Visit
from cluster_kit.real_programs import real_programs
from cluster_kit.server import eventually
from docs.session_kit import ROOT, read_steps
from stack_kit.spinney import Spinney, spinney

pytestmark = pytest.mark.real

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "pictures"
_NOT_HERE = re.compile(r"make |export |uv |pipx |podman |helm |spinney demo")
"""Commands of the README that build, install or run something else than the stack of `make up`."""
_TOPOLOGIES = ("examples/topology.yaml", "examples/topologies/gb200.yaml", "examples/topologies/h100.yaml")
_FOLDERS = ("", "sets", "pending", "dynamo", "workloads")


@pytest.fixture(scope="module")
def up(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spinney]:
    directory = tmp_path_factory.mktemp("newcomer")
    (directory / "examples").symlink_to(ROOT / "examples")
    with spinney(directory, "--dashboard-port", "0", kubectl=real_programs().kubectl) as found:
        yield found.ready()


def typed(up: Spinney, command: str) -> str:
    """What the command prints; it must succeed."""
    path = f"{Path(sys.executable).parent}:{real_programs().kubectl.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "PATH": path, "HOME": str(up.directory)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=up.directory, env=environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _is_ready(up: Spinney) -> bool:
    pods = up.read("/api/v1/pods")["items"]
    told = [{one["type"]: one["status"] for one in pod["status"].get("conditions", ())} for pod in pods]
    phases = [pod["status"]["phase"] for pod in pods]
    ready = (phase == "Succeeded" or one.get("Ready") == "True" for phase, one in zip(phases, told, strict=True))
    return len(pods) >= 13 and all(ready)


def test_the_commands_of_the_readme_lead_to_ready(up: Spinney) -> None:
    commands = [step.command.partition("#")[0].strip() for step in read_steps(README)]
    played = [command for command in commands if not _NOT_HERE.match(command)]
    assert {command.split()[0] for command in played} == {"kubectl", "spinney"}
    applied = [command for command in played if command.startswith("kubectl apply")]
    assert len(applied) >= 2
    for command in applied:
        typed(up, command)
    eventually(lambda: _is_ready(up), "all that the README applies is ready")
    printed = {command: typed(up, command.removesuffix(" -w")) for command in played if command not in applied}
    assert "default     disaggregated-0 " in printed["spinney gangs"]
    assert "disaggregated-0" in printed["spinney explain default/disaggregated"]
    typed(up, "kubectl apply -f examples/pending/set.yaml")
    eventually(lambda: "Unschedulable" in typed(up, "spinney gangs"), "what waits on purpose says why")


def test_every_example_is_accepted(up: Spinney) -> None:
    """But for kinds that the server does not have."""
    typed(up, f"kubectl apply {' '.join(f'-f {name}' for name in _TOPOLOGIES)}")
    files = [file for folder in _FOLDERS for file in sorted((ROOT / "examples" / folder).glob("*.yaml"))]
    assert len(files) >= 30
    command = " ".join(f"-f {file}" for file in files)
    done = subprocess.run(up.kubectl_command("apply", *command.split()), capture_output=True, text=True, timeout=180)
    complaints = [line for line in done.stderr.splitlines() if line and not line.startswith("Warning:")]
    expected = re.compile(r"(error: )?resource mapping not found .* no matches for kind|ensure CRDs are|\[?resource")
    assert [line for line in complaints if not expected.match(line)] == []


def test_every_page_shows_what_was_applied(up: Spinney, visit: Callable[..., Visit], tmp_path: Path) -> None:
    """Without an error of the browser; some also in dark and narrow."""
    gang, node = "default/disaggregated-0", "z0-b0-r1-n1"
    shows = {
        "/": "Overview",
        "/tree": gang,
        f"/tree?gang={quote(gang, safe='')}": gang,
        "/gangs": gang,
        f"/gangs/{gang}": "Where it is",
        f"/nodes/{node}": "Allocatable",
        "/topologies": "default/disaggregated",
        "/queues": "default-queue",
        "/history": "GPUs used",
        "/plan": "Manifest",
    }
    narrow = ("/tree", "/gangs", "/queues", "/history")
    for scheme, width, addresses in (("light", 1280, tuple(shows)), ("dark", 390, narrow)):
        page = visit(up.pages, color_scheme=scheme, viewport={"width": width, "height": 800}).page
        for number, address in enumerate(addresses):
            page.goto(address)
            expect(page.locator("#main")).to_contain_text(shows[address], ignore_case=True)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, address
            picture = tmp_path / f"{scheme}-{number}.png"
            page.screenshot(path=picture)
            assert picture.stat().st_size > 5000


def test_pictures_of_the_pages_are_in_the_docs() -> None:
    pages = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "docs").glob("*.md"))
    for name in (*PAGES, "plan"):
        assert (PICTURES / f"{name}.png").exists()
        assert f"pictures/{name}.png" in README + pages, name
