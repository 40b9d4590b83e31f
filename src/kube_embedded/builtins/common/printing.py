"""The tables that `kubectl get` shows: columns with their cells, and what several kinds share of them.

Ages are counted from the time that the context gives; no clock is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.times import seconds
from kube_embedded.base.resource import Column, Context

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"
Row = Callable[[Object, Context], list[Any]]


@dataclass(frozen=True, slots=True)
class Table:
    """The columns, and the row of an object in them."""

    columns: Sequence[Column]
    row: Row


@dataclass(frozen=True, slots=True)
class Cell:
    """A column, and what an object shows in it."""

    column: Column
    value: Callable[[Object, Context], Any]


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_SPANS = (
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def since(stamp: str | None, context: Context) -> str:
    """How long ago, as kubectl shows it."""
    return human_duration(context.now_s - seconds(stamp)) if stamp else UNKNOWN


def age(obj: Object, context: Context) -> str:
    return since(obj["metadata"].get("creationTimestamp"), context)


def human_duration(span_s: float) -> str:
    """A duration in the two largest units that still tell something: `3m5s`, `2d4h`, `41d`."""
    total = int(span_s)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 2 * _MINUTE:
        return f"{total}s"
    for limit, large, large_unit, small, small_unit in _SPANS:
        if total < limit:
            return _two_units(total, large, large_unit, small, small_unit)
    return f"{total // _YEAR}y"


def _two_units(total: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = total % large // small if small else 0
    return f"{total // large}{large_unit}{rest}{small_unit}" if rest else f"{total // large}{large_unit}"


def labels_cell(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_cell(selector: Object | None) -> str:
    """A label selector in the short form, for instance `app=a,tier in (x,y)`."""
    if selector is None:
        return NONE
    parts = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    terms = list(parts.items())
    for one in selector.get("matchExpressions") or ():
        terms.append((one["key"], _expression(one)))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def _expression(one: Object) -> str:
    key, values = one["key"], ",".join(sorted(one.get("values") or ()))
    match one["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def table(*cells: Cell) -> Table:
    return Table(tuple(one.column for one in cells), lambda obj, context: [one.value(obj, context) for one in cells])


def cell(name: str, found: str | Callable[[Object], Any], absent: Any = "", type: str = "string") -> Cell:
    """A cell that shows the field at this path, or what a function makes of the object."""
    if callable(found):
        return Cell(Column(name, type), lambda obj, context: found(obj))
    keys = tuple(found.split("."))
    return Cell(Column(name, type), lambda obj, context: field_at(obj, keys, absent))


def flag(name: str, path: str, type: str = "boolean", absent: bool = False) -> Cell:
    """A field that is true or false."""
    keys = tuple(path.split("."))
    return cell(name, lambda obj: bool(field_at(obj, keys, absent)), type=type)


def wide(cell: Cell) -> Cell:
    """The same cell, shown only with `-o wide`."""
    return replace(cell, column=replace(cell.column, priority=1))


def field_at(obj: Object, keys: tuple[str, ...], absent: Any = None) -> Any:
    value: Any = obj
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return absent
        value = value[key]
    return value


def containers(path: str) -> tuple[Cell, Cell]:
    """Names and images of the containers of the pod spec at this path."""
    keys = (*path.split("."), "containers")

    def listed(name: str) -> Callable[[Object], str]:
        return lambda obj: ",".join(one.get(name, "") for one in field_at(obj, keys) or ())

    return cell("Containers", listed("name")), cell("Images", listed("image"))


def workload_cells(path: str = "spec") -> tuple[Cell, ...]:
    """The containers of the template of a workload, and its selector; with `-o wide` only."""
    keys = (*path.split("."), "selector")
    selector = cell("Selector", lambda obj: selector_cell(field_at(obj, keys)))
    return tuple(wide(one) for one in (*containers(f"{path}.template.spec"), selector))


NAME = Cell(Column("Name", format="name"), lambda obj, context: obj["metadata"].get("name", ""))
AGE = Cell(Column("Age"), age)
CREATED = Cell(Column("Created At", type="date"), lambda obj, context: obj["metadata"].get("creationTimestamp"))


def text(value: Any, otherwise: str = "") -> str:
    """A value as a cell, or what stands for an absent one."""
    return otherwise if value is None or value == "" else str(value)
