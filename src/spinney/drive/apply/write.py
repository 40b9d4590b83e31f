"""A write as a value: verb, object reference and precondition.

Never carries a write out: the door does that.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from spinney.drive.client.paths import Ref

Object = dict[str, Any]


class Verb(Enum):
    """The kinds of writes that the door supports."""

    CREATE = "create"
    APPLY = "apply"
    JSON_PATCH = "json patch"
    MERGE_PATCH = "merge patch"
    BIND = "bind"
    EVICT = "evict"
    DELETE = "delete"


class Precondition(msgspec.Struct, frozen=True):
    """What must hold for the write to happen: the same object (uid), in the same state (resource_version)."""

    uid: str = ""
    resource_version: str = ""

    def __post_init__(self) -> None:
        if not (self.uid or self.resource_version):
            raise ValueError("found an empty precondition, expected a uid or a resource_version, or ANY")

    def metadata(self) -> dict[str, str]:
        return _named(self)


class Unconditional(Enum):
    """The write is correct whatever the state of the object."""

    ANY = "any"

    def metadata(self) -> dict[str, str]:
        return {}


ANY = Unconditional.ANY
Given = Precondition | Unconditional


class Write(msgspec.Struct, frozen=True):
    """One write through the door: what is done to which object, and on which condition."""

    verb: Verb
    ref: Ref
    given: Given
    subresource: str = ""
    dry_run: bool = False

    @property
    def uid(self) -> str:
        return self.given.uid if isinstance(self.given, Precondition) else ""

    @property
    def resource_version(self) -> str:
        return self.given.resource_version if isinstance(self.given, Precondition) else ""

    def __str__(self) -> str:
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb.value} {self.ref}{part}"


def with_metadata(body: Object, ref: Ref, given: Given) -> Object:
    """A copy of the body with name, namespace and precondition in its metadata."""
    place = {name: value for name, value in (("name", ref.name), ("namespace", ref.namespace)) if value}
    return {**body, "metadata": {**body.get("metadata", {}), **place, **given.metadata()}}


def delete_options(given: Given, *, propagation: str | None = None, grace_s: int | None = None) -> Object:
    """A `v1.DeleteOptions`."""
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if given.metadata():
        options["preconditions"] = given.metadata()
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options


def _named(precondition: Precondition) -> dict[str, str]:
    found = {"uid": precondition.uid, "resourceVersion": precondition.resource_version}
    return {name: value for name, value in found.items() if value}
