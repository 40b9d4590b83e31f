"""What queues held lately fades by half in a half-life."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spinney.core.scheduling.queues.fair_share import MILLION
from spinney.core.scheduling.queues.past_use import PastUse, part_of, read, recorded, remembered
from spinney.core.scheduling.queues.tree import NOTHING, Shares

HOUR = PastUse(3600.0)
ALL = Shares(MILLION, MILLION, MILLION)


def test_q1_past_use_counts_half_after_each_half_life() -> None:
    assert [HOUR.fading(hours * 3600.0) for hours in (0, 1, 2, 10_000)] == [MILLION, MILLION // 2, MILLION // 4, 0]
    assert remembered({"a": ALL}, {"b": ALL}, HOUR.fading(3600.0)) == {
        "a": Shares(500_000, 500_000, 500_000),
        "b": Shares(500_000, 500_000, 500_000),
    }


def test_q1_past_use_of_a_queue_that_always_holds_the_same_is_that() -> None:
    past: dict[str, Shares] = {}
    for _ in range(1000):
        past = remembered(past, {"a": Shares(gpu_m=250_000)}, HOUR.fading(HOUR.step_s))
    assert abs(past["a"].gpu_m - 250_000) < 200


def test_q1_what_a_queue_holds_is_a_part_of_what_there_is() -> None:
    assert part_of(Shares(8000, 0, 5), Shares(32000, 64000, 0)) == Shares(250_000, 0, 0)
    assert part_of(Shares(gpu_m=9), Shares(gpu_m=3)).gpu_m == MILLION


@given(st.lists(st.integers(0, MILLION), min_size=3, max_size=3))
def test_q1_a_record_of_past_use_is_read_as_it_was_written(parts: list[int]) -> None:
    average = Shares(*parts)
    assert all(abs(a - b) < 1000 for a, b in zip(read(recorded(average)), average, strict=True))


def test_q1_a_record_of_somebody_else_says_no_more_than_everything() -> None:
    assert read({"nvidia.com/gpu": "7e9", "cpu": -3, "memory": "0.5"}) == Shares(MILLION, 0, 500_000)
    assert read({}) == NOTHING
