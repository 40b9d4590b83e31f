"""The core group's kinds with few rules: namespaces, accounts, ConfigMaps, Secrets, quotas, limits, controllers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.base.resource import Context
from kube_embedded.builtins.common.field_checks import immutable, too_long
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.printing import AGE, CREATED, NAME, cell, containers, labels_cell, table, wide
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template

# ResourceQuotas, PodTemplates and ReplicationControllers are kept for clients; LimitRanges are enforced by admission.

_API = "io.k8s.api.core.v1."


def _used(limits: bool) -> Callable[[Object], str]:
    def shown(quota: Object) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = sorted(name for name in hard if name.startswith("limits") == limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return shown


QUOTAS = Rules(
    component=_API + "ResourceQuota",
    table=table(NAME, cell("Request", _used(limits=False)), cell("Limit", _used(limits=True)), AGE),
    has_status=True,
)


def _default_limits(obj: Object) -> None:
    for item in obj["spec"].get("limits") or ():
        if item.get("type") == "Container":
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request


LIMIT_RANGES = Rules(
    component=_API + "LimitRange",
    table=table(NAME, CREATED),
    defaults=_default_limits,
)


POD_TEMPLATES = Rules(
    component=_API + "PodTemplate",
    table=table(
        NAME,
        *containers("template.spec"),
        cell("Pod Labels", lambda obj: labels_cell(obj["template"]["metadata"].get("labels"))),
    ),
    defaults=lambda obj: default_template(obj["template"]),
    bumps=lambda obj, old: bool(obj.get("template") != old.get("template")),
)


def _default_controller(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    labels = template["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    default_template(template)


CONTROLLERS = Rules(
    component=_API + "ReplicationController",
    table=table(
        NAME,
        cell("Desired", "spec.replicas", 0, "integer"),
        cell("Current", "status.replicas", 0, "integer"),
        cell("Ready", "status.readyReplicas", 0, "integer"),
        AGE,
        *map(wide, containers("spec.template.spec")),
        wide(cell("Selector", lambda obj: labels_cell(obj["spec"].get("selector")))),
    ),
    defaults=_default_controller,
    fields=lambda obj: {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))},
    bumps=spec_changed,
    has_status=True,
)


# ConfigMaps and Secrets: keys, total size, immutability.

MAX_SIZE = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}

_TOKEN = "kubernetes.io/service-account-token"
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"


def _check_keys(field: str, keys: dict[str, Any]) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, text) for key in keys for text in name_validation.config_key(key)]


def _decoded_size(value: str) -> int:
    return len(value) // 4 * 3 - value[-2:].count("=")


def _check_config_map(config: Object) -> list[FieldError]:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    errors = _check_keys("data", data)
    errors += [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary]
    errors += _check_keys("binaryData", binary)
    total = sum(len(value) if value.isascii() else len(value.encode()) for value in data.values())
    if total + sum(_decoded_size(value) for value in binary.values()) > MAX_SIZE:
        errors.append(too_long("[]", MAX_SIZE))
    return errors


def _check_frozen(obj: Object, old: Object, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(name, _FROZEN) for name in fields if obj.get(name) != old.get(name)]


CONFIG_MAPS = Rules(
    component="io.k8s.api.core.v1.ConfigMap",
    table=table(NAME, cell("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), AGE),
    check=_check_config_map,
    check_update=lambda obj, old: _check_frozen(obj, old, "data", "binaryData"),
)


def _default_secret(secret: Object) -> None:
    """Plain text moves into `data`; a secret without a type is Opaque."""
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode(value.encode()).decode()
    secret.setdefault("type", "Opaque")


def _check_secret(secret: Object) -> list[FieldError]:
    data = secret.get("data") or {}
    errors = _check_keys("data", data)
    if sum(_decoded_size(value) for value in data.values()) > MAX_SIZE:
        errors.append(too_long("data", MAX_SIZE))
    return errors + _check_type(secret, data)


def _check_type(secret: Object, data: dict[str, str]) -> list[FieldError]:
    kind = secret.get("type", "")
    if kind == _TOKEN:
        account = (secret["metadata"].get("annotations") or {}).get(_TOKEN_ACCOUNT)
        return [] if account else [required(f"metadata.annotations[{_TOKEN_ACCOUNT}]")]
    if kind == "kubernetes.io/basic-auth" and not ("username" in data or "password" in data):
        return [required("data[username]"), required("data[password]")]
    return [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]


def _check_secret_update(secret: Object, old: Object) -> list[FieldError]:
    return immutable("type", secret.get("type", ""), old.get("type", "")) + _check_frozen(secret, old, "data")


SECRETS = Rules(
    component="io.k8s.api.core.v1.Secret",
    table=table(NAME, cell("Type", "type"), cell("Data", lambda obj: len(obj.get("data") or ())), AGE),
    defaults=_default_secret,
    check=_check_secret,
    check_update=_check_secret_update,
    fields=lambda secret: {"type": secret.get("type", "")},
)


# Namespaces and the service accounts in them.

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


def _defaults(namespace: Object) -> None:
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})[NAME_LABEL] = name
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _on_create(namespace: Object, context: Context) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def _on_update(namespace: Object, old: Object, context: Context) -> None:
    """Only the finalize subresource changes spec.finalizers."""
    namespace["spec"] = dict(namespace.get("spec") or {})
    finalizers = old.get("spec", {}).get("finalizers")
    if finalizers:
        namespace["spec"]["finalizers"] = finalizers
    else:
        namespace["spec"].pop("finalizers", None)


def _check_status(namespace: Object, old: Object) -> list[FieldError]:
    deleting = "deletionTimestamp" in namespace["metadata"]
    phase = namespace.get("status", {}).get("phase", "")
    if deleting and phase != "Terminating":
        detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid("status.Phase", phase, detail)]
    if not deleting and phase != "Active":
        return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    return []


NAMESPACES = Rules(
    component="io.k8s.api.core.v1.Namespace",
    table=table(NAME, cell("Status", "status.phase"), AGE),
    naming=LABEL,
    namespaced=False,
    defaults=_defaults,
    on_create=_on_create,
    on_update=_on_update,
    check_status=_check_status,
    fields=lambda namespace: {
        "name": namespace["metadata"].get("name", ""),
        "status.phase": namespace.get("status", {}).get("phase", ""),
    },
    has_status=True,
    wipes_status=False,
)


def _clean_secrets(account: Object) -> None:
    """References to secrets carry a name and nothing else."""
    for index, one in enumerate(account.get("secrets") or ()):
        account["secrets"][index] = {"name": one["name"]} if one.get("name") else {}


SERVICE_ACCOUNTS = Rules(
    component="io.k8s.api.core.v1.ServiceAccount",
    table=table(NAME, AGE),
    defaults=_clean_secrets,
)
