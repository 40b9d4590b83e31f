"""What an update may change in a pod that exists: very little, unless the pod is still gated."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import MAX_INT32, check_subdomain, immutable
from kube_embedded.builtins.common.go_internal_format import GoInternal
from kube_embedded.builtins.pod.placement import check_tolerations
from kube_embedded.builtins.pod.spec import check_images, check_pod_spec

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check_pod_update(obj: Object, old: Object) -> list[FieldError]:
    spec, was = obj["spec"], old["spec"]
    if spec == was:
        return []
    errors = check_pod_spec(spec) + check_images(spec)
    for name in ("containers", "initContainers"):
        found, stop = _check_container_count(spec.get(name) or [], was.get(name) or [], f"spec.{name}")
        errors += found
        if stop:
            return errors
    errors += _check_deadline(spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds"))
    errors += _check_added_tolerations(spec.get("tolerations") or [], was.get("tolerations") or [])
    errors += _check_removed_gates(spec.get("schedulingGates") or [], was.get("schedulingGates") or [])
    return errors + _check_nothing_else(spec, was)


def _check_container_count(new: list[Object], old: list[Object], path: str) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors: list[FieldError] = []
    for index, container in enumerate(new):
        image = container.get("image", "")
        if not image:
            errors.append(required(f"{path}[{index}].image"))
        elif image != image.strip():
            errors.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))
    return errors, False


def _check_deadline(new: int | None, old: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid(path, None, detail)]
    if not 0 <= new <= MAX_INT32:
        return [invalid(path, new, f"must be between 0 and {MAX_INT32}, inclusive")]
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _check_added_tolerations(new: list[Object], old: list[Object]) -> list[FieldError]:
    plain = [{**one, "tolerationSeconds": None} for one in new]
    if any({**one, "tolerationSeconds": None} not in plain for one in old):
        return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    return check_tolerations("spec.tolerations", new)


def _check_removed_gates(new: list[Object], old: list[Object]) -> list[FieldError]:
    known = {one["name"] for one in old}
    words = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden(f"spec.schedulingGates[{index}].name", f"{words} '{one['name']}'")
        for index, one in enumerate(new)
        if one["name"] not in known
    ]


def _check_nothing_else(spec: Object, was: Object) -> list[FieldError]:
    munged = dict(spec)
    for name in ("containers", "initContainers"):
        if munged.get(name):
            munged[name] = [_with_image(new, old) for new, old in zip(munged[name], was[name], strict=True)]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(munged, was, name)
    if was.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        _take(munged, was, "terminationGracePeriodSeconds")
    errors = _allow_tightening(munged, was) if was.get("schedulingGates") else []
    if munged != was:
        changed = ", ".join(sorted(key for key in munged.keys() | was.keys() if munged.get(key) != was.get(key)))
        detail = f"pod updates may not change fields other than {UPDATABLE}\nchanged: {changed}"
        errors.append(forbidden("spec", detail))
    return errors


def _with_image(new: Object, old: Object) -> Object:
    return {**new, "image": old.get("image", "")}


def _take(munged: Object, was: Object, name: str) -> None:
    if name in was:
        munged[name] = was[name]
    else:
        munged.pop(name, None)


def _allow_tightening(munged: Object, was: Object) -> list[FieldError]:
    """A gated pod may be told more about where it must go, never less."""
    errors: list[FieldError] = []
    new_selector, old_selector = munged.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if any(new_selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", new_selector, detail))
    _take(munged, was, "nodeSelector")
    new_affinity = (munged.get("affinity") or {}).get("nodeAffinity")
    old_affinity = (was.get("affinity") or {}).get("nodeAffinity")
    if new_affinity != old_affinity:
        errors += _check_affinity_change(new_affinity or {}, old_affinity or {})
        rest = {key: value for key, value in (munged.get("affinity") or {}).items() if key != "nodeAffinity"}
        if old_affinity is not None:
            rest["nodeAffinity"] = old_affinity
        if rest or "affinity" in was:
            munged["affinity"] = rest
        else:
            munged.pop("affinity", None)
    return errors


def _check_affinity_change(new: Object, old: Object) -> list[FieldError]:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms: list[Any] = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms: list[Any] = (new.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(new_terms):
        shown = GoInternal([_internal_term(one) for one in new_terms] or None)
        return [invalid(path, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(
            f"{path}[{index}]",
            GoInternal(_internal_term(new_terms[index])),
            "only additions are allowed (no mutations or deletions)",
        )
        for index, old_term in enumerate(old_terms)
        if not _only_added(new_terms[index], old_term)
    ]


def _internal_term(term: Object) -> Object:
    def shown(one: Object) -> Object:
        return {"Key": one.get("key", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}

    def listed(name: str) -> list[Object] | None:
        return [shown(one) for one in term[name]] if name in term else None

    return {"MatchExpressions": listed("matchExpressions"), "MatchFields": listed("matchFields")}


def _only_added(new: Object, old: Object) -> bool:
    if not old.get("matchExpressions") and not old.get("matchFields"):
        return not new.get("matchExpressions") and not new.get("matchFields")
    return all(
        (new.get(name) or [])[: len(old.get(name) or [])] == (old.get(name) or [])
        for name in ("matchExpressions", "matchFields")
    )


def check_pod_status(obj: Object, old: Object) -> list[FieldError]:
    status, was = obj["status"], old["status"]
    errors: list[FieldError] = []
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != was.get("nominatedNodeName"):
        errors += check_subdomain("status.nominatedNodeName", nominated)
    errors += immutable("status.qosClass", status.get("qosClass", ""), was.get("qosClass", ""))
    errors += _check_restarted(status, was, old["spec"].get("restartPolicy", "Always"))
    return errors


def _check_restarted(status: Object, was: Object, policy: str) -> list[FieldError]:
    """A container that ended for good does not come back."""
    if policy == "Always":
        return []
    errors: list[FieldError] = []
    now = {one["name"]: one for one in status.get("containerStatuses") or ()}
    for index, before in enumerate(was.get("containerStatuses") or ()):
        ended = before["state"].get("terminated")
        if ended is None or (ended.get("exitCode", 0) != 0 and policy == "OnFailure"):
            continue
        after = now.get(before["name"])
        if after is not None and "terminated" not in after["state"]:
            where = f"status.containerStatuses[{index}].state"
            errors.append(forbidden(where, "may not be transitioned to non-terminated state"))
    return errors
