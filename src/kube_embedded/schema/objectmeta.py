"""The schema of `metadata`, which every object has, and the checks of objects embedded in others.

Names and labels of the object itself are checked by the server, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.schema.model import Compiler, Raw, Schema

_STRING: Raw = {"type": "string"}
_TIME: Raw = {"type": "string", "format": "date-time"}
_STRINGS: Raw = {"type": "object", "additionalProperties": _STRING}
OBJECT_META_RAW: Raw = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": {**_TIME, "nullable": True},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
        "deletionTimestamp": {**_TIME, "nullable": True},
        "finalizers": {
            "type": "array",
            "items": _STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _STRING,
        "generation": {"type": "integer", "format": "int64"},
        "labels": _STRINGS,
        "managedFields": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _STRING,
                    "fieldsType": _STRING,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "manager": _STRING,
                    "operation": _STRING,
                    "subresource": _STRING,
                    "time": _TIME,
                },
            },
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-merge-key": "uid",
            "x-kubernetes-patch-strategy": "merge",
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": _STRING,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": _STRING,
                    "name": _STRING,
                    "uid": _STRING,
                },
            },
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
OBJECT_META: Schema = Compiler().compile(OBJECT_META_RAW)
STRING: Schema = Compiler().compile(_STRING)
TYPE_AND_META: Mapping[str, Schema] = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META}


def validate_embedded(obj: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Every embedded resource has an apiVersion and a kind."""
    errors: list[FieldError] = []
    if isinstance(obj, dict):
        if schema.embedded:
            errors += _type_errors(obj, path)
        for key, child in obj.items():
            if key in schema.properties:
                errors += validate_embedded(child, schema.properties[key], f"{path}.{key}" if path else key)
            elif schema.additional is not None:
                errors += validate_embedded(child, schema.additional, f"{path}[{key}]")
    elif isinstance(obj, list) and schema.items is not None:
        for index, child in enumerate(obj):
            errors += validate_embedded(child, schema.items, f"{path}[{index}]")
    return errors


def _type_errors(obj: dict[str, Any], path: str) -> list[FieldError]:
    prefix = f"{path}." if path else ""
    errors = [required(f"{prefix}{key}") for key in ("apiVersion", "kind") if key not in obj]
    for key in ("apiVersion", "kind"):
        value = obj.get(key, "-")
        if not isinstance(value, str):
            errors.append(invalid(prefix + key, value, "must be a string"))
        elif not value:
            errors.append(invalid(prefix + key, value, "must not be empty"))
    kind = obj.get("kind")
    if isinstance(kind, str) and kind and (problems := name_validation.dns_1035_label(kind.lower())):
        words = "may have mixed case, but should otherwise match: "
        errors.append(invalid(f"{prefix}kind", kind, words + ",".join(problems)))
    version = obj.get("apiVersion")
    if isinstance(version, str) and version.count("/") > 1:
        errors.append(invalid(f"{prefix}apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return errors


def has_embedded(schema: Schema) -> bool:
    """Whether objects of this schema hold others; the schema must not recurse."""
    if schema.embedded:
        return True
    children = [*schema.properties.values(), schema.additional, schema.items]
    return any(has_embedded(child) for child in children if child is not None)
