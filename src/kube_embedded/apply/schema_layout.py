"""How values are divided into owned fields: what is one whole, and what has parts with owners of their own.

Schemas that only say that metadata is an object are completed by the metadata that every kind has. `type_errors` says
whether a configuration has the form of its schema: one that is applied must, a live object need not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from kube_embedded.apply.fieldset import Unkeyed, item_element, text
from kube_embedded.patch.json_operations import go_type, quoted, shown
from kube_embedded.schema.model import Compiler, ListType, Schema, Shape

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


@dataclass(slots=True, eq=False)
class Layout:
    """One place in an object. Neither `parts` nor `keys`: a value there is one whole."""

    parts: bool = False  # the entries of a map are owned apart
    fields: dict[str, Layout] = field(default_factory=dict)  # entries that the schema names
    other: Layout | None = None  # all further entries
    keys: tuple[str, ...] | None = None  # the items of a list are owned apart, by these keys; () by their values
    key_defaults: dict[str, Any] = field(default_factory=dict)
    items: Layout | None = None
    flat: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)  # sets seen for values that go no deeper

    def entry(self, name: str) -> Layout:
        return self.fields.get(name) or self.other or FREE

    def item(self) -> Layout:
        return self.items or WHOLE


WHOLE = Layout()
"""Never divided, whatever the value."""

FREE = Layout(parts=True)
"""Divided by its looks: maps have parts, everything else is one whole."""
FREE.other = FREE

_compiled: WeakKeyDictionary[Schema, Layout] = WeakKeyDictionary()


def layout_of(schema: Schema) -> Layout:
    """The layout of a schema; the same one every time."""
    found = _compiled.get(schema)
    if found is None:
        found = _compile(schema)
    return found


def _compile(schema: Schema) -> Layout:
    if _is_whole(schema):
        return WHOLE
    if schema.shape is Shape.ANY:
        return FREE
    layout = _compiled[schema] = Layout()  # before its parts are known: schemas may recurse
    if schema.shape is Shape.LIST:
        layout.keys = list_keys(schema)
        layout.items = layout_of(schema.items) if schema.items is not None else WHOLE
        layout.key_defaults = key_defaults(schema)
    else:
        layout.parts = True
        layout.fields = {name: layout_of(below) for name, below in schema.properties.items()}
        layout.other = layout_of(schema.additional) if schema.additional is not None else FREE
    return layout


def _is_whole(schema: Schema) -> bool:
    match schema.shape:
        case Shape.OBJECT | Shape.MAP:
            return schema.atomic_map
        case Shape.LIST:
            return list_keys(schema) is None
        case Shape.ANY:  # an embedded object of any type is one whole; arbitrary JSON is not
            return schema.raw.get("type") == "object"
        case _:
            return True


def list_keys(schema: Schema) -> tuple[str, ...] | None:
    """The keys of a list whose items are owned apart, () for a set; None for a list that is one whole."""
    if schema.list_type is ListType.MAP:
        return schema.list_keys
    if schema.list_type is ListType.SET:
        return ()
    if "merge" in schema.patch_strategies and "x-kubernetes-list-type" not in schema.raw:
        return (schema.patch_merge_key,) if schema.patch_merge_key else ()
    return None


def key_defaults(schema: Schema) -> dict[str, Any]:
    """The values of keys that an item may leave out."""
    if schema.items is None:
        return {}
    described = schema.items.properties
    keys = list_keys(schema) or ()
    return {key: described[key].default for key in keys if key in described and described[key].has_default}


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
