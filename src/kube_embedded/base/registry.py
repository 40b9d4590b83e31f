"""Which resources are served: built-in ones from the start, custom ones as definitions come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kube_embedded.base.resource import Object, Resource

Converter = Callable[[Object, str], Object]
"""An object and the apiVersion it shall have, to the object in that version; the one given stays as it is."""


class Registry:
    """Resources by path and by kind. `generation` rises with every change, for whoever caches documents about it."""

    def __init__(self, resources: Iterable[Resource], converters: Mapping[str, Converter] | None = None) -> None:
        self.generation = 0
        self._served: dict[tuple[str, str, str], Resource] = {}
        self._converters: dict[str, Converter] = dict(converters or {})
        for resource in resources:
            self._served[(resource.group, resource.version, resource.plural)] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._served.get((group, version, plural))

    def all(self) -> Iterator[Resource]:
        return iter(list(self._served.values()))

    def groups(self) -> dict[str, list[str]]:
        """Served versions of each group, in the order in which they were registered."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._served:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def versions_of(self, group: str, plural: str) -> list[Resource]:
        return [r for r in self._served.values() if r.group == group and r.plural == plural]

    def by_kind(self, group: str, kind: str, version: str = "") -> Resource | None:
        for resource in self._served.values():
            if resource.group == group and resource.kind == kind and version in ("", resource.version):
                return resource
        return None

    def stored(self) -> Iterator[Resource]:
        """One resource per collection: that of the storage version where it is served, else any."""
        seen = set()
        for resource in self.all():
            if resource.collection not in seen and "list" in resource.verbs:
                seen.add(resource.collection)
                chosen = self.of_collection(resource.collection)
                if chosen is not None:
                    yield chosen

    def of_collection(self, collection: str) -> Resource | None:
        """The resource to handle stored objects with."""
        group, _, plural = collection.partition("/")
        found = self.versions_of(group, plural)
        return next((one for one in found if one.is_stored), found[0] if found else None)

    def replace(self, group: str, plural: str, resources: Iterable[Resource], converter: Converter | None) -> None:
        """Serve exactly these versions of a custom resource (none: it is gone)."""
        for key in [key for key in self._served if key[0] == group and key[2] == plural]:
            del self._served[key]
        for resource in resources:
            self._served[(resource.group, resource.version, resource.plural)] = resource
        if converter is not None:
            self._converters[f"{group}/{plural}"] = converter
        self.generation += 1

    def convert(self, obj: Object, resource: Resource, api_version: str) -> Object:
        """The object in another form in which its collection is served or stored."""
        if obj.get("apiVersion") == api_version:
            return obj
        converter = self._converters.get(resource.collection)
        if converter is not None:
            return converter(obj, api_version)
        return {**obj, "apiVersion": api_version}


class ServedVersions:
    """The registry as admission sees it: which other versions there are, and objects in them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def served(self, group: str, resource: str) -> list[str]:
        return [one.version for one in self._registry.versions_of(group, resource)]

    def convert(self, obj: Object, group: str, resource: str, version: str) -> Object:
        found = self._registry.find(group, version, resource)
        if found is None:
            raise ValueError(f"{resource}.{group} is not served in version {version}")
        return self._registry.convert(obj, found, found.group_version)
