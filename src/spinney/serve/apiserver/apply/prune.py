"""Removal of what a manager applied before and applies no more, unless somebody else owns it."""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.apply.elements import SELF, item_element
from spinney.serve.apiserver.apply.extent import configured
from spinney.serve.apiserver.apply.fieldset import FieldSet, difference, intersection, is_member, union
from spinney.serve.apiserver.apply.layout import Layout

Object = dict[str, Any]


def prune(merged: Object, layout: Layout, last: FieldSet, owned: FieldSet) -> Object:
    """The merged object without the fields of `last` that are not in `owned`.

    A removed parent takes along only what was removed with it: parts that somebody owns, and parts that nobody but
    the object itself ever mentioned, come back.
    """
    if not last:
        return merged
    last = with_named(last, layout)
    present = with_named(configured(merged, layout), layout)
    pruned = without(merged, layout, last)
    kept = union(with_named(configured(pruned, layout), layout), with_named(owned, layout))
    pruned = without(merged, layout, difference(present, kept))
    kept = with_named(configured(pruned, layout), layout)
    result: Object = without(merged, layout, intersection(difference(present, kept), last))
    return result


def with_named(fields: FieldSet, layout: Layout) -> FieldSet:
    """The set with every declared field that leads to members as a member itself."""
    named: FieldSet = {}
    for element, node in fields.items():
        if not node:
            named[element] = {}
            continue
        below = with_named(node, _step(layout, element))
        if SELF not in below and element[0] == "f" and element[2:] in layout.fields:
            below = {SELF: {}, **below}
        named[element] = below
    return named


def _step(layout: Layout, element: str) -> Layout:
    return layout.entry(element[2:]) if element[0] == "f" else layout.item()


def without(value: Any, layout: Layout, removed: FieldSet) -> Any:
    """The value without the members of a set; null when nothing is left of it, as somebody still owns the place."""
    if type(value) is dict and value and layout.parts:
        return _without_entries(value, layout, removed) or None
    if type(value) is list and value and layout.keys is not None:
        return _without_items(value, layout.keys, layout, removed) or None
    return None if type(value) in (dict, list) else value


def _without_entries(value: Object, layout: Layout, removed: FieldSet) -> Object:
    rest: Object = {}
    for name, entry in value.items():
        node = removed.get("f:" + name)
        if node is None:
            rest[name] = entry
        elif not is_member(node):
            rest[name] = without(entry, layout.entry(name), node)
    return rest


def _without_items(value: list[Any], keys: tuple[str, ...], layout: Layout, removed: FieldSet) -> list[Any]:
    rest = []
    for item in value:
        node = removed.get(item_element(item, keys, layout.key_defaults))
        if node is None:
            rest.append(item)
        elif not is_member(node):
            rest.append(without(item, layout.item(), node))
    return rest
