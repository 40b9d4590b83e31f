"""Small replays that can be followed by hand, most on two blocks of two racks of two hosts of four GPUs."""

from __future__ import annotations

from spinney.sim.replay.figures import figures, quantile, to_json
from spinney.sim.replay.simulation import MoveSettings, replay
from unit.replay.replay_kit import described, replayed, scene, setting, trace


def test_a_gang_that_fits_starts_when_it_comes() -> None:
    (start,) = replayed(trace((5, 8, 10))).starts
    assert (start.at_s, start.waited_s, start.level, len(start.nodes)) == (5, 0, "rack", 2)


def test_a_gang_that_does_not_fit_starts_when_room_comes_free() -> None:
    first, second = replayed(trace((0, 32, 10), (3, 4, 10))).starts
    assert (first.at_s, second.at_s, second.waited_s) == (0, 10, 7)


def test_a_smaller_gang_overtakes_one_that_does_not_fit_unless_told_otherwise() -> None:
    rows = (0, 28, 10), (1, 8, 10), (2, 4, 1)
    assert [start.gang for start in replayed(trace(*rows), where=described(1, 1, 8)).starts] == ["g0", "g2", "g1"]
    fifo = replayed(trace(*rows), "binpack+fifo", described(1, 1, 8)).starts
    assert [(start.gang, start.at_s) for start in fifo] == [("g0", 0), ("g1", 10), ("g2", 10)]


def test_more_priority_goes_first() -> None:
    rows = (0, 32, 10, 0), (1, 32, 10, 0), (2, 32, 10, 5)
    assert [start.gang for start in replayed(trace(*rows)).starts] == ["g0", "g2", "g1"]


def test_a_gang_larger_than_its_level_is_impossible_and_says_why() -> None:
    outcome = replayed(trace((0, 100, 10), (0, 4, 10)))
    ((gang, reason),) = outcome.impossible
    assert gang == "g0" and reason
    assert [start.gang for start in outcome.starts] == ["g1"]


def test_an_impossible_gang_does_not_block_a_fifo_line() -> None:
    outcome = replayed(trace((0, 100, 10), (1, 4, 10)), "binpack+fifo")
    assert [start.waited_s for start in outcome.starts] == [0]


def test_consolidation_moves_pods_for_a_gang_that_fits_nowhere() -> None:
    """Two hosts of four, each half full: a pod of four needs one of them empty."""
    rows = (0, 2, 100), (0, 2, 100), (60, 4, 10)
    where = described(1, 1, 2)
    waits = replayed(trace(*rows), "spread", where).starts[-1]
    stage = scene(trace(*rows), where, MoveSettings(every_s=0, costs_s=7))
    moved = replay(stage, setting("spread+consolidation"))
    assert waits.waited_s == 40 and moved.starts[-1].waited_s == 0 and moved.moves == 1
    assert moved.ended_s == 107


def test_moves_are_looked_for_now_and_then_only() -> None:
    rows = (0, 2, 100), (0, 2, 100), (60, 4, 10), (75, 2, 100), (76, 2, 100), (80, 4, 10), (90, 1, 1)
    stage = scene(trace(*rows), described(1, 1, 2), MoveSettings(every_s=10**6, costs_s=0))
    assert replay(stage, setting("spread+consolidation")).moves == 1


def test_means_count_each_moment_as_long_as_it_lasts() -> None:
    """16 of 32 GPUs for the first half of the time, none for the second."""
    stage = scene(trace((0, 16, 50), (100, 1, 1)))
    found = figures(stage, replay(stage, setting("binpack")))
    assert found.mean.used == 0.25
    assert [round(means.used, 6) for _, means in found.series] == [0.5] * 60 + [0.0] * 60


def test_fragmentation_is_what_scattering_costs() -> None:
    """Spread puts one pod of one GPU on each of eight hosts: 24 GPUs are free, and no host is."""
    rows = [(0, 1, 100)] * 8
    shown = replayed(trace(*rows, (50, 1, 1)), "spread").moments[0]
    assert shown.stranded == 1.0 and shown.fragmentation == (1.0, 1.0, 1.0)
    dense = replayed(trace(*rows, (50, 1, 1)), "binpack").moments[0]
    assert dense.stranded == 0.0 and dense.fragmentation == (0.0, 0.0, 0.0)


def test_a_trace_that_comes_at_once_is_measured_to_its_end() -> None:
    stage = scene(trace((0, 32, 10), (0, 32, 30)))
    found = figures(stage, replay(stage, setting("binpack")))
    assert found.ended_s == 40 and found.mean.used == 1.0 and found.mean.waiting == 0.25


def test_quantiles_are_values_that_occur() -> None:
    assert [quantile([1, 2, 3, 4], percent) for percent in (50, 95, 100)] == [2, 4, 4]
    assert quantile([], 99) == 0


def test_counts_add_up() -> None:
    stage = scene(trace((0, 100, 10), (0, 32, 10), (3, 4, 10), (20, 4, 1)))
    found = to_json(stage, "t.csv", [figures(stage, replay(stage, setting("binpack")))])["settings"][0]
    placed = found["placed"]
    assert placed == {"atOnce": 2, "byTheLastArrival": 3, "inAll": 3, "never": 1, "share": 0.75}
    assert sum(found["levels"].values()) == placed["inAll"] == found["gangs"] - placed["never"]


def test_waiting_is_told_by_size() -> None:
    stage = scene(trace((0, 16, 10), (0, 16, 10), (4, 1, 1), (5, 3, 1), (5, 4, 1)))
    found = figures(stage, replay(stage, setting("binpack")))
    assert [(size.name, size.gangs, size.at_once, size.mean_s) for size in found.sizes] == [
        ("1", 1, 0, 6.0),
        ("3 to 4", 2, 0, 5.0),
        ("9 to 16", 2, 2, 0.0),
    ]
