"""Writes as questions to admission: what is asked, by whom, about which object."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_embedded.requests.kernel import Call, Kernel

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
