"""Rows of text as columns for a terminal.

Names come from files and servers: a terminal must not obey them.
"""

from __future__ import annotations

from collections.abc import Sequence

_BETWEEN = "   "


def columns(rows: Sequence[Sequence[str]]) -> str:
    """A line for each row, with every column as wide as its widest cell."""
    if not rows:
        return ""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "".join(_line(row, widths) for row in rows)


def plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return _BETWEEN.join(cells).rstrip() + "\n"
