"""Uniqueness in lists that are declared as sets or as maps."""

from __future__ import annotations

import json
from typing import Any

from spinney.api.field_errors import FieldError, duplicate, invalid
from spinney.serve.apiserver.schema.model import ListType, Schema, Shape


def has_unique_lists(schema: Schema) -> bool:
    """Whether there is anything to check; the schema must not recurse."""
    if schema.shape is Shape.LIST and schema.list_type is not ListType.ATOMIC:
        return True
    children = [*schema.properties.values(), schema.additional, schema.items]
    return any(has_unique_lists(child) for child in children if child is not None)


def validate_lists(obj: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Duplicates in sets, and items with the same keys in maps; the second appearance is named."""
    errors: list[FieldError] = []
    _validate(obj, schema, path, errors)
    return errors


def _validate(value: Any, schema: Schema, path: str, errors: list[FieldError]) -> None:
    if value.__class__ is dict:
        properties, additional = schema.properties, schema.additional
        for key, child in value.items():
            if child.__class__ is not dict and child.__class__ is not list:
                continue
            if (known := properties.get(key)) is not None:
                _validate(child, known, f"{path}.{key}" if path else key, errors)
            elif additional is not None:
                _validate(child, additional, f"{path}[{key}]", errors)
    elif value.__class__ is list:
        if schema.list_type is ListType.SET:
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif schema.list_type is ListType.MAP:
            errors += _keyed(value, schema.list_keys, path)
        if schema.items is not None:
            for index, child in enumerate(value):
                _validate(child, schema.items, f"{path}[{index}]", errors)


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
    seen: dict[str, int] = {}
    repeated = []
    for index, value in enumerate(values):
        identity = json.dumps(value, sort_keys=True)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            repeated.append(index)
    return repeated
