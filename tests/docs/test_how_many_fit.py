"""The page on how many copies fit is replayed: every command, with the output that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_kit.real_programs import real_programs
from docs.session_kit import ROOT, play, read_steps, stack

PAGE = ROOT / "docs" / "how-many-fit.md"


@pytest.mark.real
@pytest.mark.timeout(600)
def test_b1_the_page_on_copies_prints_what_it_says(tmp_path: Path) -> None:
    kubectl = real_programs().kubectl
    steps = read_steps(PAGE.read_text())
    with stack(tmp_path, kubectl) as shell:
        differences = play(shell, steps)
    assert not differences, "\n\n".join(map(str, differences))
