"""Pod specifications of cliques: fields that no pod has, values of another type, and amounts that nobody can read.

The schema of a set keeps whatever it finds in a podSpec, and pods are made without what they do not know: a mistyped
field would be lost without a word. An unknown field is warned of, never refused: a newer API server may know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kube_apimachinery.field_errors import FieldError, invalid
from kube_apimachinery.quantity import is_valid
from spinney.core.admission.decoding import items, part

Shape = str | list[Any] | Mapping[str, Any]
"""A type of JSON, a list of one shape, or an object with known fields; what is inside a plain object is not judged."""

_OBJECT, _STRING, _INTEGER, _BOOLEAN = "object", "string", "integer", "boolean"
_OBJECTS, _STRINGS = [_OBJECT], [_STRING]
_AFFINITY: Shape = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": _OBJECTS,
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": _OBJECTS, "matchFields": _OBJECTS}]
        },
    },
    "podAffinity": _OBJECT,
    "podAntiAffinity": _OBJECT,
}
_RESOURCES: Mapping[str, Shape] = {"claims": [{"name": _STRING}], "limits": _OBJECT, "requests": _OBJECT}
_CONTAINER: Mapping[str, Shape] = {
    "args": _STRINGS,
    "command": _STRINGS,
    "env": [{"name": _STRING, "value": _STRING, "valueFrom": _OBJECT}],
    "envFrom": _OBJECTS,
    "image": _STRING,
    "imagePullPolicy": _STRING,
    "lifecycle": _OBJECT,
    "livenessProbe": _OBJECT,
    "name": _STRING,
    "ports": [{"containerPort": _INTEGER, "hostPort": _INTEGER, "name": _STRING, "protocol": _STRING}],
    "readinessProbe": _OBJECT,
    "resizePolicy": _OBJECTS,
    "resources": _RESOURCES,
    "restartPolicy": _STRING,
    "restartPolicyRules": _OBJECTS,
    "securityContext": _OBJECT,
    "startupProbe": _OBJECT,
    "stdin": _BOOLEAN,
    "stdinOnce": _BOOLEAN,
    "terminationMessagePath": _STRING,
    "terminationMessagePolicy": _STRING,
    "tty": _BOOLEAN,
    "volumeDevices": _OBJECTS,
    "volumeMounts": [{"mountPath": _STRING, "name": _STRING, "readOnly": _BOOLEAN, "subPath": _STRING}],
    "workingDir": _STRING,
}
_POD: Mapping[str, Shape] = {
    "activeDeadlineSeconds": _INTEGER,
    "affinity": _AFFINITY,
    "automountServiceAccountToken": _BOOLEAN,
    "containers": [_CONTAINER],
    "dnsConfig": _OBJECT,
    "dnsPolicy": _STRING,
    "enableServiceLinks": _BOOLEAN,
    "ephemeralContainers": _OBJECTS,
    "hostAliases": _OBJECTS,
    "hostIPC": _BOOLEAN,
    "hostNetwork": _BOOLEAN,
    "hostPID": _BOOLEAN,
    "hostUsers": _BOOLEAN,
    "hostname": _STRING,
    "hostnameOverride": _STRING,
    "imagePullSecrets": _OBJECTS,
    "initContainers": [_CONTAINER],
    "nodeName": _STRING,
    "nodeSelector": _OBJECT,
    "os": _OBJECT,
    "overhead": _OBJECT,
    "preemptionPolicy": _STRING,
    "priority": _INTEGER,
    "priorityClassName": _STRING,
    "readinessGates": _OBJECTS,
    "resourceClaims": [{"name": _STRING}],
    "resources": _OBJECT,
    "restartPolicy": _STRING,
    "runtimeClassName": _STRING,
    "schedulerName": _STRING,
    "schedulingGates": [{"name": _STRING}],
    "schedulingGroup": _OBJECT,
    "securityContext": _OBJECT,
    "serviceAccount": _STRING,
    "serviceAccountName": _STRING,
    "setHostnameAsFQDN": _BOOLEAN,
    "shareProcessNamespace": _BOOLEAN,
    "subdomain": _STRING,
    "terminationGracePeriodSeconds": _INTEGER,
    "tolerations": [{"effect": _STRING, "key": _STRING, "operator": _STRING, "value": _STRING}],
    "topologySpreadConstraints": _OBJECTS,
    "volumes": [{"name": _STRING}],
    "workloadRef": _OBJECT,
}


def unknown_fields(path: str, spec: dict[str, Any]) -> Iterator[str]:
    """Warnings, in the words of the API server."""
    yield from _unknown(path, spec, _POD)
    for where, container in _containers(path, spec):
        yield from _unknown(where, container, _CONTAINER)
        yield from _unknown(f"{where}.resources", part(container, "resources"), _RESOURCES)


def type_errors(path: str, spec: dict[str, Any]) -> Iterator[FieldError]:
    """Values of another type than a pod has there, in the words of the API server."""
    return _wrong(path, spec, _POD)


def amount_errors(path: str, spec: dict[str, Any]) -> Iterator[FieldError]:
    for where, container in _containers(path, spec):
        for kind in ("requests", "limits"):
            for name, amount in part(container, "resources", kind).items():
                if not _is_amount(amount):
                    yield invalid(
                        f"{where}.resources.{kind}[{name}]", amount, "must be a quantity, for instance 2, 500m or 16Gi"
                    )


def _containers(path: str, spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(items(spec.get(kind))):
            if isinstance(container, dict):
                yield f"{path}.{kind}[{index}]", container


def _unknown(path: str, value: dict[str, Any], known: Mapping[str, Shape]) -> Iterator[str]:
    for name in value:
        if name not in known:
            yield f'unknown field "{path}.{name}"'


def _is_amount(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return value is None or (isinstance(value, str | int | float) and is_valid(value))


def _wrong(path: str, value: Any, shape: Shape) -> Iterator[FieldError]:
    wanted = shape if isinstance(shape, str) else "array" if isinstance(shape, list) else _OBJECT
    found = _type_of(value)
    if found != wanted:
        yield invalid(path, found, f'{path} in body must be of type {wanted}: "{found}"')
    elif isinstance(shape, list):
        for index, item in enumerate(value):
            yield from _wrong(f"{path}[{index}]", item, shape[0])
    elif isinstance(shape, Mapping):
        for name, inner in value.items():
            if name in shape and inner is not None:
                yield from _wrong(f"{path}.{name}", inner, shape[name])


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return _BOOLEAN
        case int():
            return _INTEGER
        case float():
            return _INTEGER if value.is_integer() else "number"
        case str():
            return _STRING
        case list():
            return "array"
    return _OBJECT
