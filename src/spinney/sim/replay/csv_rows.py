"""Sheets: CSV text as rows with names, and cells as numbers.

Never guesses: a cell that cannot be used is refused with its file, line, row and column.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass


class InputError(ValueError):
    """An input that cannot be used; the message names its file, and line, row and column where it has them."""


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row; `number` counts from 1 without the header, `line` is where it ends in the file."""

    where: str
    number: int
    line: int
    cells: Mapping[str, str]

    def wrong(self, column: str, allowed: str) -> InputError:
        found = self.cells[column]
        shown = repr(found if len(found) <= 60 else found[:57] + "...") if found else "nothing"
        return InputError(
            f"{self.where}:{self.line}: row {self.number}, column {column}: found {shown}, allowed: {allowed}"
        )

    def whole(self, column: str, least: int, most: int = 10**12) -> int:
        """A whole number; `1e3` and `7.0` are not written like one."""
        text = self.cells[column]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and least <= int(text) <= most):
            raise self.wrong(column, f"a whole number from {least} to {most}")
        return int(text)

    def seconds(self, column: str, most: int = 10**12) -> int:
        """A time in seconds, rounded to whole ones."""
        try:
            found = float(self.cells[column])
        except ValueError:
            found = math.nan
        if not 0 <= found <= most:
            raise self.wrong(column, f"seconds, a number from 0 to {most}")
        return round(found)


@dataclass(frozen=True, slots=True)
class CsvTable:
    where: str
    header: tuple[str, ...]
    rows: tuple[CsvRow, ...]


def header_of(text: str) -> tuple[str, ...]:
    """The names in the first line, if it is one of a sheet."""
    first = text.removeprefix("\ufeff").lstrip("\r\n").split("\n", 1)[0]
    return tuple(name.strip() for name in first.rstrip("\r").split(","))


def read_csv(text: str, where: str) -> CsvTable:
    """Every row under its header; empty lines do not count."""
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), strict=True)
    header: tuple[str, ...] = ()
    rows: list[CsvRow] = []
    try:
        for cells in reader:
            stripped = tuple(cell.strip() for cell in cells)
            if not any(stripped):
                continue
            if not header:
                header = _header(stripped, where)
                continue
            rows.append(_row(stripped, header, where, len(rows) + 1, reader.line_num))
    except csv.Error as error:
        raise InputError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return CsvTable(where, header, tuple(rows))


def _header(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}:1: header: column {name!r} is there twice")
    return names


def _row(cells: tuple[str, ...], header: tuple[str, ...], where: str, number: int, line: int) -> CsvRow:
    if len(cells) != len(header):
        raise InputError(
            f"{where}:{line}: row {number}: found {len(cells)} cells, expected {len(header)} as in the header"
        )
    return CsvRow(where, number, line, dict(zip(header, cells, strict=True)))
