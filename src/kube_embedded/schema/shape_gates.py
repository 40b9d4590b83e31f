"""Compiled checks of the shape of an object: no unknown field, no null that a schema does not allow.

They answer in microseconds what a walk in Python answers in hundreds; in doubt they say no, and the walk is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from kube_embedded.schema.model import Raw, Schema, Shape

Gate = Callable[[Any], bool]
_SCALARS = ["string", "integer", "boolean", "number", "null"]
_NOT_NULL = {"type": ["string", "integer", "boolean", "number", "object", "array"]}


def knows_all(schema: Schema) -> Gate:
    """A check that an object has no field which the schema does not know; the schema must not recurse."""
    return jsonschema_rs.Draft7Validator(_closed(schema)).is_valid


def has_no_nulls(schema: Schema) -> Gate:
    """A check that no field is null which may not be; the schema must not recurse."""
    return jsonschema_rs.Draft7Validator(_without_nulls(schema)).is_valid


def _closed(schema: Schema) -> Any:
    match schema.shape:
        case Shape.ANY:
            return True
        case Shape.LIST:
            return {"items": _closed(schema.items)} if schema.items is not None else schema.preserve_unknown
        case Shape.OBJECT | Shape.MAP:
            closed: Raw = {"properties": {key: _closed(child) for key, child in schema.properties.items()}}
            closed["additionalProperties"] = (
                _closed(schema.additional) if schema.additional is not None else schema.preserve_unknown
            )
            return {**closed, "type": ["object", *_SCALARS]}
        case _:
            return {"type": _SCALARS}


def _without_nulls(schema: Schema) -> Any:
    gate: Raw = {} if schema.nullable else dict(_NOT_NULL)
    if schema.properties:
        gate["properties"] = {key: _without_nulls(child) for key, child in schema.properties.items()}
    if schema.additional is not None:
        gate["additionalProperties"] = _without_nulls(schema.additional)
    if schema.items is not None:
        gate["items"] = _without_nulls(schema.items)
    return gate
