"""Pod specifications of cliques: fields that no pod has, and amounts that nobody can read.

The schema of a set keeps whatever it finds in a podSpec, and pods are made without what they do not know: a mistyped
field would be lost without a word. An unknown field is warned of, never refused: a newer API server may know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spinney.api.field_errors import FieldError, invalid
from spinney.api.quantity import is_valid
from spinney.core.admission.reading import items, part

_POD = frozenset(
    [
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "schedulingGroup",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        "workloadRef",
    ]
)
_CONTAINER = frozenset(
    [
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    ]
)
_RESOURCES = frozenset({"claims", "limits", "requests"})


def unknown_fields(path: str, spec: dict[str, Any]) -> Iterator[str]:
    """Warnings, in the words of the API server."""
    yield from _unknown(path, spec, _POD)
    for where, container in _containers(path, spec):
        yield from _unknown(where, container, _CONTAINER)
        yield from _unknown(f"{where}.resources", part(container, "resources"), _RESOURCES)


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


def _unknown(path: str, value: dict[str, Any], known: frozenset[str]) -> Iterator[str]:
    for name in value:
        if name not in known:
            yield f'unknown field "{path}.{name}"'


def _is_amount(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return value is None or (isinstance(value, str | int | float) and is_valid(value))
