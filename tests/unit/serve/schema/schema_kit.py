"""Small schemas and the shape in which answers are compared."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.field_errors import FieldError

Raw = dict[str, Any]
STRING: Raw = {"type": "string"}
INTEGER: Raw = {"type": "integer"}


def obj(**properties: Raw) -> Raw:
    return {"type": "object", "properties": properties}


def spec(**properties: Raw) -> Raw:
    """The schema of an object whose spec has these properties."""
    return obj(spec=obj(**properties))


def keyed(*, keys: tuple[str, ...] = ("k",), **properties: Raw) -> Raw:
    """A list-map of objects."""
    known = dict.fromkeys(keys, STRING)
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {"type": "object", "required": list(keys), "properties": {**known, **properties}},
    }


def ruled(raw: Raw, *rules: str, **options: Any) -> Raw:
    return {**raw, "x-kubernetes-validations": [{"rule": rule, **options} for rule in rules]}


def told(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]
