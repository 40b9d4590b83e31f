"""Objects brought into the shape of a schema: what is unknown dropped, defaults filled in, forbidden nulls dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from kube_embedded.schema.model import OBJECT_META, TYPE_AND_META, Compiler, Raw, Schema, Shape, complete

# Compiled checks of the shape of an object: no unknown field, no null that a schema does not allow. They answer in
# microseconds what a walk in Python answers in hundreds; in doubt they say no, and the walk is made.

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


# Fills in the defaults of a schema and drops nulls that a schema does not allow. A value that was given is never
# changed, but for a null where the schema has a default or allows none.

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


# Drops the fields of an object that its schema does not know, and names them as the strict decoder does. Values are
# never checked here: a field of a wrong type is kept for the validation to refuse.


def prune(obj: Any, schema: Schema) -> list[str]:
    """Drop unknown fields in place; their paths: those of the metadata, then the others, then embedded metadata."""
    if schema.knows_all is not None and schema.knows_all(obj):
        return []
    unknown: list[tuple[int, str]] = []
    _prune(obj, schema, "", 1, unknown)
    unknown.sort()
    return [path for _, path in unknown]


def _prune(value: Any, schema: Schema, path: str, rank: int, unknown: list[tuple[int, str]]) -> None:
    if value.__class__ is dict:
        _prune_object(value, schema, path, rank, unknown)
    elif value.__class__ is list:
        _prune_list(value, schema, path, rank, unknown)


def _prune_object(value: dict[str, Any], schema: Schema, path: str, rank: int, unknown: list[tuple[int, str]]) -> None:
    if schema.shape is Shape.ANY:
        return
    properties, additional = schema.properties, schema.additional
    if schema is OBJECT_META:
        rank = 0 if path == "metadata" else 2
    dropped = []
    for key, child in value.items():
        known = properties.get(key, additional)
        if known is None:
            if not schema.preserve_unknown:
                dropped.append(key)
        elif child.__class__ is dict or child.__class__ is list:
            _prune(child, known, f"{path}.{key}" if path else key, rank, unknown)
    for key in dropped:
        del value[key]
        unknown.append((rank, f"{path}.{key}" if path else key))


def _prune_list(value: list[Any], schema: Schema, path: str, rank: int, unknown: list[tuple[int, str]]) -> None:
    if schema.shape is Shape.ANY:
        return
    items = schema.items if schema.items is not None else _NOTHING
    if schema.preserve_unknown and schema.items is None:
        return
    for index, child in enumerate(value):
        if child.__class__ is dict or child.__class__ is list:
            _prune(child, items, f"{path}[{index}]", rank, unknown)


_NOTHING = Schema(shape=Shape.OBJECT)


def compile_structural(raw: Raw) -> Schema:
    """The compiled schema of a custom object, completed by apiVersion, kind and metadata."""
    schema = complete(Compiler().compile(raw))
    schema.properties = {**schema.properties, **TYPE_AND_META}
    schema.shape = Shape.OBJECT
    schema.knows_all = knows_all(schema)
    return schema
