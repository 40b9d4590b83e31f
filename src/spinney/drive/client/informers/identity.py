"""The identity of an object: namespace, name, uid and version, read from Structs and from plain JSON values alike.

Never compares versions as text: they are numbers that grow with every write to the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Identity(NamedTuple):
    """Identifies one object and one version of it."""

    namespace: str
    name: str
    uid: str
    version: str


class Meta(Protocol):
    """The part of `metadata` that every cached Struct has."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class Named(Protocol):
    """A Struct with metadata."""

    @property
    def metadata(self) -> Meta: ...


Identify = Callable[[T_contra], tuple[str, str, str, str]]
"""From an object to (namespace, name, uid, version)."""


def of_struct(item: Named) -> tuple[str, str, str, str]:
    meta = item.metadata
    return (meta.namespace, meta.name, meta.uid, meta.resource_version)


def of_dict(item: dict[str, Any]) -> tuple[str, str, str, str]:
    meta = item["metadata"]
    return (meta.get("namespace", ""), meta["name"], meta.get("uid", ""), meta.get("resourceVersion", ""))


def identify(item: Any) -> tuple[str, str, str, str]:
    """The identity of a Struct or a JSON value, by type."""
    return of_dict(item) if isinstance(item, dict) else of_struct(item)


def version_number(version: str) -> int:
    """The version as a number for comparison; 0 if it is missing or not numeric."""
    return int(version) if version.isdecimal() else 0
