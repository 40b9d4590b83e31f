"""Numbers in texts of others."""

from __future__ import annotations

import pytest

from kube_apimachinery.quantity import read_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("999999999", 999_999_999), ("1000000000", None), ("9" * 5000, None), ("", None)],
)
def test_up_to_nine_digits_are_a_number(text: str, number: int | None) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["-1", "+1", "1.0", " 1", "1_0", "\u0663", "\u00b2", "nan", "0x1"])
def test_nothing_but_plain_digits_is_a_number(text: str) -> None:
    assert read_number(text) is None
