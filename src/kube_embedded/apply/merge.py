"""An applied configuration merged into the live object; what a manager applies no more is removed.

What the configuration does not mention stays, and so does what somebody else owns.
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.apply.fieldset import SELF, FieldSet, difference, intersection, is_member, item_element, union
from kube_embedded.apply.owned_fields import configured
from kube_embedded.apply.schema_layout import Layout

_ABSENT = object()


def merge(live: Any, applied: Any, layout: Layout) -> Any:
    if _both(dict, live, applied) and layout.parts:
        return _merge_entries(live or {}, applied or {}, layout)
    if _both(list, live, applied) and layout.keys is not None:
        return _merge_items(live or [], applied or [], layout.keys, layout)
    return applied


def _both(kind: type, live: Any, applied: Any) -> bool:
    """Two containers of a kind, of which one may be null, with something in at least one of them."""
    return all(value is None or type(value) is kind for value in (live, applied)) and bool(live or applied)


def _merge_entries(live: dict[str, Any], applied: dict[str, Any], layout: Layout) -> dict[str, Any]:
    merged = dict(live)
    for name, value in applied.items():
        before = live.get(name, _ABSENT)
        merged[name] = value if before is _ABSENT else merge(before, value, layout.entry(name))
    return merged


def _merge_items(live: list[Any], applied: list[Any], keys: tuple[str, ...], layout: Layout) -> list[Any]:
    """Items in the order of the configuration; live ones it does not mention stay behind their predecessors.

    Walks both lists: equal elements are merged; a live item that is not applied is kept where it is met; a live item
    that is applied waits for its turn in the order of the configuration.
    """
    ours = [item_element(item, keys, layout.key_defaults) for item in live]
    theirs = [item_element(item, keys, layout.key_defaults) for item in applied]
    before = {element: _ABSENT if ours.count(element) > 1 else item for element, item in zip(ours, live, strict=True)}
    after = dict(zip(theirs, applied, strict=True))
    shared = [element for element in theirs if element in before]
    awaited = shared.pop(0) if shared else None
    taken: set[str] = set()
    merged: list[Any] = []

    def take(element: str) -> None:
        taken.add(element)
        item = before.get(element, _ABSENT)
        merged.append(after[element] if item is _ABSENT else merge(item, after[element], layout.item()))

    left, right = 0, 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            element = ours[left]
            if element == theirs[right]:
                take(element)
                left, right = left + 1, right + 1
                awaited = shared.pop(0) if shared else None
                continue
            if element in after and awaited is not None and awaited != element:
                left += 1
                continue
        if left < len(ours):
            element = ours[left]
            if element not in after:
                merged.append(live[left])
                left += 1
                continue
            if element in taken:
                left += 1
        if right < len(theirs):
            element = theirs[right]
            take(element)
            right += 1
            if element == awaited:
                awaited = shared.pop(0) if shared else None
    return merged


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
