"""Removal of what a manager applied before and applies no more, unless somebody else owns it."""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.apply.elements import SELF, item_element
from spinney.serve.apiserver.apply.extent import configured
from spinney.serve.apiserver.apply.fieldset import FieldSet, difference, intersection, is_member, union
from spinney.serve.apiserver.apply.shapes import has_parts, is_declared, items_of, list_keys, part
from spinney.serve.apiserver.schema.model import Schema

Object = dict[str, Any]


def prune(merged: Object, schema: Schema, last: FieldSet, owned: FieldSet) -> Object:
    """The merged object without the fields of `last` that are not in `owned`.

    A removed parent takes along only what was removed with it: parts that somebody owns, and parts that nobody but
    the object itself ever mentioned, come back.
    """
    if not last:
        return merged
    last = with_named(last, schema)
    present = with_named(configured(merged, schema), schema)
    pruned = without(merged, schema, last)
    kept = union(with_named(configured(pruned, schema), schema), with_named(owned, schema))
    pruned = without(merged, schema, difference(present, kept))
    kept = with_named(configured(pruned, schema), schema)
    result: Object = without(merged, schema, intersection(difference(present, kept), last))
    return result


def with_named(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """The set with every declared field that leads to members as a member itself."""
    named: FieldSet = {}
    for element, node in fields.items():
        if not node:
            named[element] = {}
            continue
        below = with_named(node, _step(schema, element))
        if SELF not in below and element[0] == "f" and is_declared(schema, element[2:]):
            below = {SELF: {}, **below}
        named[element] = below
    return named


def _step(schema: Schema | None, element: str) -> Schema | None:
    return part(schema, element[2:]) if element[0] == "f" else items_of(schema)


def without(value: Any, schema: Schema | None, removed: FieldSet) -> Any:
    """The value without the members of a set; None when nothing is left of it."""
    if type(value) is dict and value and has_parts(schema):
        return _without_entries(value, schema, removed) or None
    if type(value) is list and value:
        keys = list_keys(schema)
        if keys is not None:
            return _without_items(value, keys, items_of(schema), removed) or None
    return None if type(value) in (dict, list) else value


def _without_entries(value: Object, schema: Schema | None, removed: FieldSet) -> Object:
    rest: Object = {}
    for name, entry in value.items():
        node = removed.get("f:" + name)
        if node is None:
            rest[name] = entry
        elif not is_member(node):
            left = without(entry, part(schema, name), node)
            if left is not None or entry is None:
                rest[name] = left
    return rest


def _without_items(value: list[Any], keys: tuple[str, ...], items: Schema | None, removed: FieldSet) -> list[Any]:
    rest = []
    for item in value:
        node = removed.get(item_element(item, keys, items))
        if node is None:
            rest.append(item)
        elif not is_member(node):
            rest.append(without(item, items, node))
    return rest
