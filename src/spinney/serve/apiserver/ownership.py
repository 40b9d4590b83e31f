"""Who owns which fields after a write: the endpoint's scope, and the three ways to own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from spinney.serve.apiserver.apply import Scope, keep_times, scope_of, track_update
from spinney.serve.apiserver.apply import created as created_entries
from spinney.serve.apiserver.kernel import Call, Kernel
from spinney.serve.apiserver.resource import Object
from spinney.serve.apiserver.schema.model import Schema

Own = Callable[[Kernel, Call, Object, Object, str], None]
"""Sets managedFields of a new object, given the old one and the subresource."""

_scopes: WeakKeyDictionary[Schema, dict[tuple[str, str], Scope]] = WeakKeyDictionary()


def scope(call: Call, subresource: str = "") -> Scope:
    """The scope of an endpoint, made once per schema."""
    resource = call.resource
    made = _scopes.setdefault(resource.schema, {})
    key = (resource.group_version, subresource)
    found = made.get(key)
    if found is None:
        separate = "status" in resource.subresources and subresource != "status"
        found = made[key] = scope_of(
            resource.schema,
            resource.group_version,
            subresource,
            ignored=("status",) if separate else (),
            builtin=resource.builtin,
        )
    return found


def created(kernel: Kernel, call: Call, obj: Object) -> list[dict[str, Any]]:
    return created_entries(scope(call), obj, call.field_manager, kernel.timestamp())


def updated(kernel: Kernel, call: Call, new: Object, old: Object, subresource: str) -> None:
    """The author of a change owns what it changed; a change without effect leaves even the times alone."""
    entries = track_update(scope(call, subresource), old, new, call.field_manager, kernel.timestamp())
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)
    keep_times(old, new)


def applied(kernel: Kernel, call: Call, new: Object, old: Object, subresource: str) -> None:
    """Server-side apply has written the entries already."""
    keep_times(old, new)
