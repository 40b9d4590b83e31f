"""What fresh seeds broke, told at the end of a test run that does not fail for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

BROKEN = "promise broken by a fresh seed"
"""The property of a test report that has the sentence; reports come from whatever process ran the test."""


def told(reports: Iterable[Any]) -> list[str]:
    """Loud lines, or none; each of them says how to replay a seed."""
    found = [text for each in reports for name, text in getattr(each, "user_properties", ()) if name == BROKEN]
    if not found:
        return []
    head = f"{len(found)} PROMISES BROKEN BY FRESH SEEDS OF THE FAULT SIMULATION; this run does not fail for it:"
    return [head, *(f"  {text}" for text in found)]
