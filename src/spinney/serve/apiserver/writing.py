"""Create and update: the way of an object from a request body into the store.

Order, as in Kubernetes: conform to the schema, default, prepare, own fields, mutating admission, validate, validating
admission, store. Nothing is stored before the last step; a write that raced with another one is tried anew or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spinney.api.admission import AdmissionRequest
from spinney.api.field_errors import required
from spinney.serve.apiserver import ownership
from spinney.serve.apiserver.builtins.metadata import SUBDOMAIN, validate_metadata, validate_metadata_update
from spinney.serve.apiserver.errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    stale,
)
from spinney.serve.apiserver.kernel import Call, Kernel
from spinney.serve.apiserver.registry import collection_of
from spinney.serve.apiserver.resource import Object
from spinney.serve.apiserver.shaping import conform
from spinney.serve.apiserver.stamps import generated_name, new_uid
from spinney.serve.apiserver.store import Record

MAX_ATTEMPTS = 5
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)

Transform = Callable[[Object], Object]
"""The current object (a copy that may be changed) to the wanted one."""


async def create(kernel: Kernel, call: Call, obj: Object, *, owned: bool = False) -> Object:
    """Store a new object and return it; a generated name that is taken is drawn again.

    With `owned` the managedFields in the object are those of a server-side apply and stay.
    """
    for attempt in range(MAX_ATTEMPTS + 1):
        candidate = obj if attempt == 0 else {**obj, "metadata": {**obj["metadata"], "name": ""}}
        generated = not (candidate.get("metadata") or {}).get("name")
        try:
            return await _create_once(kernel, call, candidate, owned)
        except ApiError as error:
            if error.reason != "AlreadyExists" or not generated or attempt == MAX_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def _create_once(kernel: Kernel, call: Call, obj: Object, owned: bool) -> Object:
    resource = call.resource
    strategy = resource.strategy
    check_identity(call, obj)
    conform(call, obj)
    entries = obj["metadata"].get("managedFields") if owned else None
    meta = _new_metadata(kernel, call, obj)
    context = kernel.context()
    strategy.default(obj)
    if resource.plain_metadata:
        meta["generation"] = 1
    strategy.prepare_create(obj, context)
    if kernel.record(resource, meta.get("namespace", ""), meta["name"]) is not None:
        raise already_exists(resource.group, resource.plural, meta["name"])
    meta["managedFields"] = entries if entries is not None else ownership.created(kernel, call, obj)
    request = None
    if not kernel.admission.is_idle(_probe(call, "CREATE", obj)):
        request = admission_request(kernel, call, "CREATE", obj, None)
        changed = await kernel.admission.mutate(request, call.warn)
        if changed is not None and changed is not obj:
            obj = changed
            meta = obj["metadata"]
            request = replace(request, object=obj)
    errors = strategy.validate_create(obj)
    if resource.plain_metadata:
        errors = validate_metadata(obj, resource.namespaced, SUBDOMAIN) + errors
    if errors:
        raise invalid(resource.group, resource.kind, meta["name"], errors)
    if request is not None:
        await kernel.admission.validate(request, call.warn)
        if kernel.record(resource, meta.get("namespace", ""), meta["name"]) is not None:
            raise already_exists(resource.group, resource.plural, meta["name"])
    return obj if call.dry_run else kernel.save(resource, obj)


def check_identity(call: Call, obj: Object) -> None:
    """Kind, version, name and namespace of the body must be those of the path."""
    resource, target = call.resource, call.target
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request("metadata: Invalid value: must be an object")
    obj["apiVersion"], obj["kind"] = resource.group_version, resource.kind
    namespace = meta.get("namespace") or ""
    if resource.namespaced:
        if namespace and namespace != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = target.namespace
    elif namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta.pop("namespace", None)


def _new_metadata(kernel: Kernel, call: Call, obj: Object) -> dict[str, Any]:
    meta: dict[str, Any] = obj["metadata"]
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for key in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
        meta.pop(key, None)
    if not meta.get("name"):
        prefix = meta.get("generateName")
        if prefix:
            meta["name"] = generated_name(prefix, kernel.dice)
        else:
            resource = call.resource
            raise invalid(
                resource.group, resource.kind, "", [required("metadata.name", "name or generateName is required")]
            )
    meta["uid"] = new_uid(kernel.dice)
    meta["creationTimestamp"] = kernel.timestamp()
    return meta


async def update(
    kernel: Kernel,
    call: Call,
    transform: Transform,
    *,
    subresource: str = "",
    own: ownership.Own | None = None,
    retry: bool = False,
) -> Object:
    """Change the object that the path names; with `retry`, a lost race is run again on the newer object."""
    resource, target = call.resource, call.target
    for attempt in range(MAX_ATTEMPTS):
        record = kernel.existing(resource, target.namespace, target.name)
        old = kernel.decode(record, resource)
        new = transform(kernel.decode(record, resource))
        done = await _update_once(kernel, call, record, old, new, subresource, own or ownership.updated)
        if done is not None:
            return done
        if not retry and attempt == 0:
            raise stale(resource.group, resource.plural, target.name)
    raise stale(resource.group, resource.plural, target.name)


async def _update_once(
    kernel: Kernel, call: Call, record: Record, old: Object, new: Object, subresource: str, own: ownership.Own
) -> Object | None:
    """The stored object, or None when somebody else wrote in between."""
    resource = call.resource
    strategy = resource.strategy
    check_identity(call, new)
    _check_versions(call, new, old)
    conform(call, new)
    strategy.default(new)
    context = kernel.context()
    _keep_metadata(new, old)
    if subresource == "status":
        strategy.prepare_status_update(new, old, context)
    else:
        strategy.prepare_update(new, old, context)
        _set_generation(strategy.generation_changes(new, old), new, old)
    own(kernel, call, new, old, subresource)
    request = None
    if not kernel.admission.is_idle(_probe(call, "UPDATE", new)):
        request = admission_request(kernel, call, "UPDATE", new, old)
        changed = await kernel.admission.mutate(request, call.warn)
        if changed is not None and changed is not new:
            new = changed
            _keep_metadata(new, old)
            if subresource == "status":
                strategy.prepare_status_update(new, old, context)
            else:
                strategy.prepare_update(new, old, context)
                _set_generation(strategy.generation_changes(new, old), new, old)
            request = replace(request, object=new)
    check = strategy.validate_status_update if subresource == "status" else strategy.validate_update
    errors = check(new, old)
    if resource.plain_metadata:
        errors = validate_metadata_update(new, old, resource.namespaced, SUBDOMAIN) + errors
    if errors:
        raise invalid(resource.group, resource.kind, new["metadata"]["name"], errors)
    if request is not None:
        await kernel.admission.validate(request, call.warn)
        if kernel.record(resource, record.namespace, record.name) is not record:
            return None
    return settle(kernel, call, new, old)


def settle(kernel: Kernel, call: Call, new: Object, old: Object) -> Object:
    """Store a changed object; nothing changed means nothing written; a dying object without finalizers is gone."""
    meta = new["metadata"]
    meta["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old or call.dry_run:
        return new
    if "deletionTimestamp" in meta and not meta.get("finalizers") and not _lingers(new):
        kernel.erase(call.resource, new)
        return new
    return kernel.save(call.resource, new)


def _lingers(obj: Object) -> bool:
    """Whether a dying object without finalizers stays: in its grace period, or a namespace that is not finalized."""
    if (obj["metadata"].get("deletionGracePeriodSeconds") or 0) > 0:
        return True
    return obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and bool((obj.get("spec") or {}).get("finalizers"))


def _check_versions(call: Call, new: Object, old: Object) -> None:
    resource, meta, current = call.resource, new["metadata"], old["metadata"]
    name = meta.get("name") or ""
    if name != call.target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.target.name})"
            if name
            else "name must be provided"
        )
    uid = meta.get("uid")
    if uid and uid != current["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current['uid']}"
        raise conflict(resource.group, resource.plural, name, why)
    version = meta.get("resourceVersion")
    if version in (None, "", "0"):
        return
    if version != current["resourceVersion"]:
        if not str(version).isdigit():
            raise bad_request(f'metadata.resourceVersion: Invalid value: "{version}": must be a number')
        raise stale(resource.group, resource.plural, name)


def _keep_metadata(new: Object, old: Object) -> None:
    meta, current = new["metadata"], old["metadata"]
    for key in _SERVER_OWNED:
        if key in current:
            meta[key] = current[key]
        else:
            meta.pop(key, None)


def _set_generation(changes: bool, new: Object, old: Object) -> None:
    if changes and "generation" in old["metadata"]:
        new["metadata"]["generation"] = old["metadata"]["generation"] + 1


def _probe(call: Call, operation: str, obj: Object) -> AdmissionRequest:
    """The request without objects and uid: enough to ask whether anybody wants to see it."""
    resource, target = call.resource, call.target
    return AdmissionRequest(
        uid="",
        operation=operation,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        resource=resource.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=obj["metadata"].get("name", "") if obj else target.name,
        user=call.identity.name,
        groups=call.identity.groups,
        object=obj,
        old_object=None,
        dry_run=call.dry_run,
    )


def admission_request(
    kernel: Kernel, call: Call, operation: str, obj: Object | None, old: Object | None
) -> AdmissionRequest:
    resource, target = call.resource, call.target
    subject = obj if obj is not None else old
    return AdmissionRequest(
        uid=new_uid(kernel.dice),
        operation=operation,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        resource=resource.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=(subject or {}).get("metadata", {}).get("name", target.name),
        user=call.identity.name,
        groups=call.identity.groups,
        object=obj,
        old_object=old,
        dry_run=call.dry_run,
        options=_options(call, operation),
    )


async def admit(kernel: Kernel, call: Call, name: str, kind: str, obj: Object) -> None:
    """Ask the rules about an object that is sent to a subresource and not stored itself."""
    resource, target = call.resource, call.target
    request = AdmissionRequest(
        "",
        "CREATE",
        resource.group,
        resource.version,
        kind,
        resource.plural,
        target.subresource,
        target.namespace,
        name,
        call.identity.name,
        call.identity.groups,
        obj,
        None,
        call.dry_run,
    )
    if not kernel.admission.is_idle(request):
        await kernel.admission.mutate(request, call.warn)
        await kernel.admission.validate(request, call.warn)


def _options(call: Call, operation: str) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"}
    if call.query.get("fieldManager"):
        options["fieldManager"] = call.query["fieldManager"]
    if call.query.get("fieldValidation"):
        options["fieldValidation"] = call.query["fieldValidation"]
    if call.dry_run:
        options["dryRun"] = ["All"]
    return options


async def delete_check(kernel: Kernel, call: Call, old: Object) -> None:
    """Ask the validating rules whether an object may go."""
    if kernel.admission.is_idle(_probe(call, "DELETE", old)):
        return
    request = admission_request(kernel, call, "DELETE", None, old)
    await kernel.admission.mutate(request, call.warn)
    await kernel.admission.validate(request, call.warn)


def require_record(kernel: Kernel, call: Call) -> Record:
    record = kernel.store.get(collection_of(call.resource), call.target.namespace, call.target.name)
    if record is None:
        raise not_found(call.resource.group, call.resource.plural, call.target.name)
    return record
