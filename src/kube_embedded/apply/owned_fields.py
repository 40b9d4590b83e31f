"""The fields that a value consists of, as an appearing value is owned and as a configuration is applied."""

from __future__ import annotations

from typing import Any

from kube_embedded.apply.elements import SELF, item_element, order
from kube_embedded.apply.fieldset import FieldSet
from kube_embedded.apply.schema_layout import FREE, WHOLE, Layout
from kube_embedded.schema.model import Schema

_FLAT_KEPT = 256


def whole(value: Any, layout: Layout) -> FieldSet:
    """The node of a value that appeared (or went) as a whole: the value itself and all of its parts."""
    if not value or layout is WHOLE:
        return {}
    kind = type(value)
    if kind is dict and layout.parts:
        return _whole_entries(value, layout)
    if kind is list and layout.keys is not None:
        return _whole_items(value, layout.keys, layout)
    return {}


def _whole_entries(value: dict[str, Any], layout: Layout) -> FieldSet:
    """The set of a map. Where no entry is divided it depends on the names alone, and is made once for each."""
    names = tuple(value)
    seen = layout.flat.get(names)
    if seen is not None:
        return seen
    node: FieldSet = {SELF: {}}
    fields, other = layout.fields, layout.other or FREE
    flat = True
    for name in sorted(names):
        below = fields.get(name, other)
        if below is WHOLE:
            node["f:" + name] = {}
        else:
            flat = False
            node["f:" + name] = whole(value[name], below)
    if flat and len(layout.flat) < _FLAT_KEPT:
        layout.flat[names] = node
    return node


def _whole_items(value: list[Any], keys: tuple[str, ...], layout: Layout) -> FieldSet:
    found: FieldSet = {}
    items, defaults = layout.item(), layout.key_defaults
    for item in value:
        element = item_element(item, keys, defaults)
        # An item that is there more than once is owned as one whole.
        found[element] = {} if element in found else whole(item, items)
    if len(found) == 1:
        return {SELF: {}, **found}
    node: FieldSet = {SELF: {}}
    for element in sorted(found, key=order):
        node[element] = found[element]
    return node


def parts(value: Any, layout: Layout) -> FieldSet:
    """As `whole`, without the value itself."""
    return {element: node for element, node in whole(value, layout).items() if element != SELF}


def appeared(value: dict[str, Any], layout: Layout, empty: dict[str, Any]) -> FieldSet:
    """The fields of a new object: all that its kind's empty object does not have already."""
    node: FieldSet = {}
    fields, other = layout.fields, layout.other or FREE
    for name in sorted(value):
        entry, below = value[name], fields.get(name, other)
        if name not in empty:
            node["f:" + name] = {} if below is WHOLE else whole(entry, below)
            continue
        before = empty[name]
        if entry == before and type(entry) is type(before):
            continue
        if type(before) is dict and type(entry) is dict and below.parts:
            inner = appeared(entry, below, before)
            if inner:
                node["f:" + name] = inner
        else:
            node["f:" + name] = parts(entry, below)
    return node


def configured(value: Any, layout: Layout) -> FieldSet:
    """The set that an applied configuration owns: leaves, list items and map entries, not the structs around them."""
    if type(value) is dict and layout.parts:
        return _configured_entries(value, layout)
    if type(value) is list and layout.keys is not None:
        return _configured_items(value, layout.keys, layout)
    return {}


def _configured_entries(value: dict[str, Any], layout: Layout) -> FieldSet:
    node: FieldSet = {}
    for name in sorted(value):
        entry, below = value[name], layout.entry(name)
        inner = configured(entry, below)
        declared = name in layout.fields
        if inner:
            node["f:" + name] = inner if declared else {SELF: {}, **inner}
        elif not (declared and _is_hollow(entry, below)):
            node["f:" + name] = {}
    return node


def _configured_items(value: list[Any], keys: tuple[str, ...], layout: Layout) -> FieldSet:
    found: FieldSet = {}
    for item in value:
        element = item_element(item, keys, layout.key_defaults)
        inner = {} if element in found else configured(item, layout.item())
        found[element] = {SELF: {}, **inner} if inner else {}
    return {element: found[element] for element in sorted(found, key=order)}


def _is_hollow(value: Any, layout: Layout) -> bool:
    """A container that could have owned parts and has none; an empty map is a leaf all the same."""
    return (type(value) is dict and value != {} and layout.parts) or (type(value) is list and layout.keys is not None)


def empty_object(schema: Schema) -> dict[str, Any]:
    """What an object of a built-in kind holds when nothing was set: structs, and zeros that may not be left out."""
    empty: dict[str, Any] = {}
    described = schema.raw.get("properties", {})
    for name, property_schema in schema.properties.items():
        default = described.get(name, {}).get("default")
        if default == {}:
            empty[name] = empty_object(property_schema)
        elif name in schema.required:
            empty[name] = default
    return empty
