"""What follows from what is seen, as values: changes in order, to be carried out by whoever holds the door.

Nothing in here writes; a change names its object, and by uid and version the state it was decided on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.meta import Kind, ObjectMeta

Json = dict[str, Any]


class Resource(msgspec.Struct, frozen=True, cache_hash=True):
    """A kind of object and where it is served; the group is empty for Kubernetes' core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def at(self, name: str, namespace: str = "") -> Target:
        return Target(self, name, namespace)

    def of(self, metadata: ObjectMeta) -> Target:
        return Target(self, metadata.name, metadata.namespace)


def resource_of(kind: type[Kind]) -> Resource:
    """Where a kind of ours is served."""
    return Resource(kind.GROUP, kind.VERSION, kind.PLURAL, kind.KIND, kind.NAMESPACED)


class Target(msgspec.Struct, frozen=True):
    """One object, by name."""

    resource: Resource
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {place}"


@dataclass(frozen=True, slots=True)
class Create:
    """A new object; there must be none of that name, unless it is of a kind that is never looked at."""

    target: Target
    body: Json
    may_exist: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object in the state it was seen in; only the fields that change."""

    target: Target
    patch: Json
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The fields of a status that change."""

    target: Target
    status: Json
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Delete:
    """This very object; what it owns follows by itself."""

    target: Target
    uid: str


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An event about an object. The same occasion gives the same event, however often it is told."""

    target: Target
    uid: str
    reason: str
    message: str
    occasion: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """The number of replicas, changed where an object is scaled."""

    target: Target
    replicas: int
    uid: str
    version: str


Change = Create | Patch | SetStatus | Scale | Delete | EmitEvent


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The changes in the order they are to be made, and when to look again though nothing happens (None: never)."""

    changes: tuple[Change, ...] = ()
    requeue_at_s: float | None = None
