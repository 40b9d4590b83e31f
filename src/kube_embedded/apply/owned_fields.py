"""The fields that a value consists of, and those that differ between two states of an object.

A value is looked at as it appears, when all of it gets an owner, and as a configuration is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kube_embedded.apply.fieldset import (
    SELF,
    FieldSet,
    Path,
    graft,
    insert,
    item_element,
    order,
    ordered,
    recursive_difference,
    union,
)
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


_ABSENT = object()


@dataclass(slots=True)
class Changes:
    """Three sets without a common field; all empty when the two states are the same."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    def set_by(self) -> FieldSet:
        """The fields that the change gave a value."""
        return union(self.modified, self.added)

    def without(self, ignored: FieldSet) -> Changes:
        if not ignored:
            return self
        return Changes(
            recursive_difference(self.added, ignored),
            recursive_difference(self.modified, ignored),
            recursive_difference(self.removed, ignored),
        )


def compare(old: dict[str, Any], new: dict[str, Any], layout: Layout) -> Changes:
    """The changes from one state to another; parts that are equal are not walked."""
    found = Changes()
    _compare_entries((), old, new, layout, found)
    return Changes(ordered(found.added), ordered(found.modified), ordered(found.removed))


def _compare(path: Path, old: Any, new: Any, layout: Layout, found: Changes) -> None:
    """Two values that are not equal."""
    if _is_map(old) and _is_map(new) and (old or new) and layout.parts:
        _compare_entries(path, old or {}, new or {}, layout, found)
        return
    if layout.keys is not None and _is_list(old) and _is_list(new) and (old or new):
        _compare_items(path, old or [], new or [], layout.keys, layout, found)
        return
    insert(found.modified, path)
    if type(old) is not type(new):
        _graft_parts(found.removed, path, old, layout)
        _graft_parts(found.added, path, new, layout)


def _is_map(value: Any) -> bool:
    return value is None or type(value) is dict


def _is_list(value: Any) -> bool:
    return value is None or type(value) is list


def _graft_parts(fields: FieldSet, path: Path, value: Any, layout: Layout) -> None:
    below = parts(value, layout)
    if below:
        graft(fields, path, below)


def _compare_entries(path: Path, old: dict[str, Any], new: dict[str, Any], layout: Layout, found: Changes) -> None:
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is value or before == value:
            continue
        below = (*path, "f:" + name)
        if before is _ABSENT:
            graft(found.added, below, whole(value, layout.entry(name)))
        else:
            _compare(below, before, value, layout.entry(name), found)
    for name, value in old.items():
        if name not in new:
            graft(found.removed, (*path, "f:" + name), whole(value, layout.entry(name)))


def _compare_items(
    path: Path, old: list[Any], new: list[Any], keys: tuple[str, ...], layout: Layout, found: Changes
) -> None:
    items = layout.item()
    before, after = _by_element(old, keys, layout), _by_element(new, keys, layout)
    for element in before | after:
        left, right = before.get(element, []), after.get(element, [])
        if left == right:
            continue
        below = (*path, element)
        if len(left) == 1 and len(right) == 1:
            _compare(below, left[0], right[0], items, found)
            continue
        if len(left) > 1 and len(right) > 1:
            insert(found.modified, below)
            continue
        # An item that is there more than once is one whole; it becomes that, or stops being that.
        if left:
            graft(found.removed, below, whole(left[0], items) if len(left) == 1 else {})
        if right:
            graft(found.added, below, whole(right[0], items) if len(right) == 1 else {})


def _by_element(values: list[Any], keys: tuple[str, ...], layout: Layout) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(item_element(value, keys, layout.key_defaults), []).append(value)
    return found
