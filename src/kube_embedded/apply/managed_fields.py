"""Entries of metadata.managedFields: who owns which fields since when; read, written, sorted and capped.

An entry that did not change is kept as the very value it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from kube_embedded.apply.elements import MalformedElement
from kube_embedded.apply.fieldset import FieldSet, parse, union

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
