"""Uniqueness in lists that are declared as sets or as maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kube_apimachinery.field_errors import FieldError, duplicate, invalid
from kube_embedded.schema.model import ListType, Schema, Shape


class UniqueLists:
    """The sets and maps of one schema, which must not recurse. Only what leads to them is visited."""

    def __init__(self, schema: Schema) -> None:
        self._plan = _planned(schema)

    def validate(self, obj: Any) -> list[FieldError]:
        """Duplicates in sets, and items with the same keys in maps; the second appearance is named."""
        errors: list[FieldError] = []
        if self._plan is not None and not _is_fine(obj, self._plan):
            _visit(obj, self._plan, "", errors)
        return errors


@dataclass(slots=True)
class _Plan:
    """What is unique at a place, and where to go on. `keys` is () for a set, None where nothing is unique."""

    keys: tuple[str, ...] | None
    below: tuple[tuple[str, _Plan], ...]
    each: _Plan | None  # for the items of a list, or the values of a map


def _planned(schema: Schema) -> _Plan | None:
    unique = schema.shape is Shape.LIST and schema.list_type is not ListType.ATOMIC
    found = ((key, _planned(child)) for key, child in schema.properties.items())
    below = tuple((key, plan) for key, plan in found if plan is not None)
    inner = schema.additional if schema.additional is not None else schema.items
    each = _planned(inner) if inner is not None else None
    if not (unique or below or each):
        return None
    return _Plan(schema.list_keys if unique else None, below, each)


def _is_fine(value: Any, plan: _Plan) -> bool:
    """The usual case: nothing is repeated, and no paths are spelled. In doubt the answer is no."""
    keys, each = plan.keys, plan.each
    if value.__class__ is dict:
        for key, inner in plan.below:
            if (child := value.get(key)) is not None and not _is_fine(child, inner):
                return False
        return each is None or all(_is_fine(child, each) for child in value.values())
    if value.__class__ is not list:
        return True
    if keys is not None and not _are_distinct(value, keys):
        return False
    if each is not None:
        for child in value:
            if not _is_fine(child, each):
                return False
    return True


def _are_distinct(values: list[Any], keys: tuple[str, ...]) -> bool:
    try:
        match keys:
            case ():
                found = set(values)
            case (key,):
                found = {value[key] for value in values}
            case _:
                found = {tuple([value[key] for key in keys]) for value in values}
    except (KeyError, TypeError, IndexError):
        return False
    return len(found) == len(values)


def _visit(value: Any, plan: _Plan, path: str, errors: list[FieldError]) -> None:
    if value.__class__ is dict:
        for key, inner in plan.below:
            if (child := value.get(key)) is not None:
                _visit(child, inner, f"{path}.{key}" if path else key, errors)
        if plan.each is not None:
            for key, child in value.items():
                _visit(child, plan.each, f"{path}[{key}]", errors)
    elif value.__class__ is list:
        if plan.keys is not None and len(value) > 0:
            errors += _keyed(value, plan.keys, path) if plan.keys else _distinct(value, path)
        if plan.each is not None:
            for index, child in enumerate(value):
                _visit(child, plan.each, f"{path}[{index}]", errors)


def _distinct(values: list[Any], path: str) -> list[FieldError]:
    return [duplicate(f"{path}[{index}]", values[index]) for index in _repeated(values)]


def _keyed(values: list[Any], keys: tuple[str, ...], path: str) -> list[FieldError]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, dict):
            return [invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")]
    found = [{key: item[key] for key in keys if key in item} if item else {} for item in values]
    return [duplicate(f"{path}[{index}]", found[index]) for index in _repeated(found)]


def _repeated(values: list[Any]) -> list[int]:
    """The index at which a value appears for the second time."""
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    repeated = []
    for index, value in enumerate(values):
        identity = _identity(value)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            repeated.append(index)
    return repeated


def _identity(value: Any) -> Any:
    """Something hashable that only the same value has; true is not 1."""
    if value.__class__ is str:
        return value
    if isinstance(value, dict):
        return frozenset((key, _identity(child)) for key, child in value.items())
    if isinstance(value, list):
        return (list, *map(_identity, value))
    return (value.__class__, value)
