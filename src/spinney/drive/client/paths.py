"""Resources and objects of the API as URL paths.

Never builds a path from a name that could lead elsewhere: `/`, `%`, `.` and `..` are refused.
"""

from __future__ import annotations

import msgspec

Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""


class ResourcePath(msgspec.Struct, frozen=True, cache_hash=True):
    """A resource of the API: group (empty for core), version, plural, and whether it lives in namespaces."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """The path of all objects, or of those of one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if not namespace:
            return f"{root}/{self.plural}"
        if not self.namespaced:
            raise ValueError(f"{self}: found namespace {namespace!r}, expected none: the resource is cluster-scoped")
        return f"{root}/namespaces/{_segment(namespace)}/{self.plural}"

    def ref(self, name: str, namespace: str = "") -> Ref:
        return Ref(self, name, namespace)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Ref(msgspec.Struct, frozen=True):
    """One object of a resource, by name."""

    resource: ResourcePath
    name: str
    namespace: str = ""

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)

    def path(self, subresource: str = "") -> str:
        if self.resource.namespaced and not self.namespace:
            raise ValueError(f"{self}: found no namespace, expected one: the resource is namespaced")
        path = f"{self.resource.collection(self.namespace)}/{_segment(self.name)}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource} {place}"


_LEADS_ELSEWHERE = frozenset("/%?# ")


def _segment(name: str) -> str:
    if not name or name in (".", "..") or not _LEADS_ELSEWHERE.isdisjoint(name) or not name.isprintable():
        raise ValueError(f"found {name!r}, expected a name that may stand in a URL path")
    return name
