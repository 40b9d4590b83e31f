"""Fills in the defaults of a schema and drops nulls that a schema does not allow.

A value that was given is never changed, but for a null where the schema has a default or allows none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube_embedded.schema.model import Schema
from kube_embedded.schema.shape_gates import has_no_nulls

_NESTED = (dict, list)


class Defaulter:
    """The defaults of one schema, which must not recurse. Only what can have defaults is visited."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._plan = _planned(schema)
        self._has_no_nulls: Callable[[Any], bool] = has_no_nulls(schema)

    def apply(self, obj: Any) -> None:
        if not self._has_no_nulls(obj):
            default(obj, self._schema)
        elif self._plan is not None:
            _fill(obj, self._plan)


def default(obj: Any, schema: Schema) -> None:
    """Apply defaults in place, from the outside to the inside: a default object is itself filled up."""
    if obj.__class__ is dict:
        _default_object(obj, schema)
    elif obj.__class__ is list:
        _default_list(obj, schema)


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares nothing which could be changed."""
    if value.__class__ is dict:
        return {key: copied(child) if child.__class__ in _NESTED else child for key, child in value.items()}
    if value.__class__ is list:
        return [copied(child) for child in value]
    return value


def _default_object(obj: dict[str, Any], schema: Schema) -> None:
    properties, additional = schema.properties, schema.additional
    for key in schema.defaulted:
        if key not in obj:
            obj[key] = copied(properties[key].default)
    dropped = []
    for key, child in obj.items():
        known = properties.get(key, additional)
        if known is None:
            continue
        if child is None and not known.nullable:
            if known.has_default and known.default is not None:
                obj[key] = child = copied(known.default)
            else:
                dropped.append(key)
        default(child, known)
    for key in dropped:
        del obj[key]


def _default_list(values: list[Any], schema: Schema) -> None:
    items = schema.items
    if items is None:
        return
    for index, child in enumerate(values):
        if child is None and not items.nullable and items.has_default:
            values[index] = child = copied(items.default)
        default(child, items)


@dataclass(slots=True)
class _Plan:
    """What to fill in at a place, and where to go on."""

    fills: tuple[tuple[str, Any], ...]
    below: tuple[tuple[str, _Plan], ...]
    each: _Plan | None  # for the items of a list, or the values of a map


def _planned(schema: Schema) -> _Plan | None:
    fills = tuple((key, schema.properties[key].default) for key in schema.defaulted)
    found = ((key, _planned(child)) for key, child in schema.properties.items())
    below = tuple((key, plan) for key, plan in found if plan is not None)
    inner = schema.additional if schema.additional is not None else schema.items
    each = _planned(inner) if inner is not None else None
    return _Plan(fills, below, each) if fills or below or each else None


def _fill(value: Any, plan: _Plan) -> None:
    """The walk for values without nulls."""
    each = plan.each
    if value.__class__ is list:
        if each is not None:
            for child in value:
                _fill(child, each)
        return
    if value.__class__ is not dict:
        return
    for key, given in plan.fills:
        if key not in value:
            value[key] = copied(given)
    for key, inner in plan.below:
        if (child := value.get(key)) is not None:
            _fill(child, inner)
    if each is not None:
        for child in value.values():
            _fill(child, each)
