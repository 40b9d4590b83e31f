"""Server-side apply: a configuration is merged into the live object, and its manager owns what it says.

Defaulting, admission and validation come after this; nothing here reads a clock or touches what it was given.
"""

from __future__ import annotations

from typing import Any

from kube_embedded.apply.comparison import compare
from kube_embedded.apply.conflicts import find_conflicts, refusal
from kube_embedded.apply.fieldset import FieldSet, difference, recursive_difference, union
from kube_embedded.apply.last_applied import KUBECTL, follow, not_its_own
from kube_embedded.apply.managed_fields import Entry, MalformedEntries, Managed, Owned, Owner, read, write
from kube_embedded.apply.merge import merge, prune
from kube_embedded.apply.owned_fields import configured
from kube_embedded.apply.ownership import UNOWNED, Scope, shrink, updated
from kube_embedded.apply.type_check import type_errors
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.patch.json_values import copied

Object = dict[str, Any]

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
