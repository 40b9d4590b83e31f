"""What only roles of ours write is refused from anybody else: keys under our prefix, and the status of our kinds.

Only changes are judged: whoever sends back what is there, as editors and collectors do, gets through (INV8). Pure and
cheap, for every write of a pod is looked at: no other object is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Verdict
from kube_apimachinery.field_errors import FieldError, forbidden
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.reserved_keys import RESERVED, is_reserved, status_writers
from spinney.core.admission.decoding import part
from spinney.core.admission.settings import AdmissionSettings

MASTERS = "system:masters"
"""The group whose members may do everything on an API server; also this."""
OPERATIONS = ("CREATE", "UPDATE")
CARRIERS = {"pods": ("pods", "pods/status", "pods/binding", "bindings")}
"""Through which resources labels and annotations can be written, where it is not the object's own alone: those of a
Binding are copied to the pod, and the API server takes Bindings at two paths.
"""
MARKS = ("annotations", "labels")

_SHOWN = 8
_KEYS = {(each.group, path): each for each in RESERVED for path in CARRIERS.get(each.resource, (each.resource,))}
_STATUS = status_writers()


def is_trusted(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """Administrators, and those that the configuration exempts."""
    return MASTERS in request.groups or request.user in settings.exempt_users


def refuses(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """Whether the write is refused, in a moment: nearly all are not."""
    if request.operation not in OPERATIONS or is_trusted(request, settings):
        return False
    kind = (request.group, request.resource)
    if request.subresource == "status" and kind in _STATUS:
        return request.user not in settings.users_of(_STATUS[kind])
    return next(refused_keys(request, settings), None) is not None


def judge_reserved(request: AdmissionRequest, settings: AdmissionSettings) -> Verdict | None:
    """The refusal; None where there is nothing against the write."""
    if not refuses(request, settings):
        return None
    kind = (request.group, request.resource)
    if request.subresource == "status" and kind in _STATUS:
        return Verdict(False, message=status_message(_STATUS[kind], request.user))
    found = list(refused_keys(request, settings))
    row = _KEYS[_written(request)]
    shown = [key_message(mark, key, row.roles(key), request.user) for mark, key in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return Verdict(False, message="; ".join((*shown, *more)))


def refused_keys(request: AdmissionRequest, settings: AdmissionSettings) -> Iterator[tuple[str, str]]:
    """The reserved keys that are set, changed or removed by somebody who may not, each with where it is."""
    row = _KEYS.get(_written(request))
    if row is None:
        return
    for mark in MARKS:
        for key in changed_keys(_marks(request.object, mark), _marks(request.old_object, mark)):
            if request.user not in settings.users_of(row.roles(key)):
                yield mark, key


def _written(request: AdmissionRequest) -> tuple[str, str]:
    """The API group and the resource, with its subresource, as rules of admission name them."""
    path = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return request.group, path


def changed_keys(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """The reserved keys that are set, changed or removed, sorted."""
    if new == old:
        return []
    return sorted(key for key in {**old, **new} if is_reserved(key) and _is_changed(key, new, old))


def _is_changed(key: str, new: dict[str, Any], old: dict[str, Any]) -> bool:
    return not (key in new and key in old and new[key] == old[key])


def _marks(obj: Any, mark: str) -> dict[str, Any]:
    return part(obj, "metadata", mark)


def reserved_errors(podcliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Reserved keys in what pods are made of: nobody may set them there."""
    for index, clique in enumerate(podcliqueset.spec.template.cliques):
        for mark, found in (("annotations", clique.annotations), ("labels", clique.labels)):
            for key in sorted(filter(is_reserved, found)):
                path = f"spec.template.cliques[{index}].{mark}[{key}]"
                yield forbidden(path, "is written by roles of Spinney only: leave it out")


def key_message(mark: str, key: str, roles: tuple[str, ...], user: str) -> str:
    return f'metadata.{mark}[{key}]: {_by(roles)} only; "{user}" may not set, change or remove it'


def status_message(roles: tuple[str, ...], user: str) -> str:
    return f'status: {_by(roles)} only; "{user}" may not write it'


def _by(roles: tuple[str, ...]) -> str:
    return f"is written by Spinney's {' and '.join(roles)}"
