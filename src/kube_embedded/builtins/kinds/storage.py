"""PersistentVolumes, claims, StorageClasses and the CSI kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_apimachinery.quantity import compare
from kube_apimachinery.times import format_time
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_selector, check_subdomain, immutable, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, UNSET, Cell, cell, field_at, flag, table, wide
from kube_embedded.builtins.common.rules import Rules, spec_changed

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_VOLUME_FIELDS = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def _check_access(path: str, modes: list[str], detail: str) -> list[FieldError]:
    if not modes:
        return [required(path, detail)]
    errors = [unsupported(path, mode, tuple(sorted(_ACCESS))) for mode in modes if mode not in _ACCESS]
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" for mode in modes if mode in _ACCESS):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_claim_spec(spec: Object, path: str = "spec") -> list[FieldError]:
    """The spec of a claim, or of a claim template."""
    errors = _check_access(f"{path}.accessModes", spec.get("accessModes") or [], "at least 1 access mode is required")
    errors += check_selector(f"{path}.selector", spec.get("selector"))
    storage = (spec["resources"].get("requests") or {}).get("storage")
    if storage is None:
        errors.append(required(f"{path}.resources[storage]"))
    elif compare(storage, "0") <= 0:
        errors.append(invalid(f"{path}.resources[storage]", storage, "must be greater than zero"))
    if spec.get("storageClassName"):
        errors += check_subdomain(f"{path}.storageClassName", spec["storageClassName"])
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _MODES:
        errors.append(unsupported(f"{path}.volumeMode", mode, _MODES))
    return errors


def _default_claim(claim: Object) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")
    claim["status"].setdefault("phase", "Pending")


def _check_claim_update(claim: Object, old: Object) -> list[FieldError]:
    spec, was = dict(claim["spec"]), dict(old["spec"])
    for one in (spec, was):
        one.pop("volumeAttributesClassName", None)
    if "volumeName" not in was:
        spec.pop("volumeName", None)
    new_size = (spec["resources"].get("requests") or {}).get("storage", "0")
    old_size = (was["resources"].get("requests") or {}).get("storage", "0")
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if bound and compare(new_size, old_size) != 0:
        spec["resources"] = was["resources"]
    errors: list[FieldError] = []
    if spec != was:
        changed = ", ".join(sorted(key for key in spec.keys() | was.keys() if spec.get(key) != was.get(key)))
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
            f"\nchanged: {changed}"
        )
        errors.append(forbidden("spec", detail))
    if bound and compare(new_size, old_size) < 0:
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return errors


def _modes_cell(modes: list[str] | None) -> str:
    given = modes or ()
    return ",".join(short for mode, short in _ACCESS.items() if mode in given)


def _class_cell(obj: Object) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return str(annotated if annotated is not None else obj["spec"].get("storageClassName", ""))


def _phase(obj: Object) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else (obj.get("status") or {}).get("phase", "")


def _when_bound(shown: Callable[[Object], str]) -> Callable[[Object], str]:
    return lambda claim: shown(claim) if claim["spec"].get("volumeName") else ""


CLAIMS = Rules(
    component="io.k8s.api.core.v1.PersistentVolumeClaim",
    table=table(
        NAME,
        cell("Status", _phase),
        cell("Volume", "spec.volumeName"),
        cell("Capacity", _when_bound(lambda claim: str(field_at(claim, ("status", "capacity", "storage"), "0")))),
        cell("Access Modes", _when_bound(lambda claim: _modes_cell(field_at(claim, ("status", "accessModes"))))),
        cell("StorageClass", _class_cell),
        cell("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        wide(cell("VolumeMode", "spec.volumeMode", UNSET)),
    ),
    defaults=_default_claim,
    on_create=lambda claim, context: _default_claim(claim),
    check=lambda claim: check_claim_spec(claim["spec"]),
    check_update=_check_claim_update,
    fields=lambda claim: {"name": claim["metadata"].get("name", "")},
    has_status=True,
)


def _default_volume(volume: Object) -> None:
    volume["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume["spec"].setdefault("volumeMode", "Filesystem")
    volume["status"].setdefault("phase", "Pending")
    if "hostPath" in volume["spec"]:
        volume["spec"]["hostPath"].setdefault("type", "")


def _stamp_volume(volume: Object, context: Context) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(context.now_s)}


def _stamp_phase(volume: Object, old: Object, context: Context) -> None:
    status, was = volume.setdefault("status", {}), old.get("status") or {}
    before = was.get("lastPhaseTransitionTime")
    if status.get("phase") == was.get("phase"):
        if before:
            status.setdefault("lastPhaseTransitionTime", before)
    elif status.get("lastPhaseTransitionTime") in (None, before):
        status["lastPhaseTransitionTime"] = format_time(context.now_s)


def _check_volume(volume: Object) -> list[FieldError]:
    spec = volume["spec"]
    errors = _check_access("spec.accessModes", spec.get("accessModes") or [], "")
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.append(required("spec.capacity"))
    if list(capacity) != ["storage"]:
        errors.append(unsupported("spec.capacity", capacity or None, ("storage",)))
    for name, value in capacity.items():
        if compare(value, "0") <= 0:
            errors.append(invalid(f"spec.capacity[{name}]", value, "must be greater than zero"))
    policy = spec["persistentVolumeReclaimPolicy"]
    if policy not in _RECLAIM:
        errors.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    errors += _check_source(spec)
    if spec.get("storageClassName"):
        errors += check_subdomain("spec.storageClassName", spec["storageClassName"])
    if spec["volumeMode"] not in _MODES:
        errors.append(unsupported("spec.volumeMode", spec["volumeMode"], _MODES))
    return errors


def _check_source(spec: Object) -> list[FieldError]:
    sources = sorted(spec.keys() - _VOLUME_FIELDS)
    if not sources:
        return [required("spec", "must specify a volume type")]
    errors = [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
    if "hostPath" in spec and not spec["hostPath"].get("path"):
        errors.append(required("spec.hostPath.path"))
    if "local" in spec and not spec.get("nodeAffinity"):
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors


def _check_volume_update(volume: Object, old: Object) -> list[FieldError]:
    def source(one: Object) -> Object:
        return {key: value for key, value in one["spec"].items() if key not in _VOLUME_FIELDS}

    errors: list[FieldError] = []
    if source(volume) != source(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    return errors + immutable("volumeMode", volume["spec"].get("volumeMode"), old["spec"].get("volumeMode"))


def _claim_cell(volume: Object) -> str:
    claim = volume["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


VOLUMES = Rules(
    component="io.k8s.api.core.v1.PersistentVolume",
    table=table(
        NAME,
        cell("Capacity", "spec.capacity.storage", "0"),
        cell("Access Modes", lambda volume: _modes_cell(volume["spec"].get("accessModes"))),
        cell("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        cell("Status", _phase),
        cell("Claim", _claim_cell),
        cell("StorageClass", _class_cell),
        cell("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        cell("Reason", "status.reason"),
        AGE,
        wide(cell("VolumeMode", "spec.volumeMode", UNSET)),
    ),
    namespaced=False,
    defaults=_default_volume,
    on_create=_stamp_volume,
    on_status_update=_stamp_phase,
    check=_check_volume,
    check_update=_check_volume_update,
    fields=lambda volume: {"name": volume["metadata"].get("name", "")},
    has_status=True,
)


def _default_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _check_class(obj: Object) -> list[FieldError]:
    errors = [] if obj.get("provisioner") else [required("provisioner")]
    if obj["reclaimPolicy"] not in _RECLAIM:
        errors.append(unsupported("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain")))
    mode, allowed = obj["volumeBindingMode"], ("Immediate", "WaitForFirstConsumer")
    return errors if mode in allowed else [*errors, unsupported("volumeBindingMode", mode, allowed)]


def _check_class_update(obj: Object, old: Object) -> list[FieldError]:
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [error for name in fixed for error in immutable(name, obj.get(name), old.get(name))]


def is_default_class(obj: Object) -> bool:
    """Whether claims that name no class get this one."""
    annotations = obj["metadata"].get("annotations") or {}
    return "true" in (
        annotations.get(DEFAULT_CLASS),
        annotations.get("storageclass.beta.kubernetes.io/is-default-class"),
    )


def _class_name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return f"{name} (default)" if is_default_class(obj) else name


STORAGE_CLASSES = Rules(
    component="io.k8s.api.storage.v1.StorageClass",
    table=table(
        replace(NAME, value=lambda obj, context: _class_name(obj)),
        cell("Provisioner", "provisioner"),
        cell("ReclaimPolicy", "reclaimPolicy", "Delete"),
        cell("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        flag("AllowVolumeExpansion", "allowVolumeExpansion", type="string"),
        AGE,
    ),
    namespaced=False,
    defaults=_default_class,
    check=_check_class,
    check_update=_check_class_update,
)

CSI_NODES = Rules(
    component="io.k8s.api.storage.v1.CSINode",
    table=table(NAME, cell("Drivers", lambda obj: len(obj["spec"].get("drivers") or ()), type="integer"), AGE),
    namespaced=False,
)


def _default_driver(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("attachRequired", True)
    for name in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(name, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _audiences(obj: Object) -> str:
    return ",".join(one.get("audience", "") for one in obj["spec"].get("tokenRequests") or ()) or UNSET


CSI_DRIVERS = Rules(
    component="io.k8s.api.storage.v1.CSIDriver",
    table=table(
        NAME,
        flag("AttachRequired", "spec.attachRequired", absent=True),
        flag("PodInfoOnMount", "spec.podInfoOnMount"),
        flag("StorageCapacity", "spec.storageCapacity"),
        cell("TokenRequests", _audiences),
        flag("RequiresRepublish", "spec.requiresRepublish"),
        cell("Modes", lambda obj: ",".join(obj["spec"].get("volumeLifecycleModes") or ()) or NONE),
        AGE,
    ),
    namespaced=False,
    defaults=_default_driver,
)


_ATTACHER = Cell(Column("Attacher", format="name"), lambda obj, context: obj["spec"].get("attacher", ""))
VOLUME_ATTACHMENTS = Rules(
    component="io.k8s.api.storage.v1.VolumeAttachment",
    table=table(
        NAME,
        _ATTACHER,
        cell("PV", "spec.source.persistentVolumeName"),
        cell("Node", "spec.nodeName"),
        flag("Attached", "status.attached"),
        AGE,
    ),
    namespaced=False,
    check_update=lambda obj, old: (
        [] if not spec_changed(obj, old) else [invalid("spec", obj["spec"], "field is immutable")]
    ),
    has_status=True,
)
