"""Server-side apply: a configuration is merged into the live object, and its manager owns what it says.

Defaulting, admission and validation come after this; nothing here reads a clock or touches what it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.apply.fieldset import (
    SELF,
    FieldSet,
    Path,
    difference,
    has,
    intersection,
    is_member,
    item_element,
    paths,
    recursive_difference,
    text,
    union,
)
from kube_embedded.apply.owned_fields import compare, configured
from kube_embedded.apply.ownership import (
    UNOWNED,
    Entry,
    MalformedEntries,
    Managed,
    Owned,
    Owner,
    Scope,
    read,
    shrink,
    updated,
    write,
)
from kube_embedded.apply.schema_layout import Layout, type_errors
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.patch.json_operations import copied

# An applied configuration merged into the live object; what a manager applies no more is removed. What the
# configuration does not mention stays, and so does what somebody else owns.

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
    shared = iter([element for element in theirs if element in before])
    awaited = next(shared, None)
    taken: set[str] = set()
    merged: list[Any] = []
    left = right = 0
    while left < len(ours) or right < len(theirs):
        element = ours[left] if left < len(ours) else None
        wanted = theirs[right] if right < len(theirs) else None
        if element is not None and element not in after:
            # Nobody applies it: it stays behind what it stood behind.
            merged.append(live[left])
            left += 1
        elif None not in (element, wanted, awaited) and element not in (wanted, awaited):
            # Applied as well, but another one is due: its turn comes in the order of the configuration.
            left += 1
        else:
            left += element is not None and (element == wanted or element in taken)
            if wanted is not None:
                item = before.get(wanted, _ABSENT)
                merged.append(after[wanted] if item is _ABSENT else merge(item, after[wanted], layout.item()))
                taken.add(wanted)
                right += 1
                awaited = next(shared, None) if wanted == awaited else awaited
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


# Conflicts: fields that somebody else owns with another value, as the answer tells them.


@dataclass(frozen=True, slots=True)
class Conflict:
    owner: Owner
    path: Path

    def field(self) -> str:
        return "".join(text(element) for element in self.path)


def find_conflicts(managed: Managed, gained: FieldSet, applier: Owner) -> list[Conflict]:
    """Fields that an apply would set and another owner holds, by owner."""
    return [
        Conflict(owned.owner, path)
        for key, owned in sorted(managed.items())
        if key != applier.key()
        for path in paths(intersection(owned.fields, gained))
    ]


def refusal(conflicts: list[Conflict]) -> ApiError:
    """409 that names every conflict."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_named(conflict.owner)}",
            "field": conflict.field(),
        }
        for conflict in conflicts
    ]
    return ApiError(409, "Conflict", _message(conflicts), {"causes": causes})


