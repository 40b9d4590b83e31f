"""Rows of text as columns for a terminal.

Names come from files and servers: a terminal must not obey them.
"""

from __future__ import annotations

from collections.abc import Sequence

_BETWEEN = "   "
_CUT = ".."
_LEAST = (12, 6)
"""No column is cut to less than the first while that is enough, and never to less than the second."""


def columns(rows: Sequence[Sequence[str]]) -> str:
    """A line for each row, with every column as wide as its widest cell."""
    if not rows:
        return ""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "".join(_line(row, widths) for row in rows)


def narrowed(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The rows with their widest columns cut so that lines fit; names keep their ends, which tell them apart."""
    cells = [list(row) for row in rows]
    if not cells:
        return cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = width - len(_BETWEEN) * (len(widths) - 1)
    for least in _LEAST:
        while sum(widths) > room and max(widths) > least:
            widths[widths.index(max(widths))] -= 1
    return [[_cut(cell, most) for cell, most in zip(row, widths, strict=True)] for row in cells]


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{_CUT}{cell[len(cell) - most + len(_CUT) :]}"


def plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return _BETWEEN.join(cells).rstrip() + "\n"
