"""Quantities to whole base units: demand is rounded up, supply down, cpu in milli and everything else in whole units.

No amount leaves here negative or beyond int64.
"""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api import quantity
from spinney.api.placement.problem import Amounts
from spinney.api.placement.reading.unreadable import Path, Unreadable, plain, refused

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
