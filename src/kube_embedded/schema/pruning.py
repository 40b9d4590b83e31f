"""Drops the fields of an object that its schema does not know, and names them as the strict decoder does.

Values are never checked here: a field of a wrong type is kept for the validation to refuse.
"""

from __future__ import annotations

from typing import Any

from kube_embedded.schema.model import Schema, Shape
from kube_embedded.schema.objectmeta import OBJECT_META


def prune(obj: Any, schema: Schema) -> list[str]:
    """Drop unknown fields in place; their paths: those of the metadata, then the others, then embedded metadata."""
    if schema.knows_all is not None and schema.knows_all(obj):
        return []
    unknown: list[tuple[int, str]] = []
    _prune(obj, schema, "", 1, unknown)
    unknown.sort()
    return [path for _, path in unknown]


def unknown_fields(obj: Any, schema: Schema) -> list[str]:
    """The words of the strict decoder for what `prune` drops: `unknown field "spec.foo"`."""
    return [f'unknown field "{path}"' for path in prune(obj, schema)]


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
