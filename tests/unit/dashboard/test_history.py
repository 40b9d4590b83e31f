"""Samples over hours: how many are kept, and how they become curves."""

from __future__ import annotations

from spinney.serve.dashboard.history import HEIGHT, WIDTH, History, Sample, charts

START_S = 1_767_225_600


def sample(minute: int, used: int = 4, waiting: int = 0) -> Sample:
    return Sample(START_S + 60 * minute, "GPU", 8, used, 8 - used, 0, waiting)


def test_b5_a_day_is_kept_and_no_more() -> None:
    history = History()
    for minute in range(5000):
        history.add(sample(minute))
    assert len(history.last(24)) == 24 * 60
    assert len(history.last(1)) == 61
    assert history.last(24)[-1].at_s == START_S + 60 * 4999


def test_b5_a_curve_ends_at_the_newest_sample_and_has_the_height_of_its_value() -> None:
    used, waiting, _ = charts([sample(0, used=2), sample(60, used=8, waiting=3)], 1)
    assert used.lines == (f"M0.0,{HEIGHT * 0.75:.1f}", f"M{WIDTH:.1f},0.0")
    assert (used.least, used.most, used.now, used.top) == (2, 8, 8, 8)
    assert (waiting.top, waiting.now) == (3, 3)


def test_b5_a_curve_is_broken_where_nothing_was_sampled() -> None:
    used = charts([*map(sample, (0, 1, 2)), *map(sample, (30, 31))], 6)[0]
    assert [line.count("L") for line in used.lines] == [2, 1]


def test_without_samples_there_is_no_chart() -> None:
    assert charts([], 24) == ()
    assert History().last(24) == []