def _message(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_named(only.owner)}: {only.field()}"
    lines: list[str] = []
    owner: Owner | None = None
    for conflict in conflicts:
        if conflict.owner != owner:
            owner = conflict.owner
            lines.append(f"conflicts with {_named(owner)}:")
        lines.append(f"- {conflict.field()}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _named(owner: Owner) -> str:
    name = f'"{owner.manager}"'
    if owner.subresource:
        name += f' with subresource "{owner.subresource}"'
    return name if owner.operation == "Apply" else f"{name} using {owner.api_version}"


BEFORE_FIRST_APPLY = "before-first-apply"


def apply(
    scope: Scope, live: Object | None, applied: Object, manager: str, now: str, *, force: bool = False
) -> tuple[Object, list[Entry]]:
    """The object after an apply, and its entries (already in it); `live` is None where there is none yet.

    Raises ApiError: 400 for a configuration that may not be applied, 409 for conflicts, 500 for one that does not fit
    the schema (as the real server answers).
    """
    _check(scope, applied)
    start = live if live is not None else {}
    owner = scope.applier(manager)
    managed = _managed(scope, start, now)
    merged, remaining = _merged(scope, start, applied, managed, owner, force=force)
    changed = merged != start
    mine = remaining.get(owner.key())
    if mine is not None:
        remaining[owner.key()] = Owned(owner, mine.fields, now if changed else mine.time)
    result: Object = copied(merged)
    if manager == KUBECTL:
        follow(result, applied)
    entries = write(remaining)
    meta = result.setdefault("metadata", {})
    meta.pop("managedFields", None)
    if entries:
        meta["managedFields"] = entries
    return result, entries


def _check(scope: Scope, applied: Object) -> None:
    named = _group_version_kind(applied)
    if applied.get("apiVersion") != scope.api_version or (scope.kind and applied.get("kind") != scope.kind):
        raise bad_request(f"invalid object type: {named}")
    given = applied.get("metadata")
    meta = given if type(given) is dict else {}
    if type(meta.get("managedFields")) is list:
        raise bad_request("metadata.managedFields must be nil")
    why = type_errors(applied, scope.schema)
    if why:
        whose = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {named}"
        raise ApiError(500, "", f"failed to create typed patch object ({whose}): {why}")


def _group_version_kind(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _managed(scope: Scope, live: Object, now: str) -> Managed:
    """The owners so far; those of an object that nobody tracked are one that was there before."""
    meta = live.get("metadata") or {}
    try:
        managed = read(meta.get("managedFields"))
    except (MalformedEntries, KeyError) as error:
        raise ApiError(500, "", f"failed to decode managed fields: {error}") from error
    if managed or "uid" not in meta:
        return managed
    return updated(scope, scope.empty, live, {}, scope.owner(BEFORE_FIRST_APPLY), now)


def _merged(
    scope: Scope, live: Object, applied: Object, managed: Managed, owner: Owner, *, force: bool
) -> tuple[Object, Managed]:
    layout = scope.layout
    last = managed.get(owner.key())
    mine = recursive_difference(configured(applied, layout), scope.ignored)
    managed = {**managed, owner.key(): Owned(owner, mine, last.time if last else None)}
    merged: Object = merge(live, applied, layout)
    if last is not None:
        merged = prune(merged, layout, last.fields, _all_of(managed))
    changes = compare(live, merged, layout).without(scope.ignored)
    gained = changes.set_by()
    conflicts = [] if force else find_conflicts(managed, gained, owner)
    if conflicts and owner.manager == KUBECTL:
        conflicts = not_its_own(conflicts, live, scope)
    if conflicts:
        raise refusal(conflicts)
    remaining = shrink(managed, gained, changes.removed, keep=owner)
    owned = difference(mine, UNOWNED)
    if owned:
        remaining[owner.key()] = Owned(owner, owned, last.time if last else None)
    else:
        remaining.pop(owner.key(), None)
    return merged, remaining


def _all_of(managed: Managed) -> FieldSet:
    fields: FieldSet = {}
    for owned in managed.values():
        fields = union(fields, owned.fields)
    return fields


# The annotation in which kubectl keeps what it applied client-side. Only the manager named `kubectl` has this: fields
# that still are as it last applied them are its own to take over, and the annotation follows what it applies.

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES = 256 * 1024


def not_its_own(conflicts: list[Conflict], live: Object, scope: Scope) -> list[Conflict]:
    """The conflicts that are left when what kubectl last applied client-side counts as its own."""
    own = _still_applied(live, scope)
    return [conflict for conflict in conflicts if not has(own, conflict.path)]


def _still_applied(live: Object, scope: Scope) -> FieldSet:
    written = _annotation(live)
    if not written:
        return {}
    try:
        last = msgspec.json.decode(written)
    except msgspec.DecodeError:
        return {}
    if type(last) is not dict or last.get("apiVersion") != scope.api_version:
        return {}
    changes = compare(last, live, scope.layout)
    own = configured(last, scope.layout)
    for gone in (changes.modified, changes.added, changes.removed):
        own = difference(own, gone)
    return own


def follow(obj: Object, applied: Object) -> None:
    """Write what was applied into the annotation of the object, if it has one."""
    if not _annotation(obj):
        return
    meta = dict(applied.get("metadata", {}))
    annotations = {name: value for name, value in (meta.get("annotations") or {}).items() if name != ANNOTATION}
    meta["annotations"] = annotations
    if not annotations:
        meta.pop("annotations")
    written = msgspec.json.encode({**applied, "metadata": meta}, order="deterministic").decode() + "\n"
    kept = {**obj["metadata"]["annotations"], ANNOTATION: written}
    if sum(len(name) + len(value) for name, value in kept.items()) > _MAX_ANNOTATIONS_BYTES:
        kept.pop(ANNOTATION)
    obj["metadata"]["annotations"] = kept


def _annotation(obj: Object) -> str:
    annotations = obj.get("metadata", {}).get("annotations") or {}
    found = annotations.get(ANNOTATION)
    return found if type(found) is str else ""
