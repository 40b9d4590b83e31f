"""What cannot change once a deployment is there (D8, 2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid
from spinney.api.labels import DYNAMO_WORKLOAD_PROVIDER
from spinney.core.admission.decoding import items, part

_RECREATE = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change "
)
_ADAPTER = (
    "cannot be modified directly when scaling adapter is enabled; "
    "scale or update the related DynamoGraphDeploymentScalingAdapter instead"
)


def change_errors(obj: Object, old: Object, may_scale: bool, is_operator: bool) -> Iterator[FieldError]:
    """Everything that the change may not change. `may_scale`: also what an adapter owns."""
    new_spec, old_spec = part(obj, "spec"), part(old, "spec")
    yield from _provider(obj, old, is_operator)
    yield from _fixed(new_spec, old_spec, "topologyConstraint", "spec.topologyConstraint", "topology constraints")
    yield from _members(new_spec, old_spec)
    before = {one.get("name"): one for one in items(old_spec.get("components"))}
    for index, component in enumerate(items(new_spec.get("components"))):
        was = before.get(component.get("name"))
        if was is not None:
            yield from _component(component, was, f"spec.components[{index}]", may_scale)
    now, then = (part(spec, "experimental") for spec in (new_spec, old_spec))
    path = "spec.experimental.kvTransferPolicy"
    yield from _fixed(now, then, "kvTransferPolicy", path, "the KV transfer policy")
    if new_spec.get("backendFramework", "") != old_spec.get("backendFramework", ""):
        value = new_spec.get("backendFramework", "")
        yield invalid("spec.backendFramework", value, "is immutable and cannot be changed after creation")
    yield from _override(new_spec, old_spec, "spec")


def change_warnings(obj: Object, old: Object) -> Iterator[str]:
    if part(obj, "spec").get("backendFramework", "") != part(old, "spec").get("backendFramework", ""):
        yield "Changing spec.backendFramework may cause unexpected behavior"


def _fixed(now: Object, then: Object, key: str, path: str, what: str) -> Iterator[FieldError]:
    if _given(now.get(key)) != _given(then.get(key)):
        yield invalid(path, now.get(key), _RECREATE + what)


def _given(value: Any) -> Any:
    return {key: one for key, one in value.items() if one != ""} if isinstance(value, dict) else value


def _members(now: Object, then: Object) -> Iterator[FieldError]:
    new = {str(one.get("name")) for one in items(now.get("components"))}
    old = {str(one.get("name")) for one in items(then.get("components"))}
    parts = [
        f"components {verb}: [{' '.join(sorted(names))}]"
        for verb, names in (("added", new - old), ("removed", old - new))
        if names
    ]
    if parts:
        text = "component topology is immutable and cannot be modified after creation: "
        yield forbidden("spec.components", text + ", ".join(parts))


def _provider(obj: Object, old: Object, is_operator: bool) -> Iterator[FieldError]:
    """Who renders a deployment was decided with its creation; an old one may be told by the operator."""
    now, then = (part(one, "metadata", "annotations").get(DYNAMO_WORKLOAD_PROVIDER) for one in (obj, old))
    if now != then and not (then is None and is_operator):
        yield invalid(f"metadata.annotations[{DYNAMO_WORKLOAD_PROVIDER}]", now, "field is immutable")


def _component(now: Object, then: Object, path: str, may_scale: bool) -> Iterator[FieldError]:
    yield from _fixed(now, then, "topologyConstraint", f"{path}.topologyConstraint", "topology constraints")
    if bool(now.get("multinode")) != bool(then.get("multinode")):
        text = "cannot change node topology between single-node and multi-node after creation"
        yield invalid(f"{path}.multinode", now.get("multinode"), text)
    grove, grove_then = (part(one, "experimental", "grove") for one in (now, then))
    if bool(grove.get("forceScalingGroup")) != bool(grove_then.get("forceScalingGroup")):
        where = f"{path}.experimental.grove.forceScalingGroup"
        yield invalid(where, bool(grove.get("forceScalingGroup")), "is immutable and cannot be changed after creation")
    if (now.get("minAvailable") or 1) != (then.get("minAvailable") or 1):
        yield invalid(f"{path}.minAvailable", now.get("minAvailable"), "minAvailable is immutable after creation")
    owned = now.get("scalingAdapter") is not None and then.get("scalingAdapter") is not None
    if owned and not may_scale and now.get("replicas", 1) != then.get("replicas", 1):
        yield forbidden(f"{path}.replicas", _ADAPTER)
    yield from _override(now, then, path)
    for role in ("leader", "worker"):
        yield from _override(part(now, "multinode", role), part(then, "multinode", role), f"{path}.multinode.{role}")


def _override(now: Object, then: Object, path: str) -> Iterator[FieldError]:
    """May come and go; what it is meant for stays."""
    new, old = now.get("providerOverride"), then.get("providerOverride")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return
    for key in ("apiVersion", "target"):
        if new.get(key) != old.get(key):
            yield invalid(f"{path}.providerOverride.{key}", new.get(key), "field is immutable")
