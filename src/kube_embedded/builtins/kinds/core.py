"""The core group's kinds with few rules: namespaces, accounts, ConfigMaps, Secrets, quotas, limits, controllers."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_not_negative, immutable, too_long, unsupported
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells, labels_cell
from kube_embedded.builtins.common.resource_requirements import check_resource_value
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.pod.spec import check_template

# ResourceQuotas, LimitRanges, PodTemplates and ReplicationControllers: kept for clients, enforced by nobody.

_API = "io.k8s.api.core.v1."


def _check_quota(quota: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in (quota["spec"].get("hard") or {}).items():
        errors += check_resource_value(f"spec.hard[{name}]", name, value)
    return errors


def _quota_row(quota: Object, context: Context) -> list[Any]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    limits = sorted(name for name in hard if name.startswith("limits"))
    requests = sorted(name for name in hard if not name.startswith("limits"))

    def cell(names: list[str]) -> str:
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return [quota["metadata"]["name"], cell(requests), cell(limits), age(quota, context)]


QUOTAS = Rules(
    component=_API + "ResourceQuota",
    columns=(NAME, Column("Request"), Column("Limit"), AGE),
    cells=_quota_row,
    check=_check_quota,
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
    columns=(NAME, Column("Created At", type="date")),
    cells=lambda obj, context: [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")],
    defaults=_default_limits,
)


def _template_row(obj: Object, context: Context) -> list[Any]:
    template = obj["template"]
    labels = labels_cell(template["metadata"].get("labels"))
    return [obj["metadata"]["name"], *container_cells(template["spec"]), labels]


POD_TEMPLATES = Rules(
    component=_API + "PodTemplate",
    columns=(NAME, Column("Containers"), Column("Images"), Column("Pod Labels")),
    cells=_template_row,
    defaults=lambda obj: default_template(obj["template"]),
    check=lambda obj: check_template(obj["template"], "template"),
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


def _check_controller(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required("spec.selector"))
    errors += check_not_negative("spec.replicas", spec["replicas"])
    template = spec.get("template")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, detail))
    errors += check_template(template)
    policy = template["spec"].get("restartPolicy", "")
    return (
        errors
        if policy == "Always"
        else [*errors, unsupported("spec.template.spec.restartPolicy", policy, ("Always",))]
    )


def _controller_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, context),
        *container_cells(pod),
        labels_cell(spec.get("selector")),
    ]


CONTROLLERS = Rules(
    component=_API + "ReplicationController",
    columns=(
        NAME,
        Column("Desired", type="integer"),
        Column("Current", type="integer"),
        Column("Ready", type="integer"),
        AGE,
        Column("Containers", priority=1),
        Column("Images", priority=1),
        Column("Selector", priority=1),
    ),
    cells=_controller_row,
    defaults=_default_controller,
    check=_check_controller,
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
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
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


def _config_map_row(config: Object, context: Context) -> list[Any]:
    count = len(config.get("data") or ()) + len(config.get("binaryData") or ())
    return [config["metadata"]["name"], count, age(config, context)]


CONFIG_MAPS = Rules(
    component="io.k8s.api.core.v1.ConfigMap",
    columns=(NAME, Column("Data"), AGE),
    cells=_config_map_row,
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
    missing = [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]
    if missing or kind not in _JSON_KEYS:
        return missing
    return _check_json(_JSON_KEYS[kind], data)


def _check_json(key: str, data: dict[str, str]) -> list[FieldError]:
    try:
        readable = isinstance(json.loads(binascii.a2b_base64(data[key])), dict)
        detail = "json: cannot unmarshal into Go value of type map[string]interface {}"
    except ValueError:
        readable, detail = False, "invalid character in JSON text"
    return [] if readable else [invalid(f"data[{key}]", "<secret contents redacted>", detail)]


def _check_secret_update(secret: Object, old: Object) -> list[FieldError]:
    return immutable("type", secret.get("type", ""), old.get("type", "")) + _check_frozen(secret, old, "data")


def _secret_row(secret: Object, context: Context) -> list[Any]:
    return [secret["metadata"]["name"], secret.get("type", ""), len(secret.get("data") or ()), age(secret, context)]


SECRETS = Rules(
    component="io.k8s.api.core.v1.Secret",
    columns=(NAME, Column("Type"), Column("Data"), AGE),
    cells=_secret_row,
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


def _row(namespace: Object, context: Context) -> list[Any]:
    return [namespace["metadata"]["name"], namespace["status"].get("phase", ""), age(namespace, context)]


NAMESPACES = Rules(
    component="io.k8s.api.core.v1.Namespace",
    columns=(NAME, Column("Status"), AGE),
    cells=_row,
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
    columns=(NAME, AGE),
    cells=lambda account, context: [account["metadata"]["name"], age(account, context)],
    defaults=_clean_secrets,
)
