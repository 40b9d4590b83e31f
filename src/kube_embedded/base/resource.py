"""What the server knows of a kind: its names and verbs, its schema, the rules of its life; and which kinds are served.

Built-in kinds are there from the start, custom ones come and go with their definitions. No objects are held here; those
are in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from kube_embedded.schema.model import Schema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that `kubectl get` shows."""

    name: str
    type: str = "string"  # string | integer | number | boolean | date
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: only with -o wide


@dataclass(frozen=True, slots=True)
class Context:
    """What a strategy may know beside the object: time, for ages and stamps, in seconds since the epoch."""

    now_s: float


class Strategy(Protocol):
    """The rules of a kind. Every method but the validators and `row` changes the object in place.

    Order on create: prepare_create, default, validate_create. On update: default, prepare_update, validate_update
    (or their status twins when the write goes to /status).
    """

    @property
    def columns(self) -> Sequence[Column]: ...

    def default(self, obj: Object) -> None: ...

    def prepare_create(self, obj: Object, context: Context) -> None:
        """Drop what a client may not set (status), set what the server sets. metadata is done by the server."""

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        """Keep the old status (and whatever else a main update may not touch)."""

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        """Keep everything but the status."""

    def generation_changes(self, obj: Object, old: Object) -> bool:
        """Whether this update bumps metadata.generation (never called for a status update)."""
        ...

    def validate_create(self, obj: Object) -> list[FieldError]: ...

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]: ...

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]: ...

    def row(self, obj: Object, context: Context) -> list[Any]:
        """The cells of this object, one per column."""
        ...

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values for field selectors beside metadata.name and metadata.namespace."""
        ...


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource finds its numbers, as paths of keys."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One served group-version-resource."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    schema: Schema
    strategy: Strategy
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()  # status, scale, binding, eviction, token, log
    scale: ScalePaths | None = None
    graceful: bool = False  # deletion waits for a grace period (pods)
    orphans: bool = False  # a deletion that says nothing about dependents leaves them (jobs, for old times' sake)
    create_on_update: bool = False  # a PUT makes what is not there
    returns_deleted: bool = False  # a deletion is answered with the object and not with a Status
    schema_name: str = ""  # component name in the OpenAPI document
    storage_version: str = ""  # version objects are stored in; empty: this one
    storage_group: str | None = None  # group objects are stored in; None: this one
    builtin: bool = True  # strategic merge patch is for built-ins only
    terminating: bool = False  # its definition is being deleted: nothing new is created
    unconditional_update: bool = True  # a PUT may leave out the version it is based on
    plain_metadata: bool = False  # metadata is checked by the rules for all kinds, and not by the strategy
    deprecated: str = ""  # warning header for a deprecated version

    group_version: str = field(init=False)
    stored_as: str = field(init=False)  # the apiVersion in which objects are stored
    is_stored: bool = field(init=False)  # whether this is the form in which objects are stored
    collection: str = field(init=False)  # the store's name for the objects, whatever the version

    def __post_init__(self) -> None:
        group = self.group if self.storage_group is None else self.storage_group
        version = self.storage_version or self.version
        derived = {
            "group_version": f"{self.group}/{self.version}" if self.group else self.version,
            "stored_as": f"{group}/{version}" if group else version,
            "is_stored": (group, version) == (self.group, self.version),
            "collection": f"{group}/{self.plural}",
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


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
