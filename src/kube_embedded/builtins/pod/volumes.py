"""Checks of the volumes of a pod: one source each, and what the common sources need."""

from __future__ import annotations

from collections.abc import Callable

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_apimachinery.quantity import compare
from kube_embedded.builtins.common.field_checks import check_label, unsupported
from kube_embedded.builtins.common.metadata import LABEL

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
