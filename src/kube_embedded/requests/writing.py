"""Create and update: the way of an object from a request body into the store.

Order, as in Kubernetes: conform to the schema, default, own fields, mutating admission, prepare, validate, validating
admission, store. Nothing is stored before the last step; a write that raced with another one is tried anew or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, required
from kube_apimachinery.field_errors import invalid as invalid_value
from kube_apimachinery.generated_names import generated_name
from kube_embedded.apply import Scope, keep_times, scope_of, track_update
from kube_embedded.apply.ownership import Owned
from kube_embedded.base.errors import ApiError, already_exists, bad_request, conflict, forbidden, invalid, stale
from kube_embedded.base.generated_metadata import new_uid
from kube_embedded.base.http import decode_json, encode_json
from kube_embedded.base.resource import Resource
from kube_embedded.base.store import Record
from kube_embedded.builtins import decode
from kube_embedded.builtins.common.metadata import SUBDOMAIN, validate_metadata, validate_metadata_update
from kube_embedded.customresources.strategy import metadata_error
from kube_embedded.requests.kernel import Call, Kernel, admission_request
from kube_embedded.requests.pod_template_cache import CachedPod
from kube_embedded.schema.model import Schema
from kube_embedded.schema.shaping import prune

# Who owns which fields after a write: the endpoint's scope, and the three ways to own.

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


# The body of a write in the shape of its kind, and what did not belong there.


def shape(resource: Resource, obj: Object) -> None:
    """Drop what does not belong and refuse wrong types: for objects that a webhook has changed."""
    if resource.builtin:
        findings = decode.conform(obj, resource.schema_name)
        error = decode.refusal(findings, resource.version, resource.kind, strict=False)
        if error is not None:
            raise error
    else:
        prune(obj, resource.schema)


def conform(call: Call, obj: Object, original: Object | None = None) -> None:
    """Check types and drop unknown fields; by the wish of the client they are an error, a warning or nothing.

    `original`: a stored object some of whose parts it has.
    """
    resource = call.resource
    mode = call.query.get("fieldValidation") or "Warn"
    if resource.builtin:
        findings = decode.conform(obj, resource.schema_name, original)
        error = decode.refusal(findings, resource.version, resource.kind, strict=mode == "Strict")
        if error is not None:
            raise error
        unknown: tuple[str, ...] | list[str] = findings.unknown
    else:
        unknown = prune(obj, resource.schema)
        complaint = metadata_error(obj, resource.schema, original)
        if complaint:
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {complaint}'
            )
        _fill_nulls(obj.get("metadata") or {})
        if unknown and mode == "Strict":
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
    if unknown and mode == "Warn":
        for path in unknown:
            call.warn(f'unknown field "{path}"')


def _fill_nulls(metadata: Object) -> None:
    """A null in a list is the empty value of its type to Kubernetes; whether that will do is for the rules to say."""
    for field, empty in (("finalizers", ""), ("ownerReferences", {})):
        if metadata.get(field):
            metadata[field] = [empty if one is None else one for one in metadata[field]]


MAX_ATTEMPTS = 5
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_OMITTED_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
_NO_VERSION = (None, "", "0")

Transform = Callable[[Object], Object]
"""The current object (a copy that may be changed) to the wanted one."""


async def create(kernel: Kernel, call: Call, obj: Object, *, owned: bool = False) -> Object:
    """Store a new object and return it.

    With `owned` the managedFields in the object are those of a server-side apply and stay.
    """
    resource, strategy = call.resource, call.resource.strategy
    if resource.terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.group, resource.plural, (obj.get("metadata") or {}).get("name", ""), why)
    check_identity(call, obj)
    conform(call, obj)
    strategy.default(obj)
    entries = obj["metadata"].get("managedFields") if owned else None
    _drop_server_owned(obj["metadata"], owned)
    if entries is None:
        entries = created(kernel, call, obj)
    if entries:
        obj["metadata"]["managedFields"] = entries
    request = admission_request(call, "CREATE", obj, None)
    asked = not kernel.admission.is_idle(request)
    if asked:
        obj = await kernel.admission.mutate(request, call.warn) or obj
    generated = _stamp(kernel, call, obj)
    if resource.plain_metadata:
        obj["metadata"]["generation"] = 1
    strategy.prepare_create(obj, kernel.context())
    _refuse(call, obj, _creation_errors(call, obj))
    if asked:
        await kernel.admission.validate(admission_request(call, "CREATE", obj, None), call.warn)
    _check_free(kernel, call, obj, generated)
    return obj if call.dry_run else kernel.save(resource, obj)


def create_from_template(kernel: Kernel, call: Call, repeat: CachedPod) -> Record:
    """As `create`, for a pod whose spec has been through all of it: what depends on the spec alone is known."""
    resource, meta = call.resource, repeat.metadata
    obj: Object = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": meta}
    check_identity(call, obj)
    _drop_server_owned(meta, owned=False)
    meta["managedFields"] = created_from_template(kernel, call, meta, repeat.known.owned)
    generated = _stamp(kernel, call, obj)
    obj["spec"] = repeat.known.spec
    resource.strategy.prepare_create(obj, kernel.context())
    obj["spec"] = repeat.spec
    _refuse(call, obj, validate_metadata(obj, resource.namespaced, SUBDOMAIN))
    _check_free(kernel, call, obj, generated)
    record = kernel.to_record(resource, obj, repeat.known.selectable)
    kernel.store.write(resource.collection, record)
    return record


def check_identity(call: Call, obj: Object) -> None:
    """Kind, version and namespace of the body must be those of the path."""
    resource, target = call.resource, call.target
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        found = {str: "string", list: "array", bool: "bool"}.get(type(meta), "number")
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"json: cannot unmarshal {found} into Go struct field {resource.kind}.metadata of type v1.ObjectMeta"
        )
    if resource.builtin:
        obj["apiVersion"], obj["kind"] = resource.group_version, resource.kind
    namespace = meta.get("namespace") or ""
    if resource.namespaced and namespace and namespace != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if resource.namespaced:
        meta["namespace"] = target.namespace
    else:
        meta.pop("namespace", None)
    if not resource.builtin:
        for key in _OMITTED_EMPTY:
            if key in meta and not meta[key]:
                del meta[key]


def _drop_server_owned(meta: dict[str, Any], owned: bool) -> None:
    if meta.get("resourceVersion") not in _NO_VERSION and not owned:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    for key in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
        meta.pop(key, None)


def _stamp(kernel: Kernel, call: Call, obj: Object) -> bool:
    """Give a new object its name, uid and time; whether the name was drawn."""
    meta = obj["metadata"]
    generated = False
    if not meta.get("name"):
        prefix = meta.get("generateName")
        if not prefix:
            _refuse(call, obj, [required("metadata.name", "name or generateName is required")])
        meta["name"] = generated_name(prefix, kernel.dice)
        generated = True
    meta["uid"] = new_uid(kernel.dice)
    meta["creationTimestamp"] = kernel.timestamp()
    return generated


def _check_free(kernel: Kernel, call: Call, obj: Object, generated: bool) -> None:
    """No object of that name yet; a drawn name that is taken is drawn again."""
    resource, meta = call.resource, obj["metadata"]
    for _ in range(MAX_ATTEMPTS):
        if kernel.record(resource, meta.get("namespace", ""), meta["name"]) is None:
            return
        if not generated:
            break
        meta["name"] = generated_name(meta["generateName"], kernel.dice)
    error = already_exists(resource.group, resource.plural, meta["name"])
    existing = kernel.record(resource, meta.get("namespace", ""), meta["name"])
    if existing is not None and existing.deleting:
        error.message = f"object is being deleted: {error.message}"
    raise error


def _creation_errors(call: Call, obj: Object) -> list[FieldError]:
    errors = call.resource.strategy.validate_create(obj)
    if call.resource.plain_metadata:
        errors = validate_metadata(obj, call.resource.namespaced, SUBDOMAIN, any_finalizer=True) + errors
    return errors


def _update_errors(call: Call, new: Object, old: Object, subresource: str) -> list[FieldError]:
    strategy = call.resource.strategy
    check = strategy.validate_status_update if subresource == "status" else strategy.validate_update
    errors = check(new, old)
    if call.resource.plain_metadata:
        errors = validate_metadata_update(new, old, call.resource.namespaced, SUBDOMAIN, any_finalizer=True) + errors
    return errors


def _refuse(call: Call, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(call.resource.group, call.resource.kind, obj["metadata"].get("name") or "", errors)


async def update(
    kernel: Kernel,
    call: Call,
    transform: Transform,
    *,
    subresource: str = "",
    own: Own | None = None,
    retry: bool = False,
    asked: bool = False,
    patched: bool = False,
) -> Object:
    """Change the object that the path names; with `retry`, a lost race is run again on the newer object.

    `asked`: admission has had its say already, about what was sent to a subresource. `patched`: what does not conform
    is the fault of a patch.
    """
    resource, target = call.resource, call.target
    for _ in range(MAX_ATTEMPTS):
        record = kernel.existing(resource, target.namespace, target.name)
        old = kernel.decode(record, resource)
        original = kernel.decode(record, resource)
        new = transform(original)
        if patched:
            _conform_patched(call, new, original)
        check_identity(call, new)
        _check_versions(call, new, old)
        if not patched:
            conform(call, new)
        done = await _update_once(kernel, call, record, old, new, subresource, own or updated, asked)
        if done is not None:
            return done
        if not retry:
            break
    raise stale(resource.group, resource.plural, target.name)


def _conform_patched(call: Call, obj: Object, original: Object) -> None:
    """A patch may leave something that is no object of the kind any more: that is invalid, not malformed."""
    resource = call.resource
    found = (obj.get("apiVersion"), obj.get("kind"))
    why = ""
    if found != (resource.group_version, resource.kind):
        why = f'no kind "{found[1]}" is registered for version "{found[0]}"'
    else:
        try:
            conform(call, obj, original)
        except ApiError as error:
            if error.code != 400:
                raise
            why = error.message
    uid = obj["metadata"].get("uid") if isinstance(obj.get("metadata"), dict) else None
    if not why and uid and uid != original["metadata"]["uid"]:
        _refuse(call, obj, [invalid_value("metadata.uid", uid, "field is immutable")])
    if why:
        shown = encode_json({key: obj[key] for key in sorted(obj)}).decode()
        raise invalid("", "", "", [invalid_value("patch", shown, why)])


async def _update_once(
    kernel: Kernel,
    call: Call,
    record: Record,
    old: Object,
    new: Object,
    subresource: str,
    own: Own,
    decided: bool,
) -> Object | None:
    """The stored object, or None when somebody else wrote in between."""
    call.resource.strategy.default(new)
    _keep_metadata(new, old)
    own(kernel, call, new, old, subresource)
    request = admission_request(call, "UPDATE", new, old)
    asked = not decided and not kernel.admission.is_idle(request)
    if asked:
        new = await kernel.admission.mutate(request, call.warn) or new
        _keep_metadata(new, old)
    _prepare(kernel, call, new, old, subresource)
    _refuse(call, new, _update_errors(call, new, old, subresource))
    if asked:
        await kernel.admission.validate(admission_request(call, "UPDATE", new, old), call.warn)
        if kernel.record(call.resource, record.namespace, record.name) is not record:
            return None
    return save_changed(kernel, call, new, old)


def _prepare(kernel: Kernel, call: Call, new: Object, old: Object, subresource: str) -> None:
    strategy = call.resource.strategy
    if subresource == "status":
        strategy.prepare_status_update(new, old, kernel.context())
    else:
        strategy.prepare_update(new, old, kernel.context())
        if strategy.generation_changes(new, old) and "generation" in old["metadata"]:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
    settle_times(old, new)


def save_changed(kernel: Kernel, call: Call, new: Object, old: Object) -> Object:
    """Store a changed object; nothing changed means nothing written; a dying object without finalizers is gone."""
    meta = new["metadata"]
    meta["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old or call.dry_run:
        return new
    if "deletionTimestamp" in meta and not meta.get("finalizers") and not is_kept_while_deleting(new):
        kernel.erase(call.resource, new)
        return new
    return kernel.save(call.resource, new)


def is_kept_while_deleting(obj: Object) -> bool:
    """Whether a dying object without finalizers stays: in its grace period, or a namespace that is not finalized."""
    if (obj["metadata"].get("deletionGracePeriodSeconds") or 0) > 0:
        return True
    return is_open_namespace(obj)


def is_open_namespace(obj: Object) -> bool:
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
    if version in _NO_VERSION:
        if not resource.unconditional_update:
            _refuse(call, new, [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")])
        meta["resourceVersion"] = current["resourceVersion"]
    elif version != current["resourceVersion"]:
        raise stale(resource.group, resource.plural, name)


def _keep_metadata(new: Object, old: Object) -> None:
    meta, current = new["metadata"], old["metadata"]
    for key in _SERVER_OWNED:
        if key in current:
            meta[key] = current[key]
        else:
            meta.pop(key, None)
