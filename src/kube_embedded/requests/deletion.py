"""Delete: preconditions, propagation, grace periods and finalizers.

An object goes at once only when nothing holds it: no finalizer, no grace period, no namespace content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, not_supported
from kube_apimachinery.field_errors import invalid as invalid_value
from kube_apimachinery.times import format_time
from kube_embedded.base.errors import bad_request, conflict, invalid, stale
from kube_embedded.base.store import Record
from kube_embedded.customresources.definition import terminate
from kube_embedded.requests.kernel import Call, Kernel, admit_deletion
from kube_embedded.requests.writing import MAX_ATTEMPTS, is_open_namespace

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Background", "Foreground", "Orphan")
_FINAL_PHASES = ("Succeeded", "Failed")
_DEFAULT_GRACE_S = 30
_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    orphan_dependents: bool | None = None
    dry_run: bool = False

    def shown(self) -> dict[str, Any]:
        """The options as admission is told them."""
        delete_options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace_s is not None:
            delete_options["gracePeriodSeconds"] = self.grace_s
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if any(preconditions.values()):
            delete_options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        if self.propagation:
            delete_options["propagationPolicy"] = self.propagation
        if self.orphan_dependents is not None:
            delete_options["orphanDependents"] = self.orphan_dependents
        if self.dry_run:
            delete_options["dryRun"] = ["All"]
        return delete_options


def parse_options(query: dict[str, str], body: Object | None) -> DeleteOptions:
    """Options from the body, else from the query; what the real server calls invalid is refused in its words."""
    source: dict[str, Any] = dict(query)
    dry_run = query.get("dryRun") == "All"
    if body:
        source = body
        dry_run = dry_run or "All" in (body.get("dryRun") or [])
    if source.get("kind") not in (None, "", "DeleteOptions"):
        raise bad_request(f"expect a DeleteOptions, got {source.get('apiVersion', '')}, Kind={source['kind']}")
    preconditions = (body or {}).get("preconditions") or {}
    grace = source.get("gracePeriodSeconds")
    propagation = source.get("propagationPolicy") or ""
    orphan = source.get("orphanDependents")
    if isinstance(orphan, str):
        orphan = orphan.lower() == "true"
    errors = []
    if propagation and propagation not in _POLICIES:
        detail = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        errors.append(FieldError("propagationPolicy", ErrorType.NOT_SUPPORTED, propagation, detail))
    if propagation and orphan is not None:
        errors.append(
            invalid_value(
                "propagationPolicy", propagation, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    asked = source.get("dryRun") or []
    asked = [asked] if isinstance(asked, str) else asked
    if asked not in ([], ["All"]):
        errors.append(not_supported("dryRun", asked, ("All",)))
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    return DeleteOptions(
        grace_s=int(grace) if grace is not None else None,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=propagation,
        orphan_dependents=orphan,
        dry_run=dry_run,
    )


async def delete(
    kernel: Kernel,
    call: Call,
    options: DeleteOptions,
    *,
    asked: bool = False,
    mark: Callable[[Object], None] | None = None,
) -> tuple[Object, bool]:
    """The object as it was last seen, and whether it is gone.

    `asked`: admission has had its say already. `mark` says on the object why it goes, in the same write.
    """
    resource, target = call.resource, call.target
    if resource.orphans and not options.propagation and options.orphan_dependents is None:
        call.warn(_PRESERVED)
    for _ in range(MAX_ATTEMPTS):
        record = kernel.existing(resource, target.namespace, target.name)
        old = kernel.decode(record, resource)
        _check_preconditions(call, old, options)
        if not asked:
            await admit_deletion(kernel, call, old, options.shown())
        if kernel.record(resource, target.namespace, target.name) is record:
            return _delete_now(kernel, call, record, old, options, mark)
    raise stale(resource.group, resource.plural, target.name)


def _delete_now(
    kernel: Kernel,
    call: Call,
    record: Record,
    old: Object,
    options: DeleteOptions,
    mark: Callable[[Object], None] | None,
) -> tuple[Object, bool]:
    new = kernel.decode(record, call.resource)
    if mark is not None:
        mark(new)
    meta = new["metadata"]
    if call.resource.orphans and not options.propagation and options.orphan_dependents is None:
        options = replace(options, propagation="Orphan")
    finalizers = _finalizers(list(meta.get("finalizers") or ()), options)
    if call.resource.kind == "CustomResourceDefinition" and not record.deleting:
        finalizers = [*finalizers, *terminate(new, kernel.timestamp())]
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    grace_s = _grace(call, new, options)
    held = bool(finalizers) or grace_s > 0 or is_open_namespace(new)
    if not held:
        if call.resource.graceful:
            _mark(kernel, new, 0)
        if not options.dry_run:
            kernel.erase(call.resource, new)
        return new, True
    _mark(kernel, new, grace_s)
    if new == old or options.dry_run:
        return new, False
    return kernel.save(call.resource, new), False


def _mark(kernel: Kernel, obj: Object, grace_s: int) -> None:
    """Set, or bring forward, the time at which an object should be gone."""
    meta = obj["metadata"]
    first = "deletionTimestamp" not in meta
    if obj["kind"] == "CustomResourceDefinition":
        meta.setdefault("deletionTimestamp", format_time(kernel.clock.now()))
    elif first or grace_s < (meta.get("deletionGracePeriodSeconds") or 0):
        if first and "generation" in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = format_time(kernel.clock.now() + grace_s)
        meta["deletionGracePeriodSeconds"] = grace_s
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1":
        meta.pop("deletionGracePeriodSeconds", None)
        obj.setdefault("status", {})["phase"] = "Terminating"


def _finalizers(current: list[str], options: DeleteOptions) -> list[str]:
    orphan = options.propagation == "Orphan" or options.orphan_dependents is True
    foreground = options.propagation == "Foreground"
    if not (orphan or foreground) and not options.propagation and options.orphan_dependents is None:
        return current
    kept = [name for name in current if name not in (FOREGROUND, ORPHAN)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return kept


def _grace(call: Call, obj: Object, options: DeleteOptions) -> int:
    """Seconds a pod is given to stop; one that runs nowhere, or has ended, needs none."""
    if not call.resource.graceful:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _FINAL_PHASES:
        return 0
    grace = options.grace_s
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
    if grace < 0:
        grace = 1
    pending = obj["metadata"].get("deletionGracePeriodSeconds")
    if pending is not None and "deletionTimestamp" in obj["metadata"]:
        grace = min(grace, pending)
    return int(grace)


def _check_preconditions(call: Call, old: Object, options: DeleteOptions) -> None:
    resource, meta = call.resource, old["metadata"]
    if options.uid and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(resource.group, resource.plural, meta["name"], why)
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(resource.group, resource.plural, meta["name"], why)
