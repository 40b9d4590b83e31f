"""Who owns which fields after a write: the endpoint's scope, and the three ways to own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.apply import Scope, keep_times, scope_of, track_update
from kube_embedded.apply.ownership import Owned
from kube_embedded.base.http import decode_json, encode_json
from kube_embedded.base.resource import Resource
from kube_embedded.builtins import decode
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.schema.model import Schema

Own = Callable[[Kernel, Call, Object, Object, str], None]
"""Sets managedFields of a new object, given the old one and the subresource."""

_STATUS_KEEPS = {
    "Pod": ("metadata.deletionTimestamp", "metadata.ownerReferences"),
    "Deployment": ("metadata.labels",),
}
_BY_NAME = frozenset({"labels", "annotations"})
_UNOWNED = frozenset({"name", "namespace"})
_scopes: WeakKeyDictionary[Schema, dict[tuple[str, str], Scope]] = WeakKeyDictionary()


def scope(call: Call, subresource: str = "") -> Scope:
    """The scope of an endpoint, made once per schema."""
    resource = call.resource
    made = _scopes.setdefault(resource.schema, {})
    key = (resource.group_version, subresource)
    found = made.get(key)
    if found is None:
        found = made[key] = scope_of(
            resource.schema,
            resource.group_version,
            subresource,
            ignored=_ignored(resource, subresource),
            empty=decode.node_of(resource.schema_name).zero() if resource.builtin else {},
            kind=resource.kind,
        )
    return found


def _ignored(resource: Resource, subresource: str) -> tuple[str, ...]:
    """What an endpoint takes from the stored object, whatever a client says."""
    if subresource != "status":
        return ("status",) if "status" in resource.subresources else ()
    if not resource.builtin:
        return ("metadata", "spec")
    return ("spec", *_STATUS_KEEPS.get(resource.kind, ()))


def created(kernel: Kernel, call: Call, obj: Object) -> list[dict[str, Any]]:
    return track_update(scope(call), None, obj, call.field_manager, kernel.timestamp())


def created_from_template(kernel: Kernel, call: Call, metadata: Object, spec: msgspec.Raw) -> list[dict[str, Any]]:
    """As `created`, of an object whose fields of the spec are known."""
    shape = {
        name: dict.fromkeys(value, "") if name in _BY_NAME else value
        for name, value in metadata.items()
        if name not in _UNOWNED
    }
    found = scope(call)
    fields: dict[str, Any] = {**_fields_of_metadata(found, encode_json(shape)), "f:spec": spec}
    return [Owned(found.owner(call.field_manager), fields, kernel.timestamp()).entry()]


@lru_cache(maxsize=256)
def _fields_of_metadata(found: Scope, shape: bytes) -> dict[str, msgspec.Raw]:
    """Which of the metadata are owned, by metadata in which only the values that do not matter are missing."""
    entries = track_update(found, None, {"metadata": decode_json(shape)}, "", "")
    return {name: msgspec.Raw(encode_json(part)) for entry in entries for name, part in entry["fieldsV1"].items()}


def updated(kernel: Kernel, call: Call, new: Object, old: Object, subresource: str) -> None:
    """The author of a change owns what it changed."""
    entries = track_update(scope(call, subresource), old, new, call.field_manager, kernel.timestamp())
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def applied(kernel: Kernel, call: Call, new: Object, old: Object, subresource: str) -> None:
    """Server-side apply has written the entries already."""


settle_times = keep_times
"""Call it last, when everything else of the new object is known."""
