"""The scale subresource: three numbers of a workload, as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import invalid as invalid_value
from kube_apimachinery.selectors import from_object
from kube_embedded.base.errors import bad_request, conflict, internal, invalid, no_such_path, stale
from kube_embedded.base.resource import ScalePaths
from kube_embedded.requests.kernel import Call, Kernel, admit
from kube_embedded.requests.writing import update


def scale_of(call: Call, obj: Object) -> Object:
    """The Scale that shows an object."""
    paths = _paths(call)
    meta = obj["metadata"]
    shown = {
        key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if key in meta
    }
    spec: dict[str, Any] = {}
    replicas = _dig(obj, paths.spec)
    if replicas is None and not call.resource.builtin:
        raise internal(f'the spec replicas field ".{".".join(paths.spec)}" does not exist')
    if replicas:
        spec["replicas"] = replicas
    status: dict[str, Any] = {"replicas": _dig(obj, paths.status) or 0}
    selector = _dig(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        selector = str(from_object(selector))
    if selector:
        status["selector"] = selector
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}


async def set_scale(kernel: Kernel, call: Call, scale: Object, retry: bool) -> Object:
    """Write the wanted number of replicas; the answer is the new Scale."""
    paths = _paths(call)
    _check(call, scale)
    record = kernel.existing(call.resource, call.target.namespace, call.target.name)
    scale = await admit(kernel, call, "Scale", scale, scale_of(call, kernel.decode(record, call.resource)))
    meta = scale.get("metadata") or {}
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    replicas = (scale.get("spec") or {}).get("replicas", 0)

    def transform(obj: Object) -> Object:
        held = obj["metadata"]["uid"]
        if uid and uid != held:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held}"
            raise conflict(call.resource.group, call.resource.plural, call.target.name, why)
        if version and version != obj["metadata"]["resourceVersion"]:
            raise stale(call.resource.group, call.resource.plural, call.target.name)
        _plant(obj, paths.spec, replicas)
        return obj

    changed = await update(kernel, call, transform, subresource="scale", retry=retry, asked=True)
    return scale_of(call, changed)


def _check(call: Call, scale: Object) -> None:
    kind = scale.get("kind")
    if kind not in (None, "", "Scale"):
        raise bad_request(f"expected a Scale object, got {kind}")
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(f"spec.replicas: expected a whole number, got {type(replicas).__name__}")
    if replicas < 0:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", call.target.name, [error])


def _paths(call: Call) -> ScalePaths:
    if call.resource.scale is None:
        raise no_such_path()
    return call.resource.scale


def _dig(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def _plant(obj: Object, path: tuple[str, ...], value: int) -> None:
    for key in path[:-1]:
        obj = obj.setdefault(key, {})
    obj[path[-1]] = value
