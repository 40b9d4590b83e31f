"""Who owns which fields since when: the entries of metadata.managedFields, and what each write makes of them.

An entry that did not change is kept as the very value it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.apply.fieldset import (
    FieldSet,
    MalformedElement,
    Unkeyed,
    difference,
    intersection,
    of_paths,
    parse,
    recursive_difference,
    union,
)
from kube_embedded.apply.owned_fields import appeared, compare, empty_object
from kube_embedded.apply.schema_layout import Layout, layout_of, with_metadata
from kube_embedded.schema.model import Schema

Entry = dict[str, Any]
Operation = Literal["Apply", "Update"]

MAX_UPDATE_MANAGERS = 10
ANCIENT = "ancient-changes"
_NO_TIME = "0001-01-01T00:00:00Z"


class MalformedEntries(ValueError):
    """managedFields that cannot be read."""


class Owner(msgspec.Struct, frozen=True):
    """Who owns fields. One that applies is the same in every version; one that updates is not."""

    manager: str
    operation: Operation
    api_version: str
    subresource: str = ""

    def key(self) -> tuple[str, str, str, str]:
        return (self.manager, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource)


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of one owner."""

    owner: Owner
    fields: FieldSet
    time: str | None = None

    def entry(self) -> Entry:
        owner = self.owner
        entry: Entry = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
        if self.time is not None:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = self.fields
        if owner.subresource:
            entry["subresource"] = owner.subresource
        return entry


Managed = dict[tuple[str, str, str, str], Owned]


def read(entries: list[Entry] | None, *, trusted: bool = True) -> Managed:
    """Entries by owner; those of a client are not trusted and their fields are checked."""
    managed: Managed = {}
    for index, entry in enumerate(entries or ()):
        if not trusted:
            _check(entry, index)
        owner = Owner(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
        fields = entry.get("fieldsV1") or {}
        managed[owner.key()] = Owned(owner, fields if trusted else _parsed(fields), entry.get("time"))
    return managed


def _check(entry: Any, index: int) -> None:
    if type(entry) is not dict or entry.get("operation") not in ("Apply", "Update"):
        raise MalformedEntries("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise MalformedEntries("apiVersion must not be empty")
    fields_type = entry.get("fieldsType", "")
    if not fields_type:
        raise MalformedEntries(f"missing fieldsType in managed fields entry {index}")
    if fields_type != "FieldsV1":
        raise MalformedEntries(f'invalid fieldsType "{fields_type}" in managed fields entry {index}')


def _parsed(raw: Any) -> FieldSet:
    try:
        return parse(raw)
    except MalformedElement as error:
        raise MalformedEntries(f"error decoding set: {error}") from error


def write(managed: Managed) -> list[Entry]:
    """Applied ones first, then by time, manager, version and subresource."""
    return [owned.entry() for owned in sorted(managed.values(), key=_place)]


def _place(owned: Owned) -> tuple[str, str, str, str, str]:
    owner = owned.owner
    return (owner.operation, owned.time or _NO_TIME, owner.manager, owner.api_version, owner.subresource)


def cap(managed: Managed) -> Managed:
    """At most ten owners that update: the oldest of a version are merged into one."""
    updates = [key for key in managed if key[1] == "Update"]
    if len(updates) <= MAX_UPDATE_MANAGERS:
        return managed
    updates.sort(key=lambda key: (managed[key].time or _NO_TIME, _identity(managed[key].owner)))
    capped, count, oldest = dict(managed), len(updates), dict[str, tuple[str, str, str, str]]()
    for key in updates:
        if count <= MAX_UPDATE_MANAGERS:
            break
        owned = capped[key]
        first = oldest.setdefault(owned.owner.api_version, key)
        if first == key:
            continue
        bucket = Owner(ANCIENT, "Update", owned.owner.api_version)
        if bucket.key() not in capped:
            capped[bucket.key()] = capped.pop(first)
        merged = union(owned.fields, capped[bucket.key()].fields)
        capped.pop(key)
        capped[bucket.key()] = Owned(bucket, merged, owned.time)
        count -= 1
    return capped


def _identity(owner: Owner) -> str:
    """What owners of the same age are sorted by."""
    subresource = f',"subresource":"{owner.subresource}"' if owner.subresource else ""
    return f'{{"manager":"{owner.manager}","operation":"Update","apiVersion":"{owner.api_version}"{subresource}}}'


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
