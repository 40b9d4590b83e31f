"""Whether an applied configuration has the form of its schema; a configuration must, a live object need not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_embedded.apply.elements import Unkeyed, item_element, text
from kube_embedded.apply.schema_layout import key_defaults, list_keys
from kube_embedded.patch.go_wording import go_type, quoted, shown
from kube_embedded.schema.model import Schema, Shape

_SCALARS = (str, int, float, bool)


def type_errors(applied: dict[str, Any], schema: Schema) -> str:
    """Why a configuration does not fit, or nothing."""
    found = [f"{path}: {why}" if path else why for path, why in _errors("", applied, schema)]
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found]) if found else ""


def _errors(path: str, value: Any, schema: Schema | None) -> Iterator[tuple[str, str]]:
    if schema is None or value is None:
        return
    match schema.shape:
        case Shape.OBJECT | Shape.MAP:
            if type(value) is dict:
                yield from _entry_errors(path, value, schema)
            else:
                yield path, f"expected map, got &{{{shown(value)}}}"
        case Shape.LIST:
            if type(value) is list:
                yield from _item_errors(path, value, schema)
            else:
                yield path, f"expected list, got &{{{shown(value)}}}"
        case Shape.SCALAR | Shape.QUANTITY | Shape.INT_OR_STRING:
            yield from _scalar_error(path, value, schema)


def _entry_errors(path: str, value: dict[str, Any], schema: Schema) -> Iterator[tuple[str, str]]:
    open_ended = schema.additional is not None or schema.preserve_unknown or not schema.properties
    for name in sorted(value):
        below = f"{path}.{name}"
        if name not in schema.properties and not open_ended:
            yield below, "field not declared in schema"
            return
        yield from _errors(below, value[name], schema.properties.get(name, schema.additional))


def _item_errors(path: str, value: list[Any], schema: Schema) -> Iterator[tuple[str, str]]:
    keys, defaults = list_keys(schema), key_defaults(schema)
    seen: set[str] = set()
    for index, item in enumerate(value):
        if keys is None:
            yield from _errors(f"{path}[{index}]", item, schema.items)
            continue
        try:
            element = item_element(item, keys, defaults)
        except Unkeyed as error:
            yield path, f"element {index}: {error}"
            return
        if element in seen:
            yield path, f"duplicate entries for key {text(element)}"
        seen.add(element)
        yield from _errors(path + text(element), item, schema.items)


def _scalar_error(path: str, value: Any, schema: Schema) -> Iterator[tuple[str, str]]:
    kind = (
        schema.type
        if schema.shape is Shape.SCALAR and (schema.type != "string" or schema.format in ("", "byte"))
        else ""
    )
    is_number = type(value) in (int, float)
    if kind in ("integer", "number") and not is_number:
        yield path, f"expected numeric (int or float), got {go_type(value)}"
    elif kind == "string" and type(value) is not str:
        yield path, f"expected string, got &value.valueUnstructured{{Value:{quoted(value)}}}"
    elif kind == "boolean" and type(value) is not bool:
        yield path, f"expected boolean, got &{{{shown(value)}}}"
    elif not kind and not isinstance(value, _SCALARS):
        yield path, f"expected any scalar, got &{{{shown(value)}}}"
