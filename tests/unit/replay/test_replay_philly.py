"""The Philly mix on the Lingjun network, all 5,714 arrivals: promises are kept, and the page says what comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from spinney.sim.replay.cluster import read_hosts
from spinney.sim.replay.figures import Figures, figures
from spinney.sim.replay.simulation import Outcome, ReplayInputs, replay, replay_inputs
from spinney.sim.replay.trace import read_trace
from unit.replay.replay_kit import GPU, Book, setting

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "examples" / "traces"


@pytest.fixture(scope="module")
def stage() -> ReplayInputs:
    hosts = read_hosts((TRACES / "lingjun-topology.csv").read_text(), "lingjun-topology.csv", GPU)
    return replay_inputs(hosts, read_trace((TRACES / "philly-gangs.csv").read_text(), "philly-gangs.csv"), resource=GPU)


@pytest.fixture(scope="module")
def outcome(stage: ReplayInputs) -> Outcome:
    return replay(stage, setting("binpack"))


def test_every_promise_is_kept(stage: ReplayInputs, outcome: Outcome) -> None:
    assert len(stage.schedule.arrivals) == 5714
    assert Book(stage).follow(outcome, is_eager=False) == []


def test_the_page_says_what_comes_out(stage: ReplayInputs, outcome: Outcome) -> None:
    found = figures(stage, outcome)
    rows = _first_table((ROOT / "docs" / "replay.md").read_text(encoding="utf-8"))
    for title, figure in _told(found).items():
        assert rows[title] == figure, title


def _told(found: Figures) -> dict[str, str]:
    return {
        "placed at once": f"{found.at_once:,} ({found.at_once / found.gangs:.1%})".replace("%", " %"),
        "in all": f"{found.placed:,}",
        "waited, p99": f"{found.waits.p99 / 86_400:.1f} d",
        "GPUs in use, mean": f"{100 * found.mean.used:.1f} %",
        "longest line": str(found.longest_line),
    }


def _first_table(page: str) -> dict[str, str]:
    """The column of binpack, by title."""
    lines = page.partition("| | `binpack` |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {row[1]: row[2] for row in cells}
