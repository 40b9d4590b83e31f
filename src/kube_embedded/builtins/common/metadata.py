"""Checks of ObjectMeta: names, labels, annotations, owners and finalizers, worded as Kubernetes words them.

It never changes an object: stamping metadata is the server's work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid, required

ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class GoInternal:
    """Wraps a value whose keys must be shown in the order given."""

    value: Any

    def __str__(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Naming:
    """How objects of a kind may be called: complaints about a name, or about the prefix of a generated one."""

    of_name: Callable[[str], tuple[str, ...]]
    of_prefix: Callable[[str], tuple[str, ...]]


def _naming(rule: Callable[[str], list[str]]) -> Naming:
    cached = lru_cache(maxsize=4096)(lambda value: tuple(rule(value)))
    return Naming(cached, lambda prefix: cached(_without_dash(prefix)))


def _without_dash(prefix: str) -> str:
    """A generateName may end in a hyphen, since more follows."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


SUBDOMAIN = _naming(name_validation.dns_subdomain)
LABEL = _naming(name_validation.dns_label)
PATH_SEGMENT = Naming(
    lambda name: tuple(name_validation.path_segment(name)),
    lambda prefix: tuple(name_validation.path_segment(prefix, prefix=True)),
)


@lru_cache(maxsize=8192)
def key_complaints(key: str) -> tuple[str, ...]:
    """What is wrong with a label key, annotation key or finalizer."""
    return tuple(name_validation.qualified_name(key))


@lru_cache(maxsize=8192)
def value_complaints(value: str) -> tuple[str, ...]:
    """What is wrong with a label value."""
    return tuple(name_validation.label_value(value))


def validate_metadata(
    obj: Object, namespaced: bool, naming: Naming, *, any_finalizer: bool = False
) -> list[FieldError]:
    """Everything that can be said about metadata without knowing another version of the object."""
    meta = obj["metadata"]
    errors: list[FieldError] = []
    prefix = meta.get("generateName")
    if prefix:
        errors += [invalid("metadata.generateName", prefix, text) for text in naming.of_prefix(prefix)]
    name = meta.get("name")
    if name:
        errors += [invalid("metadata.name", name, text) for text in naming.of_name(name)]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    errors += _check_namespace(meta.get("namespace", ""), namespaced)
    return errors + _check_details(meta, any_finalizer)


def validate_metadata_update(
    obj: Object, old: Object, namespaced: bool, naming: Naming, *, any_finalizer: bool = False
) -> list[FieldError]:
    """What an update may not do to metadata, and the checks of the new metadata itself."""
    meta, old_meta = obj["metadata"], old["metadata"]
    errors = _check_new_finalizers(meta, old_meta)
    if meta.get("generation", 0) < old_meta.get("generation", 0):
        errors.append(invalid("metadata.generation", meta.get("generation", 0), "must not be decremented"))
    for name in _IMMUTABLE:
        if meta.get(name) != old_meta.get(name):
            errors.append(invalid(f"metadata.{name}", meta.get(name), "field is immutable"))
    return errors + _check_details(meta, any_finalizer)


def _check_namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        return [forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required("metadata.namespace")]
    return [invalid("metadata.namespace", namespace, text) for text in LABEL.of_name(namespace)]


def _check_details(meta: dict[str, Any], any_finalizer: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if "labels" in meta:
        errors += validate_labels(meta["labels"], "metadata.labels")
    if "annotations" in meta:
        errors += validate_annotations(meta["annotations"], "metadata.annotations")
    if "ownerReferences" in meta:
        errors += _check_owners(meta["ownerReferences"])
    if "finalizers" in meta:
        errors += _check_finalizers(meta["finalizers"], any_finalizer)
    return errors


def validate_labels(labels: dict[str, str], path: str) -> list[FieldError]:
    """Keys and values of labels, in the order of their keys."""
    if not any(key_complaints(key) or value_complaints(value) for key, value in labels.items()):
        return []
    errors: list[FieldError] = []
    for key in sorted(labels):
        errors += [invalid(path, key, text) for text in key_complaints(key)]
        errors += [invalid(path, labels[key], text) for text in value_complaints(labels[key])]
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> list[FieldError]:
    """Keys of annotations, and their total size."""
    errors: list[FieldError] = []
    total = 0
    for key, value in annotations.items():
        errors += [invalid(path, key, text) for text in key_complaints(key.lower())]
        total += len(key) + len(value) if value.isascii() else len(key.encode()) + len(value.encode())
    if total > ANNOTATIONS_LIMIT:
        errors.append(FieldError(path, ErrorType.TOO_LONG, None, f"may not be more than {ANNOTATIONS_LIMIT} bytes"))
    return errors


def _check_owners(owners: list[Object]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        errors += _check_owner(owner, path)
        if owner.get("controller"):
            shown = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {shown}"
                )
                errors.append(invalid(path, GoInternal([_in_order(one) for one in owners]), detail))
            controller = shown
    return errors


def _in_order(owner: Object) -> Object:
    return {name: owner[name] for name in _OWNER_FIELDS if name in owner}


def _check_owner(owner: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    version = owner.get("apiVersion", "").rpartition("/")[2]
    if not version:
        errors.append(invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            errors.append(invalid(f"{path}.{name}", owner.get(name, ""), "must not be empty"))
    if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
        errors.append(invalid(path, GoInternal(_in_order(owner)), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _check_finalizers(finalizers: list[str], any_name: bool) -> list[FieldError]:
    """Finalizers of the core kinds are standard ones or have a domain; those of other kinds need not."""
    path = "metadata.finalizers"
    errors: list[FieldError] = []
    for index, finalizer in enumerate(finalizers):
        errors += [invalid(path, finalizer, text) for text in key_complaints(finalizer)]
        if not any_name and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"{path}[{index}]", finalizer, detail))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, finalizers, detail))
    return errors


def _check_new_finalizers(meta: dict[str, Any], old_meta: dict[str, Any]) -> list[FieldError]:
    if "deletionTimestamp" not in old_meta:
        return []
    added = sorted(set(meta.get("finalizers", ())) - set(old_meta.get("finalizers", ())))
    if not added:
        return []
    shown = ", ".join(f'"{one}"' for one in added)
    detail = (
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{" + shown + "}"
    )
    return [forbidden("metadata.finalizers", detail)]
