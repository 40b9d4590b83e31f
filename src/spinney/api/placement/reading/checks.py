"""Small judgements that nodes, gangs and options share."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api.placement.reading.amounts import MAX_AMOUNT
from spinney.api.placement.reading.unreadable import Path, refused, refused_again

_NO_PORTS: frozenset[int] = frozenset()
_LAST_PORT = 65535


def whole(number: int | None, default: int, path: Path) -> int:
    """A count: 0 or more, and within int64."""
    if number is None:
        return default
    if not 0 <= number <= MAX_AMOUNT:
        raise refused(path, number, f"a whole number from 0 to {MAX_AMOUNT}")
    return number


def one_of(text: str | None, default: str, allowed: Sequence[str], path: Path) -> str:
    if text is None:
        return default
    if text not in allowed:
        raise refused(path, text, " | ".join(allowed))
    return text


def ports(numbers: tuple[int, ...] | None, path: Path) -> frozenset[int]:
    if not numbers:
        return _NO_PORTS
    for index, number in enumerate(numbers):
        if not 1 <= number <= _LAST_PORT:
            raise refused((*path, index), number, f"a port from 1 to {_LAST_PORT}")
    return frozenset(numbers)


def distinct(names: Sequence[str], path: Path, field: str = "") -> None:
    """Names that are there, and each once. `path` leads to the list, `field` from an entry to its name."""
    tail: Path = (field,) if field else ()
    if len(set(names)) == len(names) and "" not in names:
        return
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name:
            raise refused((*path, index, *tail), name, "a name")
        if name in first:
            raise refused_again((*path, index, *tail), name, (*path, first[name]))
        first[name] = index
