"""The one refusal of the reader: which field, what was found there, what is allowed."""

from __future__ import annotations

from typing import Any

from spinney.api.documents.errors import short, show

Path = tuple[str | int, ...]

MAX_DEPTH = 100
"""Groups inside groups: what every recursive walk over a gang can follow."""


class Unreadable(ValueError):
    """A document that is no problem. `field` is spelled as people do; `line` is known where the text is no YAML."""

    def __init__(self, path: Path, why: str, line: int | None = None) -> None:
        self.path = path
        self.field = spell(path)
        self.line = line
        super().__init__(f"{self.field}: {why}" if self.field else why)


def refused(path: Path, found: Any, allowed: str) -> Unreadable:
    return Unreadable(path, f"found {show(found)}, allowed: {allowed}")


def refused_again(path: Path, found: Any, first: Path) -> Unreadable:
    """For a name that must be there once."""
    return Unreadable(path, f"found {show(found)} again, allowed: a name of its own; {spell(first)} has this one")


def too_deep(path: Path) -> Unreadable:
    return Unreadable(path, f"found groups in groups beyond {MAX_DEPTH} levels, allowed: at most {MAX_DEPTH}")


def spell(path: Path) -> str:
    """A path as people write it: `gangs[0].groups[1].pods[0].request.cpu`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{plain(step)}" if text else plain(step)
    return text


def plain(key: str) -> str:
    """A name in a message, without quotes."""
    return short(key if key.isprintable() else repr(key)[1:-1])
