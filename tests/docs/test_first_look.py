"""What a newcomer reads first is true: what is applied fits, commands exist, no page calls what is done a plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.session_kit import ROOT
from spinney import plan
from spinney.cli.main import cli

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
STALE = re.compile(
    r"\(to come\)|\b(is|are|still|yet) to come\b(?! to)|\bcoming soon\b|\bnot (implemented|here) yet\b|\bTODO\b",
    re.IGNORECASE,
)
_APPLIED = re.compile(r"^\$ kubectl apply (.*)$", re.MULTILINE)
_GAP = re.compile(r"^\| ([A-Z]+\d+) \| [^|]+ \| not yet \|$", re.MULTILINE)
_TEST = re.compile(r"def (test_\w+)\(")
_SHELL = re.compile(r"```console\n(.*?)```", re.DOTALL)


def test_what_the_readme_applies_fits_on_the_nodes_of_make_up() -> None:
    files = [ROOT / name for line in _APPLIED.findall(README) for name in line.split() if name != "-f"]
    assert files
    for file in files:
        found = plan(file, nodes=ROOT / "examples" / "nodes" / "laptop.yaml")
        assert found.fits, f"{file.name}: {found.to_json()}"


def test_the_set_that_the_readme_says_to_wait_waits() -> None:
    assert not plan(ROOT / "examples/pending/set.yaml", nodes=ROOT / "examples/nodes/laptop.yaml").fits


@pytest.mark.parametrize("nodes", ["gb200", "h100", "laptop", "mixed", "two-halls"])
def test_the_job_fits_on_every_described_cluster(nodes: str) -> None:
    assert plan(ROOT / "examples/job.yaml", nodes=ROOT / f"examples/nodes/{nodes}.yaml").fits


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_says_that_something_is_to_come(page: Path) -> None:
    found = [line for line in page.read_text(encoding="utf-8").splitlines() if STALE.search(line)]
    assert found == []


def test_what_is_said_to_be_a_gap_has_no_test_that_proves_it() -> None:
    """A requirement is "not yet" only while no test carries its name."""
    gaps = _GAP.findall((ROOT / "docs" / "requirements.md").read_text(encoding="utf-8"))
    assert gaps
    names = {
        name for file in (ROOT / "tests").rglob("*.py") for name in _TEST.findall(file.read_text(encoding="utf-8"))
    }
    proved = {gap: sorted(name for name in names if gap.lower() in name.split("_")) for gap in gaps}
    assert {gap: found for gap, found in proved.items() if found} == {}


def test_the_readme_promises_no_more_than_the_requirements_prove() -> None:
    requirements = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    drop_in = next(line for line in requirements.splitlines() if line.startswith("| B4 |"))
    assert "not yet" not in drop_in or "work unchanged" not in README


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "faq.md"], ids=lambda page: page.name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = set(re.findall(r"(?:^\$ |`)spinney ([a-z]+)", text, re.MULTILINE))
    assert shown
    assert shown <= set(cli.list_commands(None))  # type: ignore[arg-type]  # the list does not depend on it


def test_the_readme_says_how_to_have_the_command_and_whom_to_tell_of_a_hole() -> None:
    assert "uv tool install ." in README and "pipx install ." in README
    assert "(SECURITY.md)" in README and (ROOT / "SECURITY.md").exists()
    assert len(_SHELL.findall(README)) >= 5
