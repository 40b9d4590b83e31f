"""Object metadata as every kind has it, for schemas that only say that it is an object."""

from __future__ import annotations

from dataclasses import replace

from spinney.serve.apiserver.schema.model import Compiler, Schema, Shape

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
        "uid": {"type": "string", "default": ""},
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
