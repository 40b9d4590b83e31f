"""Whatever comes in whatever order: nothing is over-committed, every level holds, everybody comes, runs and goes."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.api.placement.problem import Gang
from spinney.api.placement.result import Decision
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.sim.replay.simulation import Moved, MoveSettings, WaitingQueue, replay
from unit.replay.replay_kit import Book, described, replayed, scene, setting, trace

SETTINGS = ("binpack", "spread", "binpack+consolidation", "spread+consolidation", "binpack+fifo", "spread+fifo")

ROWS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 20, 40]),
        st.integers(0, 40),
        st.integers(-1, 1),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=25, deadline=None)
@given(rows=ROWS, racks=st.integers(1, 3), hosts=st.integers(1, 3))
def test_a_log_keeps_every_promise(name: str, rows: list[tuple[int, int, int, int]], racks: int, hosts: int) -> None:
    stage = scene(trace(*rows), described(racks=racks, hosts=hosts), MoveSettings(every_s=0, costs_s=7))
    outcome = replay(stage, setting(name))
    assert Book(stage).follow(outcome, is_eager="+" not in name) == []


def test_a_gang_whose_pods_all_move_keeps_its_level() -> None:
    rows = [(0, gpus, 0) for gpus in (5, 5, 12, 6, 3, 1)]
    stage = scene(trace(*rows), described(racks=2, hosts=2), MoveSettings(every_s=0, costs_s=7))
    outcome = replay(stage, setting("spread+consolidation"))
    moved = Counter(entry.gang for entry in outcome.log if isinstance(entry, Moved))
    assert any(moved[start.gang] == len(start.nodes) >= 2 for start in outcome.starts)
    assert Book(stage).follow(outcome, is_eager=True) == []


@settings(max_examples=25, deadline=None)
@given(rows=ROWS)
def test_in_a_fifo_line_nobody_overtakes_an_equal(rows: list[tuple[int, int, int, int]]) -> None:
    equal = trace(*((at, gpus, runs) for at, gpus, runs, _ in rows))
    began = [start.gang for start in replayed(equal, "binpack+fifo").starts]
    came = [job.name for job in equal.jobs]
    assert began == [name for name in came if name in began]


@settings(max_examples=10, deadline=None)
@given(rows=ROWS, name=st.sampled_from(SETTINGS))
def test_the_same_input_gives_the_same_outcome(rows: list[tuple[int, int, int, int]], name: str) -> None:
    assert replayed(trace(*rows), name) == replayed(trace(*rows), name)


BUSY = trace(*((at, gpus, 30) for at, gpus in enumerate([4, 8, 2, 16, 4, 1, 8, 3, 12, 4, 8, 2, 16, 1])))


def test_a_planted_over_commitment_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decider that puts every pod of a gang on the first node."""
    honest = PlacementSession.minimum

    def planted(self: PlacementSession, gang: Gang) -> Decision:
        found = honest(self, gang)
        first = found.placements[0].node if found.placements else ""
        there = tuple(msgspec.structs.replace(place, node=first) for place in found.placements)
        return msgspec.structs.replace(found, placements=there)

    monkeypatch.setattr(PlacementSession, "minimum", planted)
    broken = Book(scene(BUSY)).follow(replay(scene(BUSY), setting("binpack")), is_eager=True)
    assert any("over-commits" in one for one in broken)


def test_a_planted_split_of_a_level_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decider that does not know of the requirement."""
    honest = PlacementSession.minimum

    def planted(self: PlacementSession, gang: Gang) -> Decision:
        root = msgspec.structs.replace(gang.root, required=None, preferred=None)
        return honest(self, msgspec.structs.replace(gang, root=root))

    monkeypatch.setattr(PlacementSession, "minimum", planted)
    stage = scene(BUSY, described(hosts=3), rules=("4=host", "12=rack", "*=block"))
    broken = Book(stage).follow(replay(stage, setting("spread")), is_eager=False)
    assert any("domains" in one for one in broken)


def test_a_planted_idler_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not hear of new room."""
    monkeypatch.setattr(WaitingQueue, "hope", lambda self: None)
    with pytest.raises(AssertionError):
        replay(scene(BUSY), setting("binpack"))
