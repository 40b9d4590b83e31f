"""The fields that a value consists of, as an appearing value is owned and as a configuration is applied."""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.apply.elements import SELF, item_element, order
from spinney.serve.apiserver.apply.fieldset import FieldSet
from spinney.serve.apiserver.apply.shapes import has_parts, is_declared, items_of, list_keys, part
from spinney.serve.apiserver.schema.model import Schema

_SCALARS = frozenset((str, int, bool, float))


def whole(value: Any, schema: Schema | None) -> FieldSet:
    """The node of a value that appeared (or went) as a whole: the value itself and all of its parts."""
    if type(value) is dict and value and has_parts(schema):
        node: FieldSet = {SELF: {}}
        _fill_entries(node, value, schema)
        return node
    if type(value) is list and value:
        keys = list_keys(schema)
        if keys is not None:
            node = {SELF: {}}
            _fill_items(node, value, keys, items_of(schema))
            return node
    return {}


def parts(value: Any, schema: Schema | None) -> FieldSet:
    """As `whole`, without the value itself."""
    node = whole(value, schema)
    node.pop(SELF, None)
    return node


def _fill_entries(node: FieldSet, value: dict[str, Any], schema: Schema | None) -> None:
    if schema is None:
        for name in sorted(value):
            node["f:" + name] = whole(value[name], None)
        return
    declared, additional = schema.properties, schema.additional
    for name in sorted(value):
        entry = value[name]
        node["f:" + name] = {} if type(entry) in _SCALARS else whole(entry, declared.get(name, additional))


def _fill_items(node: FieldSet, value: list[Any], keys: tuple[str, ...], items: Schema | None) -> None:
    found: FieldSet = {}
    for item in value:
        element = item_element(item, keys, items)
        # An item that is there more than once is owned as one whole.
        found[element] = {} if element in found or not keys else whole(item, items)
    for element in found if len(found) == 1 else sorted(found, key=order):
        node[element] = found[element]


def appeared(value: dict[str, Any], schema: Schema, empty: dict[str, Any]) -> FieldSet:
    """The fields of a new object: all that its kind's empty object does not have already."""
    fields: FieldSet = {}
    properties, additional = schema.properties, schema.additional
    for name in sorted(value):
        entry = value[name]
        entry_schema = properties.get(name, additional)
        if name not in empty:
            fields["f:" + name] = {} if type(entry) in _SCALARS else whole(entry, entry_schema)
            continue
        before = empty[name]
        if entry == before and type(entry) is type(before):
            continue
        if type(before) is dict and type(entry) is dict and entry_schema is not None and has_parts(entry_schema):
            below = appeared(entry, entry_schema, before)
            if below:
                fields["f:" + name] = below
        else:
            fields["f:" + name] = parts(entry, entry_schema)
    return fields


def configured(value: Any, schema: Schema | None) -> FieldSet:
    """The set that an applied configuration owns: leaves, list items and map entries, not the structs around them."""
    if type(value) is dict:
        return _configured_entries(value, schema)
    if type(value) is list:
        return _configured_items(value, schema)
    return {}


def _configured_entries(value: dict[str, Any], schema: Schema | None) -> FieldSet:
    fields: FieldSet = {}
    for name in sorted(value):
        entry, entry_schema = value[name], part(schema, name)
        below = configured(entry, entry_schema) if _divides(entry, entry_schema) else {}
        if below:
            fields["f:" + name] = below if is_declared(schema, name) else {SELF: {}, **below}
        elif not (is_declared(schema, name) and _is_hollow(entry, entry_schema)):
            fields["f:" + name] = {}
    return fields


def _configured_items(value: list[Any], schema: Schema | None) -> FieldSet:
    keys, items = list_keys(schema), items_of(schema)
    if keys is None:
        return {}
    found: FieldSet = {}
    for item in value:
        element = item_element(item, keys, items)
        below = configured(item, items) if element not in found and _divides(item, items) else {}
        found[element] = {SELF: {}, **below} if below else {}
    return {element: found[element] for element in sorted(found, key=order)}


def _divides(value: Any, schema: Schema | None) -> bool:
    if type(value) is dict:
        return has_parts(schema)
    return type(value) is list and list_keys(schema) is not None


def _is_hollow(value: Any, schema: Schema | None) -> bool:
    """A container that could have owned parts and has none; an empty map is a leaf all the same."""
    return _divides(value, schema) and value != {}


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
