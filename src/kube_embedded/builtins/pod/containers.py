"""Checks of containers: names, images, ports, variables, mounts, probes, hooks."""

from __future__ import annotations

from functools import lru_cache

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import (
    NOT_NEGATIVE,
    check_enum,
    check_label,
    check_port,
    check_port_number,
    check_subdomain,
    not_found,
    port_name_complaints,
    unsupported,
)
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.resource_requirements import check_requirements

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OTHER_LABELS = (
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"


@lru_cache(maxsize=4096)
def _env_complaints(name: str) -> tuple[str, ...]:
    return tuple(name_validation.env_name(name))


def check_containers(spec: Object, path: str, volumes: frozenset[str], claims: frozenset[str]) -> list[FieldError]:
    """The main containers and the init containers of a pod spec."""
    containers = spec.get("containers")
    if not containers:
        return [required(f"{path}.containers")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}.containers[{index}]"
        errors += _check_container(container, where, volumes, claims)
        name = container["name"]
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        errors += _check_behaviour(container, where)
        if "restartPolicy" in container:
            errors += _check_restart_rules(container, where)
    errors += _check_host_ports(containers, f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        errors += _check_container(container, where, volumes, claims)
        errors += _check_init_container(container, where, seen)
    return errors


def _check_container(container: Object, path: str, volumes: frozenset[str], claims: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not container["name"]:
        errors.append(required(f"{path}.name"))
    elif LABEL.of_name(container["name"]):
        errors += check_label(f"{path}.name", container["name"])
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        errors += check_enum(
            f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), _MESSAGE_POLICIES
        )
    if "ports" in container:
        errors += _check_ports(container["ports"], f"{path}.ports")
    if "env" in container:
        errors += _check_env(container["env"], f"{path}.env")
    if "envFrom" in container:
        errors += _check_env_from(container["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in container:
        errors += _check_mounts(container["volumeMounts"], f"{path}.volumeMounts", volumes)
    if "volumeDevices" in container:
        errors += _check_devices(container["volumeDevices"], f"{path}.volumeDevices", volumes)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        errors += check_enum(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    resources = container.get("resources")
    if resources:
        errors += check_requirements(f"{path}.resources", resources, claims)
    return errors


def _check_behaviour(container: Object, path: str) -> list[FieldError]:
    """Hooks and probes."""
    errors: list[FieldError] = []
    for hook, handler in container.get("lifecycle", {}).items():
        if isinstance(handler, dict):
            errors += _check_handler(handler, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            errors += _check_probe(container[name], f"{path}.{name}", name)
    return errors


def _check_init_container(container: Object, path: str, seen: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = container.get("restartPolicy")
    if policy not in (None, "Always", "Never", "OnFailure"):
        errors.append(unsupported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure")))
    if container["name"] in seen:
        errors.append(duplicate(f"{path}.name", container["name"]))
    elif container["name"]:
        seen.add(container["name"])
    if policy == "Always":
        return errors + _check_behaviour(container, path)
    for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            errors.append(forbidden(f"{path}.{name}", _ONLY_SIDECARS))
    return errors


def _check_restart_rules(container: Object, path: str) -> list[FieldError]:
    policy = container["restartPolicy"]
    allowed = ("Always", "Never", "OnFailure")
    return [] if policy in allowed else [unsupported(f"{path}.restartPolicy", policy, allowed)]


def _check_ports(ports: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        name = port.get("name")
        if name:
            complaints = port_name_complaints(name)
            errors += [invalid(f"{where}.name", name, text) for text in complaints]
            if not complaints and name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        errors += (
            check_port_number(f"{where}.containerPort", number) if number else [required(f"{where}.containerPort")]
        )
        if port.get("hostPort"):
            errors += check_port_number(f"{where}.hostPort", port["hostPort"])
        if port.get("protocol") not in _PROTOCOLS:
            errors += check_enum(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)
    return errors


def _check_host_ports(containers: list[Object], path: str) -> list[FieldError]:
    """The same port of the host may be taken once per protocol and address."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in taken:
                    errors.append(duplicate(f"{path}[{index}].ports[{at}].hostPort", key))
                taken.add(key)
    return errors


def _check_env(variables: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        name = variable["name"]
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif complaints := _env_complaints(name):
            errors += [invalid(f"{path}[{index}].name", name, text) for text in complaints]
        if "valueFrom" in variable:
            errors += _check_value_from(variable, f"{path}[{index}].valueFrom")
    return errors


def _check_value_from(variable: Object, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    given = [name for name in _VALUE_SOURCES if name in source]
    for name in given:
        errors += _check_value_source(name, source[name], f"{path}.{name}")
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {listed}"))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _check_value_source(name: str, source: Object, path: str) -> list[FieldError]:
    if name in ("configMapKeyRef", "secretKeyRef"):
        errors = check_subdomain(f"{path}.name", source.get("name", ""))
        key = source.get("key", "")
        return errors + (
            [invalid(f"{path}.key", key, text) for text in name_validation.config_key(key)]
            if key
            else [required(f"{path}.key")]
        )
    if name == "resourceFieldRef":
        return _check_resource_ref(source.get("resource", ""), f"{path}.resource")
    if name == "fieldRef":
        return _check_field_ref(source, path)
    return []


def _check_resource_ref(resource: str, path: str) -> list[FieldError]:
    if not resource:
        return [required(path)]
    if resource in _RESOURCE_FIELDS or resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        return []
    return [unsupported(path, resource, _RESOURCE_FIELDS)]


def _check_field_ref(source: Object, path: str) -> list[FieldError]:
    field_path = source.get("fieldPath", "")
    if not field_path:
        return [required(f"{path}.fieldPath")]
    subscripted = field_path.startswith(("metadata.annotations[", "metadata.labels[")) and field_path.endswith("']")
    if subscripted or field_path in _FIELD_PATHS:
        return []
    if field_path not in _OTHER_LABELS:
        detail = f"error converting fieldPath: field label not supported: {field_path}"
        return [invalid(f"{path}.fieldPath", field_path, detail)]
    return [unsupported(f"{path}.fieldPath", field_path, _FIELD_PATHS)]


def _check_env_from(sources: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        prefix = source.get("prefix")
        if prefix:
            errors += [invalid(f"{where}.prefix", prefix, text) for text in _env_complaints(prefix)]
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            reference = source[name].get("name", "")
            errors += (
                check_subdomain(f"{where}.{name}.name", reference) if reference else [required(f"{where}.{name}.name")]
            )
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _check_mounts(mounts: list[Object], path: str, volumes: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        name, target = mount["name"], mount["mountPath"]
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not target:
            errors.append(required(f"{path}[{index}].mountPath"))
        if target in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", target, "must be unique"))
        seen.add(target)
        if mount.get("subPath"):
            errors += check_descending(mount["subPath"], f"{path}.subPath")
    return errors


def check_descending(target: str, path: str) -> list[FieldError]:
    """A path inside a volume: relative, and never upwards."""
    errors: list[FieldError] = []
    if target.startswith("/"):
        errors.append(invalid(path, target, "must be a relative path"))
    if ".." in target.split("/"):
        errors.append(invalid(path, target, "must not contain '..'"))
    return errors


def _check_devices(devices: list[Object], path: str, volumes: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, device in enumerate(devices):
        if device["name"] not in volumes:
            errors.append(not_found(f"{path}[{index}].name", device["name"]))
        if not device["devicePath"]:
            errors.append(required(f"{path}[{index}].devicePath"))
    return errors


def _check_probe(probe: Object, path: str, name: str) -> list[FieldError]:
    errors = _check_handler(probe, path)
    for number in _PROBE_NUMBERS:
        if probe.get(number, 0) < 0:
            errors.append(invalid(f"{path}.{number}", probe[number], NOT_NEGATIVE))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and name == "readinessProbe":
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes"))
    elif grace is not None and grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def _check_handler(handler: Object, path: str) -> list[FieldError]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    errors = _check_action(given[0], handler[given[0]], f"{path}.{given[0]}")
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]


def _check_action(name: str, action: Object, path: str) -> list[FieldError]:
    match name:
        case "exec":
            return [] if action.get("command") else [required(f"{path}.command")]
        case "httpGet":
            errors = check_port(f"{path}.port", action["port"])
            scheme = action.get("scheme", "")
            return errors + (
                [] if scheme in ("HTTP", "HTTPS") else [unsupported(f"{path}.scheme", scheme, ("HTTP", "HTTPS"))]
            )
        case "tcpSocket":
            return check_port(f"{path}.port", action["port"])
        case "grpc":
            return check_port_number(f"{path}.port", action["port"])
        case _:
            return []
