"""What the tables of several kinds share: ages, selectors, container lists.

Ages are counted from the time that the context gives; no clock is read here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import Column, Context

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"
NAME = Column("Name", format="name")
AGE = Column("Age")
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


def seconds(stamp: str) -> float:
    """A Kubernetes time as seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()


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


def container_cells(pod_spec: Object) -> list[str]:
    """The names and the images of the containers, as two cells."""
    containers = pod_spec.get("containers") or []
    return [",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)]


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


def text(value: Any, otherwise: str = "") -> str:
    """A value as a cell, or what stands for an absent one."""
    return otherwise if value is None or value == "" else str(value)
