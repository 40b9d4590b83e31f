"""Patch: the four ways to say a change, and server-side apply among them."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import forbidden, required
from kube_embedded.apply import apply as apply_server_side
from kube_embedded.base.errors import ApiError, bad_request, conflict, invalid, unsupported_media_type
from kube_embedded.base.http import is_true
from kube_embedded.patch import json_patch, merge_patch, strategic_merge_patch
from kube_embedded.requests import writing
from kube_embedded.requests.bodies import media_type, off_loop_if_long, read_patch
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.requests.writing import Transform, create, update

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


async def patch(kernel: Kernel, call: Call, body: bytes, subresource: str) -> tuple[Object, bool]:
    """The changed object, and whether it is new (only an apply creates)."""
    kind = media_type(call.content_type)
    _check(call, kind)
    if kind == APPLY_PATCH:
        return await _apply(kernel, call, body, subresource)
    transform = transformation(call, kind, read_patch(body))
    return await update(kernel, call, transform, subresource=subresource, retry=True, patched=True), False


def transformation(call: Call, kind: str, change: Any) -> Transform:
    """The patch as a function from the current object to the wanted one."""
    if kind == JSON_PATCH:
        return lambda obj: _object(json_patch(obj, change))
    if kind == MERGE_PATCH:
        return lambda obj: merge_patch(obj, change)
    return lambda obj: strategic_merge_patch(obj, change, call.resource.schema)


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bad_request("the patch does not leave an object behind")
    return value


def _check(call: Call, kind: str) -> None:
    allowed = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if call.resource.builtin:
        allowed.insert(2, STRATEGIC_PATCH)
    if kind not in allowed:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(allowed)
        )
    if kind == APPLY_PATCH and not call.query.get("fieldManager"):
        error = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [error])
    if kind != APPLY_PATCH and "force" in call.query:
        error = forbidden("force", "may not be specified for non-apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [error])


def _check_name(call: Call, config: Object) -> None:
    meta = config.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not name:
        shown = call.target.name
        why = f"the name of the object ({shown} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if name != call.target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.target.name})")


async def _apply(kernel: Kernel, call: Call, body: bytes, subresource: str) -> tuple[Object, bool]:
    config = await off_loop_if_long(lambda: read_patch(body, yaml=True), body, call.content_type)
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: expected an object")
    resource, target = call.resource, call.target
    scope = writing.scope(call, subresource)
    force = is_true(call.query.get("force"))
    _check_name(call, config)

    def applied(live: Object | None) -> Object:
        return apply_server_side(scope, live, config, call.field_manager, kernel.timestamp(), force=force)[0]

    if kernel.record(resource, target.namespace, target.name) is None and not subresource:
        uid = config["metadata"].get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(resource.group, resource.plural, target.name, why)
        try:
            return await create(kernel, call, applied(None), owned=True), True
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise  # else somebody made it meanwhile: merge into theirs
    return await update(
        kernel, call, applied, subresource=subresource, own=writing.applied, retry=True, patched=True
    ), False
