"""The page on how many copies fit is replayed: every command, with the output that it promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docs.session_kit import ROOT, play, read_steps, stack
from spinney.sim.kubernetes.assets import find_or_build_assets
from spinney.sim.kubernetes.errors import AssetsUnavailable

PAGE = ROOT / "docs" / "how-many-fit.md"


@pytest.mark.real
@pytest.mark.timeout(600)
def test_b1_the_page_on_copies_prints_what_it_says(tmp_path: Path) -> None:
    try:
        kubectl = find_or_build_assets().kubectl
    except AssetsUnavailable as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no kubectl: {unavailable}", pytrace=False)
        pytest.skip(f"no kubectl: {unavailable}")
    steps = read_steps(PAGE.read_text())
    with stack(tmp_path, kubectl) as shell:
        differences = play(shell, steps)
    assert not differences, "\n\n".join(map(str, differences))
