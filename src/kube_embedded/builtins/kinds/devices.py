"""Dynamic resources: claims, claim templates, slices and device classes."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, invalid, required
from kube_embedded.builtins.common.field_checks import check_cel, check_label, check_subdomain, immutable, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, UNSET, cell, table
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed

_API = "io.k8s.api.resource.v1."
_STATUS_METADATA = ("deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences")
_MODES = ("All", "ExactCount")


def _default_claim_spec(spec: Object) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        if "exactly" in request:
            _default_request(request["exactly"])
        for one in request.get("firstAvailable") or ():
            _default_request(one)


def _default_request(request: Object) -> None:
    if request.setdefault("allocationMode", "ExactCount") == "ExactCount":
        request.setdefault("count", 1)


def _check_claim_spec(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(spec.get("devices", {}).get("requests") or ()):
        where = f"{path}.devices.requests[{index}]"
        name = request.get("name", "")
        errors += check_label(f"{where}.name", name)
        errors += _check_request(request, where)
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
    return errors


def _check_request(request: Object, path: str) -> list[FieldError]:
    choices = [name for name in ("exactly", "firstAvailable") if request.get(name)]
    if len(choices) != 1:
        detail = "exactly one of `exactly` or `firstAvailable` is required"
        return [required(path, detail)] if not choices else [invalid(path, None, detail)]
    if choices == ["firstAvailable"]:
        errors: list[FieldError] = []
        for index, one in enumerate(request["firstAvailable"]):
            errors += _check_exact(one, f"{path}.firstAvailable[{index}]")
        return errors
    return _check_exact(request["exactly"], f"{path}.exactly")


def _check_exact(request: Object, path: str) -> list[FieldError]:
    name = request.get("deviceClassName", "")
    errors = check_subdomain(f"{path}.deviceClassName", name) if name else [required(f"{path}.deviceClassName")]
    errors += _check_selectors(request.get("selectors") or [], f"{path}.selectors")
    mode = request["allocationMode"]
    if mode not in _MODES:
        errors.append(unsupported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "ExactCount" and request.get("count", 0) <= 0:
        errors.append(invalid(f"{path}.count", request.get("count", 0), "must be greater than zero"))
    return errors


def _check_selectors(selectors: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, one in enumerate(selectors):
        if "cel" not in one:
            errors.append(required(f"{path}[{index}].cel"))
        else:
            errors += check_cel(f"{path}[{index}].cel.expression", one["cel"].get("expression", ""), ("device",))
    return errors


def _state(claim: Object) -> str:
    status = claim.get("status") or {}
    parts = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    parts.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        parts.append("reserved")
    return ",".join(parts)


CLAIMS = Rules(
    component=_API + "ResourceClaim",
    table=table(NAME, cell("State", _state), AGE),
    defaults=lambda claim: _default_claim_spec(claim["spec"]),
    on_status_update=lambda claim, old, context: keep_metadata(claim, old, *_STATUS_METADATA),
    check=lambda claim: _check_claim_spec(claim["spec"], "spec"),
    check_update=lambda claim, old: immutable("spec", claim["spec"], old["spec"]),
    has_status=True,
)


CLAIM_TEMPLATES = Rules(
    component=_API + "ResourceClaimTemplate",
    table=table(NAME, AGE),
    defaults=lambda template: _default_claim_spec(template["spec"]["spec"]),
    check=lambda template: _check_claim_spec(template["spec"]["spec"], "spec.spec"),
    check_update=lambda template, old: immutable("spec", template["spec"], old["spec"]),
)


def _check_slice(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = [] if spec.get("driver") else [required("spec.driver")]
    pool = spec.get("pool") or {}
    if not pool.get("name"):
        errors.append(required("spec.pool.name"))
    if pool.get("resourceSliceCount", 0) <= 0:
        errors.append(
            invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero")
        )
    seen: set[str] = set()
    for index, device in enumerate(spec.get("devices") or ()):
        name = device.get("name", "")
        errors += check_label(f"spec.devices[{index}].name", name)
        if name in seen:
            errors.append(duplicate(f"spec.devices[{index}]", name))
        seen.add(name)
    scopes = [name for name in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(name)]
    if len(scopes) != 1:
        listed = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
        detail = f"exactly one of {listed} is required"
        errors.append(required("spec", detail) if not scopes else invalid("spec", None, detail))
    return errors


SLICES = Rules(
    component=_API + "ResourceSlice",
    table=table(
        NAME,
        cell("Node", "spec.nodeName", UNSET),
        cell("Driver", "spec.driver"),
        cell("Pool", "spec.pool.name"),
        AGE,
    ),
    namespaced=False,
    check=_check_slice,
    fields=lambda obj: {"spec.nodeName": obj["spec"].get("nodeName", ""), "spec.driver": obj["spec"].get("driver", "")},
    bumps=spec_changed,
)
DEVICE_CLASSES = Rules(
    component=_API + "DeviceClass",
    table=table(NAME, AGE),
    namespaced=False,
    check=lambda obj: _check_selectors(obj["spec"].get("selectors") or [], "spec.selectors"),
    bumps=spec_changed,
)
