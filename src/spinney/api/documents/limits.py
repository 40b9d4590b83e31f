"""How large a document may be, and the one way in which it is refused.

What is beyond a limit is refused before memory or time is spent on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

# The one refusal of a document: where, what was found, what is allowed.

_LONGEST_SHOWN = 60
_MOST_BITS_SHOWN = 256  # Python itself refuses to write out a number of many thousand digits


class DocumentError(ValueError):
    """A text that is not read. `line` and `column` count from 1 and are None where none is known."""

    def __init__(self, problem: str, where: str = "", line: int | None = None, column: int | None = None) -> None:
        self.problem = problem
        self.where = where
        self.line = line
        self.column = column
        place = where if column is None else f"{where}:{line}:{column}".removeprefix(":")
        super().__init__(f"{place}: {problem}" if place else problem)

    def at(self, where: str) -> DocumentError:
        """The same, in a file or text of this name."""
        return DocumentError(self.problem, where, self.line, self.column)


def show(found: Any) -> str:
    """A value in a message: short, on one line, and fit for any terminal."""
    match found:
        case None:
            return "nothing"
        case bool():
            return "true" if found else "false"
        case int() if found.bit_length() > _MOST_BITS_SHOWN:
            return f"a number of {found.bit_length()} bits"
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return short(repr(found))


def short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


KIB = 1024
MIB = 1024 * KIB

MAX_DIGITS = 300
"""Of a whole number: what a double can still hold."""
MAX_DIRECTIVES = 16
"""Lines `%TAG`: the parser compares each with all before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`values`: everything but keys. `aliased`: values that aliases stand for, each time they are named.

    `text_keys`: a key that is a number or a boolean is refused; otherwise it becomes its text, as kubectl has it.
    """

    bytes: int = 16 * MIB
    depth: int = 100
    values: int = 1_000_000
    aliased: int = 100_000
    documents: int = 10_000
    text_keys: bool = False

    def __post_init__(self) -> None:
        if min(self.bytes, self.depth, self.values, self.aliased, self.documents) < 1:
            raise ValueError(f"limits of a document: found {self}, allowed: positive numbers")

    @property
    def size(self) -> str:
        """The largest text, as people write it."""
        for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
            if self.bytes % unit == 0:
                return f"{self.bytes // unit} {name}"
        return f"{self.bytes} bytes"


FILE = Limits()
"""Manifests, configurations, kubeconfigs."""
INVENTORY = replace(FILE, bytes=256 * MIB, values=16_000_000, documents=1_000_000)
"""Nodes of a large cluster as kubectl prints them, ten or twenty kilobytes each."""
PAGE = replace(FILE, bytes=3 * MIB, values=200_000, documents=1_000)
"""What somebody pastes into a page."""
BODY = replace(FILE, bytes=8 * MIB, depth=300)
"""A review of an API server: an object of at most 3 MiB, and the one it replaces."""
LINE = replace(FILE, bytes=64 * KIB, values=1_000, documents=1)
"""An annotation or the output of a program that speaks in a few fields."""
