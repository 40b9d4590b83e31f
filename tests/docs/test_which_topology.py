"""The page on finding one's topology is replayed: every command, with the output that it promises."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from cluster_kit.real_programs import real_programs
from docs.session_kit import ROOT, play, read_steps, stack
from spinney.core.view import lint

PAGE = ROOT / "docs" / "which-topology.md"
UP = "spinney up "


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return real_programs().kubectl


@pytest.mark.real
@pytest.mark.timeout(300)
def test_b2_the_page_prints_what_it_says(kubectl: Path, tmp_path: Path) -> None:
    first, *steps = read_steps(PAGE.read_text())
    assert first.command.startswith(UP)
    with stack(tmp_path, kubectl, *first.command.removeprefix(UP).split()) as shell:
        differences = play(shell, steps)
    shown = "\n\n".join(str(difference) for difference in differences[:5])
    assert not differences, f"{len(differences)} of {len(steps)} steps differ; the first ones:\n{shown}"


def test_b2_every_command_about_topologies_is_on_the_page() -> None:
    used = " ".join(step.command for step in read_steps(PAGE.read_text()))
    assert not [name for name in ("show", "usage", "lint", "discover") if f"spinney topology {name}" not in used]


def test_b2_every_problem_is_on_the_page() -> None:
    codes = set(re.findall(r'(?:ERROR|WARNING|NOTE|Problem\(severity), "([a-z-]+)"', inspect.getsource(lint)))
    assert len(codes) == 13
    assert not [code for code in codes if f"`{code}`" not in PAGE.read_text()]
