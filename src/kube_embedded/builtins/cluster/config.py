"""ConfigMaps and Secrets: keys, total size, immutability."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import immutable, too_long
from kube_embedded.builtins.common.printing import AGE, NAME, age
from kube_embedded.builtins.common.rules import Rules

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
