"""A killed leader is replaced; how fast is printed. Ten rounds are in the long suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.takeover import GANGS, SIZE, measure
from stack_kit.bare import bare_server

pytestmark = pytest.mark.timeout(600)


@pytest.mark.real
def test_r9_the_successor_of_a_leader_killed_in_a_burst_binds_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bare_server("real", tmp_path) as server:
        figures = measure(server, tmp_path, rounds=2)
    with capsys.disabled():
        print(f"\n{figures}")
    assert figures.violations == []
    assert figures.refused == []
    assert figures.binds == 2 * GANGS * SIZE
