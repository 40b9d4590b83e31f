"""R9: from kill -9 of the leader to the first bind of its successor, ten times on a real API server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simulation.takeover import measure
from stack_kit.bare import bare_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


@pytest.mark.real
def test_r9_ten_killed_leaders_are_replaced_without_a_broken_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = int(os.environ.get("SPINNEY_ROUNDS", "10"))
    with bare_server("real", tmp_path) as server:
        figures = measure(server, tmp_path, rounds)
    with capsys.disabled():
        print(f"\n{figures}")
    assert figures.violations == []
    assert figures.refused == []
