"""Fields of the exchange format: quantities in whole base units, and the checks that nodes, gangs and options share.

Demand is rounded up, supply down; cpu is in milli, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_apimachinery import quantity
from spinney.api.documents.limits import short, show
from spinney.api.placement.problem import Amounts

# The one refusal of the reader: which field, what was found there, what is allowed.

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


MAX_AMOUNT = quantity.LARGEST

_Written = Mapping[str, str | int | float]


class Scale:
    """Reads amounts for the resources of one problem. Equal maps are weighed once and share one tuple."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._places = {name: index for index, name in enumerate(resources)}
        self._pods = self._places.get("pods")
        self._nothing: Amounts = (0,) * len(resources)
        self._demands: dict[tuple[object, ...], Amounts] = {}
        self._supplies: dict[tuple[object, ...], Amounts] = {}

    def demand(self, written: _Written | None, path: Path) -> Amounts:
        return self._weigh(written, path, self._demands, round_up=True)

    def supply(self, written: _Written | None, path: Path) -> Amounts:
        return self._weigh(written, path, self._supplies, round_up=False)

    def request(self, written: _Written | None, path: Path) -> Amounts:
        """What one pod costs: one of `pods`, whatever is written."""
        amounts = self.demand(written, path)
        if self._pods is None:
            return amounts
        return (*amounts[: self._pods], 1, *amounts[self._pods + 1 :])

    def _weigh(
        self, written: _Written | None, path: Path, known: dict[tuple[object, ...], Amounts], round_up: bool
    ) -> Amounts:
        if not written:
            return self._nothing
        key = tuple(written.items())
        found = known.get(key)
        if found is None:
            found = known[key] = self._read(written, path, round_up)
        return found

    def _read(self, written: _Written, path: Path, round_up: bool) -> Amounts:
        amounts = list(self._nothing)
        for name, value in written.items():
            place = self._places.get(name)
            if place is None:
                listed = plain(", ".join(self._places) or "nothing")
                raise Unreadable((*path, name), f"resource missing from resources, which list {listed}")
            amounts[place] = _amount(name, value, (*path, name), round_up)
        return tuple(amounts)


def _amount(name: str, value: str | int | float, path: Path, round_up: bool) -> int:
    try:
        negative = quantity.compare(value, 0) < 0
        amount = quantity.milli(value, round_up) if name == "cpu" else quantity.base_units(value, round_up)
    except quantity.QuantityError:
        raise refused(path, value, "a quantity such as 8, 500m or 32Gi") from None
    if negative:
        raise refused(path, value, "0 or more")
    if amount == MAX_AMOUNT and _is_beyond(value, "m" if name == "cpu" else ""):
        unit = "thousandths" if name == "cpu" else "units"
        raise refused(path, value, f"at most {MAX_AMOUNT} {unit}")
    return amount


def _is_beyond(value: str | int | float, unit: str) -> bool:
    """Quantities with a binary suffix end at the largest amount, however large they are written."""
    is_binary = isinstance(value, str) and value.rstrip().endswith("i")
    return is_binary or quantity.compare(value, f"{MAX_AMOUNT}{unit}") > 0


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
