"""The one refusal of a document: where, what was found, what is allowed."""

from __future__ import annotations

from typing import Any

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
