"""The annotation in which kubectl keeps what it applied client-side, for objects that move to server-side apply.

Only the manager named `kubectl` has this: fields that still are as it last applied them are its own to take over, and
the annotation follows what it applies.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kube_embedded.apply.comparison import compare
from kube_embedded.apply.conflicts import Conflict
from kube_embedded.apply.fieldset import FieldSet, difference, has
from kube_embedded.apply.owned_fields import configured
from kube_embedded.apply.ownership import Scope

Object = dict[str, Any]

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES = 256 * 1024


def not_its_own(conflicts: list[Conflict], live: Object, scope: Scope) -> list[Conflict]:
    """The conflicts that are left when what kubectl last applied client-side counts as its own."""
    own = _still_applied(live, scope)
    return [conflict for conflict in conflicts if not has(own, conflict.path)]


def _still_applied(live: Object, scope: Scope) -> FieldSet:
    written = _annotation(live)
    if not written:
        return {}
    try:
        last = msgspec.json.decode(written)
    except msgspec.DecodeError:
        return {}
    if type(last) is not dict or last.get("apiVersion") != scope.api_version:
        return {}
    changes = compare(last, live, scope.layout)
    own = configured(last, scope.layout)
    for gone in (changes.modified, changes.added, changes.removed):
        own = difference(own, gone)
    return own


def follow(obj: Object, applied: Object) -> None:
    """Write what was applied into the annotation of the object, if it has one."""
    if not _annotation(obj):
        return
    meta = dict(applied.get("metadata", {}))
    annotations = {name: value for name, value in (meta.get("annotations") or {}).items() if name != ANNOTATION}
    meta["annotations"] = annotations
    if not annotations:
        meta.pop("annotations")
    written = msgspec.json.encode({**applied, "metadata": meta}, order="deterministic").decode() + "\n"
    kept = {**obj["metadata"]["annotations"], ANNOTATION: written}
    if sum(len(name) + len(value) for name, value in kept.items()) > _MAX_ANNOTATIONS_BYTES:
        kept.pop(ANNOTATION)
    obj["metadata"]["annotations"] = kept


def _annotation(obj: Object) -> str:
    annotations = obj.get("metadata", {}).get("annotations") or {}
    found = annotations.get(ANNOTATION)
    return found if type(found) is str else ""
