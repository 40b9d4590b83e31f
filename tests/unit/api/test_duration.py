"""Go durations, read and written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_apimachinery import duration


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("4h30m", "4h30m0s"),
        ("4h", "4h0m0s"),
        ("1.5s", "1.5s"),
        ("100ms", "100ms"),
        ("0", "0s"),
        ("-2m", "-2m0s"),
        ("1h0.5s", "1h0m0.5s"),
        ("90s", "1m30s"),
        ("1us", "1µs"),
        ("15ns", "15ns"),
        ("0" * 5000 + "4h", "4h0m0s"),
        ("0." + "0" * 5000 + "1h", "0s"),
        ("1." + "9" * 5000 + "s", "1.999999999s"),
    ],
)
def test_a_duration_is_stored_in_one_spelling(text: str, stored: str) -> None:
    assert duration.format_ns(duration.nanoseconds(text)) == stored


@pytest.mark.parametrize("text", ["5", "", "1x", "h", "1h5", "-", "1 h", "9999999999h", ".", "9" * 5000 + "h"])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(duration.DurationError, match="time: "):
        duration.nanoseconds(text)


def test_seconds_are_for_timers() -> None:
    assert duration.seconds("1m30.5s") == 90.5


@given(st.integers(-(2**62), 2**62))
def test_every_duration_survives_the_way_to_text_and_back(total_ns: int) -> None:
    assert duration.nanoseconds(duration.format_ns(total_ns)) == total_ns
