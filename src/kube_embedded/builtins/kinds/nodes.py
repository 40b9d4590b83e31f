"""Nodes (taints, resources, addresses, their row) and Leases, by which they and leaders show that they live."""

from __future__ import annotations

from collections.abc import Callable

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid
from kube_embedded.builtins.common.field_checks import NOT_NEGATIVE, check_key
from kube_embedded.builtins.common.metadata import GoInternal, value_complaints
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, UNKNOWN, cell, field_at, table, text, wide
from kube_embedded.builtins.common.resource_requirements import check_resource_value
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.pod.placement import check_taint_effect


def _drop_strategy(lease: Object) -> None:
    """Coordinated election is not served: its fields are dropped as an API server without it does."""
    for name in ("strategy", "preferredHolder"):
        lease["spec"].pop(name, None)


def _check_lease(lease: Object) -> list[FieldError]:
    spec = lease["spec"]
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


LEASES = Rules(
    component="io.k8s.api.coordination.v1.Lease",
    table=table(NAME, cell("Holder", "spec.holderIdentity"), AGE),
    defaults=_drop_strategy,
    check=_check_lease,
)


_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _defaults(node: Object) -> None:
    status = node.get("status") or {}
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    _mirror_pod_cidr(node["spec"])


def _mirror_pod_cidr(spec: Object) -> None:
    """The old field `podCIDR` always repeats the first of `podCIDRs`."""
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs") and not spec.get("podCIDR"):
        spec["podCIDR"] = spec["podCIDRs"][0]


def _check(node: Object) -> list[FieldError]:
    errors = _check_taints(node["spec"].get("taints") or [])
    for name, value in (node.get("status", {}).get("capacity") or {}).items():
        errors += check_resource_value(f"status.capacity.{name}", name, value)
    for name, value in (node.get("status", {}).get("allocatable") or {}).items():
        errors += check_resource_value(f"status.allocatable.{name}", name, value)
    return errors


def _check_taints(taints: list[Object]) -> list[FieldError]:
    path = "metadata.taints"  # where Kubernetes reports them, though they are in the spec
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors += check_key(f"{where}.key", key)
        if complaints := value_complaints(taint.get("value", "")):
            errors.append(invalid(f"{where}.value", taint["value"], ";".join(complaints)))
        errors += check_taint_effect(f"{where}.effect", effect)
        if (key, effect) in seen:
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(where, ErrorType.DUPLICATE, _internal_taint(taint), detail))
        seen.add((key, effect))
    return errors


def _internal_taint(taint: Object) -> GoInternal:
    names = (("Key", "key"), ("Value", "value"), ("Effect", "effect"))
    return GoInternal({**{shown: taint.get(name, "") for shown, name in names}, "TimeAdded": taint.get("timeAdded")})


def _check_update(node: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, was = node["spec"], old["spec"]
    if was.get("podCIDRs") and was["podCIDRs"] != spec.get("podCIDRs"):
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", detail))
    if was.get("providerID") and was["providerID"] != spec.get("providerID"):
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", detail))
    return errors


def _check_status(node: Object, old: Object) -> list[FieldError]:
    errors = _check(node)
    addresses = node.get("status", {}).get("addresses") or []
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            shown = GoInternal({"Type": address.get("type", ""), "Address": address.get("address", "")})
            errors.append(FieldError(f"status.addresses[{index}]", ErrorType.DUPLICATE, shown))
    return errors


def _kernel(node: Object) -> str:
    machine = (node.get("status") or {}).get("nodeInfo") or {}
    kernel = text(machine.get("kernelVersion"), UNKNOWN)
    return f"{kernel} ({machine['architecture']})" if machine.get("architecture") else kernel


def _machine(name: str) -> Callable[[Object], str]:
    return lambda node: text(field_at(node, ("status", "nodeInfo", name)), UNKNOWN)


def _condition(node: Object) -> str:
    shown = "Unknown"
    for one in field_at(node, ("status", "conditions")) or ():
        if one.get("type") == "Ready":
            shown = "Ready" if one.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if node["spec"].get("unschedulable") else shown


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX) and key != _ROLE_PREFIX}
    if labels.get(_ROLE_LABEL):
        roles.add(labels[_ROLE_LABEL])
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Callable[[Object], str]:
    def found(node: Object) -> str:
        addresses = field_at(node, ("status", "addresses")) or ()
        return next((one.get("address", "") for one in addresses if one.get("type") == kind), NONE)

    return found


_TABLE = table(
    NAME,
    cell("Status", _condition),
    cell("Roles", _roles),
    AGE,
    cell("Version", "status.nodeInfo.kubeletVersion"),
    wide(cell("Internal-IP", _address("InternalIP"))),
    wide(cell("External-IP", _address("ExternalIP"))),
    wide(cell("OS-Image", _machine("osImage"))),
    wide(cell("Kernel-Version", _kernel)),
    wide(cell("Container-Runtime", _machine("containerRuntimeVersion"))),
)
NODES = Rules(
    component="io.k8s.api.core.v1.Node",
    table=_TABLE,
    namespaced=False,
    defaults=_defaults,
    check=_check,
    check_update=_check_update,
    check_status=_check_status,
    fields=lambda node: {"spec.unschedulable": "true" if node["spec"].get("unschedulable") else "false"},
    has_status=True,
    wipes_status=False,
)
