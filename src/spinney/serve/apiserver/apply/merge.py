"""An applied configuration merged into the live object: what it does not mention stays.

The result shares values with both; neither is changed.
"""

from __future__ import annotations

from typing import Any

from spinney.serve.apiserver.apply.elements import item_element
from spinney.serve.apiserver.apply.layout import Layout

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
