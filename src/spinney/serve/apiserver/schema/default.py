"""Fills in the defaults of a schema and drops nulls that a schema does not allow.

A value that was given is never changed, but for a null where the schema has a default or allows none.
"""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.schema.model import Schema


def default(obj: Any, schema: Schema) -> None:
    """Apply defaults in place, from the outside to the inside: a default object is itself filled up."""
    if obj.__class__ is dict:
        _default_object(obj, schema)
    elif obj.__class__ is list:
        _default_list(obj, schema)


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares nothing which could be changed."""
    if value.__class__ is dict:
        return {key: copied(child) for key, child in value.items()}
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
        if child is None:
            known = properties.get(key, additional)
            if known is None or known.nullable:
                continue
            if known.has_default and known.default is not None:
                obj[key] = child = copied(known.default)
            else:
                dropped.append(key)
                continue
        if child.__class__ is dict or child.__class__ is list:
            known = properties.get(key, additional)
            if known is not None:
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
        if child.__class__ is dict:
            _default_object(child, items)
        elif child.__class__ is list:
            _default_list(child, items)
