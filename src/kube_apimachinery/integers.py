"""Whole numbers in texts that anybody may have written: labels and annotations.

Never takes longer for a longer text, and never raises: Python's `int` refuses texts of thousands of digits.
"""

from __future__ import annotations

_MOST_DIGITS = 9


def read_number(text: str) -> int | None:
    """The number that up to nine ASCII digits stand for; None: the text is no such number."""
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal() else None
