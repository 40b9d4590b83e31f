"""Checks of a pod spec, in a pod or in a template, and of the volumes in it."""

from __future__ import annotations

from collections.abc import Callable

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_apimachinery.quantity import compare
from kube_embedded.builtins.common.field_checks import (
    MAX_INT32,
    check_enum,
    check_key,
    check_label,
    check_subdomain,
    unsupported,
)
from kube_embedded.builtins.common.metadata import LABEL, GoInternal, validate_annotations, validate_labels
from kube_embedded.builtins.common.resource_requirements import check_resource_value
from kube_embedded.builtins.pod.containers import check_containers
from kube_embedded.builtins.pod.placement import (
    check_affinity,
    check_gates,
    check_spread,
    check_tolerations,
)

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def check_volumes(path: str, volumes: list[Object]) -> tuple[frozenset[str], list[FieldError]]:
    """The names that mounts may refer to, and what is wrong."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        found = _check_sources(where, volume)
        name = volume["name"]
        if not name or LABEL.of_name(name):
            found += check_label(f"{where}.name", name) if name else [required(f"{where}.name")]
        if name in names:
            found.append(duplicate(f"{where}.name", name))
        if not found:
            names.add(name)
        errors += found
    return frozenset(names), errors


def _check_sources(path: str, volume: Object) -> list[FieldError]:
    sources = [name for name in volume if name != "name"]
    if len(sources) != 1:
        sources.sort(key=_rank)
    if not sources:
        return [required(path, "must specify a volume type")]
    check = _SOURCES.get(sources[0])
    errors = check(f"{path}.{sources[0]}", volume[sources[0]]) if check is not None else []
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in sources[1:]]


def _rank(source: str) -> int:
    order = list(_SOURCES)
    return order.index(source) if source in order else len(order)


def _needs(field: str) -> Callable[[str, Object], list[FieldError]]:
    def check(path: str, source: Object) -> list[FieldError]:
        return [] if source.get(field) else [required(f"{path}.{field}")]

    return check


def _check_empty_dir(path: str, source: Object) -> list[FieldError]:
    if "sizeLimit" in source and compare(source["sizeLimit"], "0") < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _check_host_path(path: str, source: Object) -> list[FieldError]:
    target = source.get("path", "")
    if not target:
        return [required(f"{path}.path")]
    errors = [invalid(f"{path}.path", target, "must not contain '..'")] if ".." in target.split("/") else []
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(unsupported(f"{path}.type", source["type"], _HOST_PATH_TYPES))
    return errors


def _check_nfs(path: str, source: Object) -> list[FieldError]:
    errors = [] if source.get("server") else [required(f"{path}.server")]
    target = source.get("path", "")
    if not target:
        errors.append(required(f"{path}.path"))
    if not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))
    return errors


def _check_mode(path: str, source: Object) -> list[FieldError]:
    mode = source.get("defaultMode")
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(f"{path}.defaultMode", mode, "must be a number between 0 and 0777 (octal), both inclusive")]


def _check_items(path: str, source: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items") or ()):
        if not item.get("key"):
            errors.append(required(f"{path}.items[{index}].key"))
        if not item.get("path"):
            errors.append(required(f"{path}.items[{index}].path"))
    return errors


def _check_config(path: str, source: Object) -> list[FieldError]:
    errors = _check_mode(path, source)
    if not source.get("name"):
        errors.insert(0, required(f"{path}.name"))
    return errors + _check_items(path, source)


def _check_secret(path: str, source: Object) -> list[FieldError]:
    errors = _check_mode(path, source)
    if not source.get("secretName"):
        errors.insert(0, required(f"{path}.secretName"))
    return errors + _check_items(path, source)


def _check_ephemeral(path: str, source: Object) -> list[FieldError]:
    return [] if source.get("volumeClaimTemplate") else [required(f"{path}.volumeClaimTemplate")]


_SOURCES: dict[str, Callable[[str, Object], list[FieldError]]] = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "secret": _check_secret,
    "nfs": _check_nfs,
    "persistentVolumeClaim": _needs("claimName"),
    "downwardAPI": _check_mode,
    "configMap": _check_config,
    "projected": _check_mode,
    "csi": _needs("driver"),
    "ephemeral": _check_ephemeral,
    "image": lambda path, source: [],
}


_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMES = (
    ("serviceAccountName", check_subdomain),
    ("nodeName", check_subdomain),
    ("hostname", check_label),
    ("subdomain", check_label),
    ("priorityClassName", check_subdomain),
    ("runtimeClassName", check_subdomain),
)
_PREEMPTION = ("PreemptLowerPriority", "Never")


def check_pod_spec(spec: Object, path: str = "spec") -> list[FieldError]:
    """Everything that is wrong with a defaulted pod spec."""
    if "volumes" in spec:
        volumes, errors = check_volumes(f"{path}.volumes", spec["volumes"])
    else:
        volumes, errors = frozenset(), []
    claims = frozenset(one.get("name", "") for one in spec.get("resourceClaims") or ())
    if claims:
        errors += _check_claims(f"{path}.resourceClaims", spec["resourceClaims"])
    errors += check_containers(spec, path, volumes, claims)
    if spec.get("hostNetwork"):
        errors += _check_host_network(spec, path)
    if spec.get("restartPolicy") not in _RESTART:
        errors += check_enum(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART)
    errors += _check_dns(spec, path)
    if "nodeSelector" in spec:
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    errors += _check_placement(spec, path)
    for name, check in _NAMES:
        if spec.get(name):
            errors += check(f"{path}.{name}", spec[name])
    return errors + _check_rest(spec, path)


def _check_dns(spec: Object, path: str) -> list[FieldError]:
    policy = spec.get("dnsPolicy")
    if policy not in _DNS:
        return check_enum(f"{path}.dnsPolicy", policy, _DNS)
    if policy != "None":
        return []
    if "dnsConfig" not in spec:
        return [required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")]
    if not spec["dnsConfig"].get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{path}.dnsConfig.nameservers", detail)]
    return []


def _check_placement(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "affinity" in spec:
        errors += check_affinity(f"{path}.affinity", spec["affinity"])
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        errors += check_key(f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType", ""))
    if "schedulingGates" in spec:
        errors += check_gates(f"{path}.schedulingGates", spec["schedulingGates"])
    if "topologySpreadConstraints" in spec:
        errors += check_spread(f"{path}.topologySpreadConstraints", spec["topologySpreadConstraints"])
    return errors


def _check_rest(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        detail = f"must be between 1 and {MAX_INT32}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    if "tolerations" in spec:
        errors += check_tolerations(f"{path}.tolerations", spec["tolerations"])
    preemption = spec.get("preemptionPolicy")
    if preemption and preemption not in _PREEMPTION:
        errors.append(unsupported(f"{path}.preemptionPolicy", preemption, _PREEMPTION))
    for name, value in (spec.get("overhead") or {}).items():
        errors += check_resource_value(f"{path}.overhead.limits[{name}]", name, value)
    return errors


def _check_host_network(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports", ())):
            if port.get("hostPort") != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{at}].hostPort"
                errors.append(
                    invalid(where, port.get("hostPort", 0), "must match `containerPort` when `hostNetwork` is true")
                )
    return errors


def _check_claims(path: str, claims: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        errors += check_label(f"{where}.name", claim["name"]) if claim.get("name") else [required(f"{where}.name")]
        given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
        if not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(where, _internal_claim(claim), detail))
        elif len(given) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(where, _internal_claim(claim), detail))
        for name in given:
            errors += check_subdomain(f"{where}.{name}", claim[name])
    return errors


def _internal_claim(claim: Object) -> GoInternal:
    return GoInternal(
        {
            "Name": claim.get("name", ""),
            "ResourceClaimName": claim.get("resourceClaimName"),
            "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
        }
    )


def check_images(spec: Object) -> list[FieldError]:
    """Names of images in a pod, as against those in a template, carry no blanks around them."""
    detail = "must not have leading or trailing whitespace"
    return [
        invalid(f"spec.{name}[{index}].image", one["image"], detail)
        for name in ("containers", "initContainers")
        for index, one in enumerate(spec.get(name) or ())
        if one.get("image", "") != one.get("image", "").strip()
    ]


def check_template(template: Object, path: str = "spec.template") -> list[FieldError]:
    """A pod template: labels, annotations and the spec."""
    errors = check_template_metadata(template, path)
    errors += check_pod_spec(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def check_template_metadata(template: Object, path: str = "spec.template") -> list[FieldError]:
    """The labels and annotations of a pod template."""
    meta = template["metadata"]
    errors = validate_labels(meta.get("labels") or {}, f"{path}.labels")
    return errors + validate_annotations(meta.get("annotations") or {}, f"{path}.annotations")
