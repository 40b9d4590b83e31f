"""Who owns what after a create, an update or a patch: the fields a request changed belong to whom it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kube_embedded.apply.comparison import compare
from kube_embedded.apply.elements import Unkeyed
from kube_embedded.apply.fieldset import (
    FieldSet,
    difference,
    intersection,
    of_paths,
    recursive_difference,
    union,
)
from kube_embedded.apply.managed_fields import (
    Entry,
    MalformedEntries,
    Managed,
    Owned,
    Owner,
    cap,
    read,
    write,
)
from kube_embedded.apply.owned_fields import appeared, empty_object
from kube_embedded.apply.schema_layout import Layout, layout_of, with_metadata
from kube_embedded.schema.model import Schema

Object = dict[str, Any]

SCALE = "scale"
UNOWNED = of_paths(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)
"""Fields that nobody owns: they belong to the server."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """What tracking knows of the endpoint a request came to. Make one per endpoint with `scope_of`, and keep it."""

    schema: Schema
    layout: Layout
    api_version: str
    subresource: str = ""
    ignored: FieldSet = field(default_factory=dict)  # fields that this endpoint resets whatever a client says
    empty: Object = field(default_factory=dict)  # what an object holds when nothing was set
    kind: str = ""  # what a configuration must be of; empty: not checked here

    def owner(self, manager: str) -> Owner:
        return Owner(manager or "unknown", "Update", self.api_version, self.subresource)

    def applier(self, manager: str) -> Owner:
        return Owner(manager, "Apply", self.api_version, self.subresource)


def scope_of(
    schema: Schema,
    api_version: str,
    subresource: str = "",
    *,
    ignored: tuple[str, ...] = (),
    builtin: bool = True,
    empty: Object | None = None,
    kind: str = "",
) -> Scope:
    """The scope of an endpoint. `ignored` are paths like `status` or `metadata.labels`.

    `empty` is what an object of the kind holds when nothing was set; without it the schema of a built-in kind is asked.
    """
    full = with_metadata(schema)
    if empty is None:
        empty = empty_object(full) if builtin else {}
    return Scope(full, layout_of(full), api_version, subresource, of_paths(*ignored), empty, kind)


def created(scope: Scope, obj: Object, manager: str, now: str) -> list[Entry]:
    """The entries of a new object: everything in it is owned by its creator. One walk, in the order of FieldsV1."""
    fields = appeared(obj, scope.layout, scope.empty)
    if scope.ignored:
        fields = recursive_difference(fields, scope.ignored)
    fields = difference(fields, UNOWNED)
    return [Owned(scope.owner(manager), fields, now).entry()] if fields else []


def track_update(scope: Scope, old: Object | None, new: Object, manager: str, now: str) -> list[Entry]:
    """The entries after a create (`old` is None), an update or a patch. Never fails: at worst nothing is tracked."""
    try:
        managed = _managed(scope, old, new)
        if old is None:
            if not managed:
                return created(scope, new, manager, now)
            return write(cap(updated(scope, scope.empty, new, managed, scope.owner(manager), now)))
        if not managed:
            return []
        return write(cap(updated(scope, old, new, managed, scope.owner(manager), now)))
    except (Unkeyed, MalformedEntries):
        return []


def _managed(scope: Scope, old: Object | None, new: Object) -> Managed:
    """Whose word counts: a client may edit or reset the entries of an object, but not through a subresource."""
    live = None if old is None else old["metadata"].get("managedFields")
    if scope.subresource:
        return read(live)
    given = new["metadata"].get("managedFields")
    if given == live:
        return read(live)
    if given is not None and given in ([], [{}]):
        return {}
    try:
        return read(given, trusted=False) or read(live)
    except MalformedEntries:
        return read(live)


def updated(scope: Scope, old: Object, new: Object, managed: Managed, owner: Owner, now: str) -> Managed:
    """Owners lose what the change removed or gave another value, and its author owns what it set."""
    changes = compare(_bare(old), _bare(new), scope.layout).without(scope.ignored)
    gained = changes.set_by()
    if not gained and not changes.removed:
        return managed
    remaining = shrink(managed, gained, changes.removed)
    mine = difference(gained, UNOWNED)
    if not mine:
        return remaining
    before = remaining.get(owner.key())
    since = None if scope.subresource == SCALE else now  # the real server writes no time for a change through scale
    remaining[owner.key()] = Owned(owner, mine if before is None else union(mine, before.fields), since)
    return remaining


def shrink(managed: Managed, gained: FieldSet, removed: FieldSet, keep: Owner | None = None) -> Managed:
    """All owners but one without the fields that went to somebody else or away."""
    remaining: Managed = {}
    for key, owned in managed.items():
        if keep is not None and key == keep.key():
            remaining[key] = owned
            continue
        lost = union(intersection(owned.fields, gained), removed)
        fields = difference(owned.fields, lost)
        if fields:
            remaining[key] = owned if fields == owned.fields else Owned(owned.owner, fields, owned.time)
    return remaining


def _bare(obj: Object) -> Object:
    """The object without its entries, which own nothing and are owned by nobody."""
    meta = obj.get("metadata")
    if not meta or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def keep_times(old: Object, new: Object) -> None:
    """Take back new times of entries where nothing else changed, so that a write without effect stays one."""
    before, after = old["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if not before or not after or before == after or len(before) != len(after):
        return
    if all(_timeless(left) == _timeless(right) for left, right in zip(before, after, strict=True)) and _bare(
        old
    ) == _bare(new):
        new["metadata"]["managedFields"] = before


def _timeless(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != "time"}
