"""How values are divided into owned fields: what is one whole, and what has parts with owners of their own.

A layout is compiled from a schema once; every walk over an object uses it. It is never changed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from spinney.serve.apiserver.schema.model import ListType, Schema, Shape


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
