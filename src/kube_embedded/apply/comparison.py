"""What changed between two states of an object, field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kube_embedded.apply.elements import item_element
from kube_embedded.apply.fieldset import (
    FieldSet,
    Path,
    graft,
    insert,
    ordered,
    recursive_difference,
    union,
)
from kube_embedded.apply.owned_fields import parts, whole
from kube_embedded.apply.schema_layout import Layout

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
