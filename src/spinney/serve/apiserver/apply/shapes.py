"""How a schema divides a value into owned fields: what is one whole, and what has parts with owners of their own.

A value without a schema is divided by its looks: maps have parts, everything else is one whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spinney.serve.apiserver.schema.model import Compiler, ListType, Schema, Shape

_STRING = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_INTEGER = {"type": "integer", "format": "int64"}
_STRINGS_BY_NAME = {"type": "object", "additionalProperties": _STRING}
_OWNER = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "apiVersion": _STRING,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}
OBJECT_META = Compiler().compile(
    {
        "type": "object",
        "properties": {
            **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _STRING),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
            **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
            "labels": _STRINGS_BY_NAME,
            "annotations": _STRINGS_BY_NAME,
            "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "items": _OWNER,
            },
            "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"}},
        },
    }
)
"""The metadata of every object, for schemas that only say that it is an object."""


_TYPE_NAME = Schema(shape=Shape.SCALAR, type="string")


def with_metadata(schema: Schema) -> Schema:
    """A schema that describes type and metadata, whatever its author left out, at the top and in embedded objects.

    A built-in kind describes them, and is left as it is: schemas of built-in kinds may recurse.
    """
    declared = schema.properties.get("metadata")
    if declared is not None and declared.properties and "kind" in schema.properties:
        return schema
    return _as_object(_with_embedded(schema))


def _as_object(schema: Schema) -> Schema:
    typed = {"apiVersion": _TYPE_NAME, "kind": _TYPE_NAME}
    return replace(schema, properties={**typed, **schema.properties, "metadata": OBJECT_META})


def _with_embedded(schema: Schema) -> Schema:
    """The schema itself where no object is embedded anywhere below."""
    properties = {name: _with_embedded(below) for name, below in schema.properties.items()}
    items = schema.items and _with_embedded(schema.items)
    additional = schema.additional and _with_embedded(schema.additional)
    same = all(properties[name] is below for name, below in schema.properties.items())
    if not same or items is not schema.items or additional is not schema.additional:
        schema = replace(schema, properties=properties, items=items, additional=additional)
    return _as_object(schema) if schema.embedded else schema


def list_keys(schema: Schema | None) -> tuple[str, ...] | None:
    """The keys of a list whose items are owned apart, () for a set; None for a list that is one whole."""
    if schema is None or schema.shape is not Shape.LIST:
        return None
    if schema.list_type is ListType.MAP:
        return schema.list_keys
    if schema.list_type is ListType.SET:
        return ()
    if "merge" in schema.patch_strategies and "x-kubernetes-list-type" not in schema.raw:
        return (schema.patch_merge_key,) if schema.patch_merge_key else ()
    return None


def has_parts(schema: Schema | None) -> bool:
    """Whether the entries of a map are owned apart."""
    if schema is None:
        return True
    if schema.shape is Shape.ANY:  # an embedded object of any type is one whole; arbitrary JSON is not
        return schema.raw.get("type") != "object"
    return not schema.atomic_map


def part(schema: Schema | None, name: str) -> Schema | None:
    """The schema of an entry of a map."""
    if schema is None:
        return None
    found = schema.properties.get(name)
    return schema.additional if found is None else found


def is_declared(schema: Schema | None, name: str) -> bool:
    return schema is not None and name in schema.properties


def items_of(schema: Schema | None) -> Schema | None:
    return None if schema is None else schema.items


def splits(value: Any, schema: Schema | None) -> bool:
    """Whether a value is divided further: a container with content whose parts are owned apart."""
    if type(value) is dict:
        return bool(value) and has_parts(schema)
    if type(value) is list:
        return bool(value) and list_keys(schema) is not None
    return False
