"""Who owns which fields after a write: the endpoint's scope, and the three ways to own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from spinney.serve.apiserver.apply import Scope, keep_times, scope_of, track_update
from spinney.serve.apiserver.builtins import decode
from spinney.serve.apiserver.kernel import Call, Kernel
from spinney.serve.apiserver.resource import Object, Resource
from spinney.serve.apiserver.schema.model import Schema

Own = Callable[[Kernel, Call, Object, Object, str], None]
"""Sets managedFields of a new object, given the old one and the subresource."""

_STATUS_KEEPS = {
    "Pod": ("metadata.deletionTimestamp", "metadata.ownerReferences"),
    "Deployment": ("metadata.labels",),
}
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
