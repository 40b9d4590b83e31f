"""What every verb works with: store, registry, admission, time and dice; and how an object becomes a record.

The kernel decides nothing: it reads, stamps and stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.times import format_time
from kube_embedded.admission.chain import AdmissionChain
from kube_embedded.base.errors import ApiError, not_found
from kube_embedded.base.http import Target, decode_json, encode_json
from kube_embedded.base.identity import Identity
from kube_embedded.base.resource import Context, Registry, Resource
from kube_embedded.base.store import Record, Store

MAX_OBJECT_BYTES = 1536 * 1024
"""An object as it is stored; the limit, and the words, of etcd."""


@dataclass(slots=True)
class Call:
    """One request after routing: who asks for what, and how."""

    resource: Resource
    target: Target
    query: dict[str, str]
    identity: Identity
    user_agent: str = ""
    content_type: str = ""
    accept: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.query and self.query["dryRun"] == "All"

    @property
    def field_manager(self) -> str:
        """The name under which fields are owned: as given, else the program of the user agent."""
        given = self.query.get("fieldManager")
        return given if given else self.user_agent.split("/", 1)[0][:128] or "unknown"

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass(frozen=True, slots=True)
class StoreLookup:
    """The store as rules see it: a fresh copy of each object, in its stored version."""

    store: Store

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Object | None:
        record = self.store.get(f"{group}/{plural}", namespace, name)
        return decode_json(record.body) if record is not None else None

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        wanted = (labels or {}).items()
        found = self.store.collections.get(f"{group}/{plural}")
        return [
            decode_json(record.body)
            for record in (found.after(None) if found is not None else ())
            if (not namespace or record.namespace == namespace) and wanted <= record.labels.items()
        ]


@dataclass(slots=True)
class Kernel:
    store: Store
    registry: Registry
    admission: AdmissionChain
    clock: Clock
    dice: Dice

    def context(self) -> Context:
        return Context(self.clock.now())

    def timestamp(self) -> str:
        return format_time(self.clock.now())

    def record(self, resource: Resource, namespace: str, name: str) -> Record | None:
        return self.store.get(resource.collection, namespace, name)

    def existing(self, resource: Resource, namespace: str, name: str) -> Record:
        found = self.record(resource, namespace, name)
        if found is None:
            raise not_found(resource.group, resource.plural, name)
        return found

    def decode(self, record: Record, resource: Resource) -> Object:
        """A fresh copy of the object, in the version of the resource."""
        obj: Object = decode_json(record.body)
        return self.registry.convert(obj, resource, resource.group_version)

    @property
    def lookup(self) -> StoreLookup:
        """Objects as stored, for rules that may look but not touch."""
        return StoreLookup(self.store)

    def save(self, resource: Resource, obj: Object) -> Object:
        """Store an object that has passed every rule; returns it with its new version."""
        record = self.to_record(resource, obj)
        self.store.write(resource.collection, record)
        return obj

    def erase(self, resource: Resource, obj: Object) -> None:
        """Remove an object; watchers see its last state at the revision of the removal."""
        record = self.to_record(resource, obj)
        self.store.erase(resource.collection, record)

    def restored(self, obj: Object, body: bytes, fields: dict[str, str]) -> Record:
        """A record of an object as a journal kept it, at the version it had."""
        return _record(obj, body, int(obj["metadata"]["resourceVersion"]), fields)

    def to_record(self, resource: Resource, obj: Object, fields: dict[str, str] | None = None) -> Record:
        """The record of an object at the next revision, in the version in which its kind is stored.

        `fields` are the values for field selectors, where they are known.
        """
        revision = self.store.next_revision()
        obj["metadata"] = _versioned(obj["metadata"], str(revision))
        keeper = resource
        if not resource.is_stored:
            obj = self.registry.convert(obj, resource, resource.stored_as)
            keeper = self.registry.of_collection(resource.collection) or resource
        body = encode_json({"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj})
        if len(body) > MAX_OBJECT_BYTES:
            raise ApiError(500, "", "etcdserver: request is too large")
        return _record(obj, body, revision, keeper.strategy.selectable(obj) if fields is None else fields)


def _versioned(metadata: Object, version: str) -> Object:
    """The version goes first, where a hot path can find it in the bytes."""
    # Twice: first to be in front, then to outrank the version that the metadata bring along.
    fresh = {"resourceVersion": version}
    fresh.update(metadata)
    fresh["resourceVersion"] = version
    return fresh


def _record(obj: Object, body: bytes, revision: int, fields: dict[str, str]) -> Record:
    meta = obj["metadata"]
    owners = meta.get("ownerReferences")
    return Record(
        body=body,
        revision=revision,
        uid=meta["uid"],
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        labels=meta.get("labels") or {},
        fields=fields,
        owners=tuple(dict.fromkeys(ref["uid"] for ref in owners)) if owners else (),
        deleting="deletionTimestamp" in meta,
    )


# Writes as questions to admission: what is asked, by whom, about which object.

_NO_OPTIONS: dict[str, Any] = {}


def admission_request(
    call: Call,
    operation: str,
    obj: Object | None,
    old: Object | None,
    *,
    kind: str = "",
    options: dict[str, Any] | None = None,
) -> AdmissionRequest:
    """The request for a write; `kind` is that of the object where it is not the resource's (a Scale, a Binding).

    Each webhook gets a uid of its own.
    """
    resource, target, who = call.resource, call.target, call.identity
    subject = obj if obj is not None else old
    return AdmissionRequest(
        uid="",
        operation=operation,
        group=resource.group,
        version=resource.version,
        kind=kind or resource.kind,
        resource=resource.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=target.name or ((subject or {}).get("metadata") or {}).get("name", ""),
        user=who.name,
        groups=who.groups,
        object=obj,
        old_object=old,
        dry_run=call.dry_run,
        options=_options(call, operation) if options is None else options,
        user_uid=who.uid,
        user_extra=who.extra,
    )


def _options(call: Call, operation: str) -> dict[str, Any]:
    query = call.query
    if not query:
        return _NO_OPTIONS
    options: dict[str, Any] = {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"}
    for key in ("fieldManager", "fieldValidation"):
        if query.get(key):
            options[key] = query[key]
    if call.dry_run:
        options["dryRun"] = ["All"]
    return options


async def admit(kernel: Kernel, call: Call, kind: str, obj: Object, old: Object | None = None) -> Object:
    """Ask the rules about an object that is sent to a subresource and not stored itself; it may be changed."""
    operation = "CREATE" if old is None else "UPDATE"
    request = admission_request(call, operation, obj, old, kind=kind)
    if kernel.admission.is_idle(request):
        return obj
    changed = await kernel.admission.mutate(request, call.warn)
    if changed is not None:
        request = replace(request, object=changed)
    await kernel.admission.validate(request, call.warn)
    return obj if changed is None else changed


async def admit_deletion(kernel: Kernel, call: Call, old: Object, options: dict[str, Any]) -> None:
    """Ask the rules whether an object may go."""
    request = admission_request(call, "DELETE", None, old, options=options)
    if not kernel.admission.is_idle(request):
        await kernel.admission.mutate(request, call.warn)
        await kernel.admission.validate(request, call.warn)
