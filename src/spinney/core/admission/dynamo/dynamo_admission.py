"""Admission of DynamoGraphDeployments: the rules as one plug-in, whichever version a request is in.

Errors about the stored version are worded for the version that the user wrote: paths, and values with fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_apimachinery.field_errors import FieldError
from spinney.api.dynamo_conversion import ALPHA, ConversionError, to_alpha, to_beta
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.core.admission.decoding import items, part, read
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings, defaulted
from spinney.core.admission.dynamo.validation import (
    change_errors,
    change_warnings,
    content_errors,
    creation_errors,
    topology_errors,
)
from spinney.core.admission.findings import Findings
from spinney.core.expansion.dynamo.podcliqueset import ACCOUNTS

_COMPONENT = re.compile(r"^spec\.components\[(\d+)\]")
_MAIN = re.compile(r"^\.podTemplate\.spec\.containers(\[0\])?(?=\.|$)")
_NAME = {"clusterTopologyName": "topologyProfile"}
_RENAMED = {**_NAME, "spec.components": "spec.services", "spec.env": "spec.envs"}


def in_alpha(error: FieldError, names: Sequence[str]) -> FieldError:
    """`names`: of the components in the order of the stored version."""
    found = _COMPONENT.match(error.path)
    path = error.path
    if found and int(found.group(1)) < len(names):
        rest = _MAIN.sub(".extraPodSpec.mainContainer", path[found.end() :])
        for new, old in (("podTemplate.spec", "extraPodSpec"), ("podTemplate.metadata", "extraPodMetadata")):
            rest = f".{old}{rest.removeprefix(f'.{new}')}" if rest.startswith(f".{new}") else rest
        path = f"spec.services[{names[int(found.group(1))]}]{rest}"
    head, dot, last = path.rpartition(".")
    value = error.value
    if last == "topologyConstraint" and isinstance(value, dict):
        value = {_NAME.get(key, key): one for key, one in value.items()}
    return replace(error, path=_RENAMED.get(path, f"{head}{dot}{_RENAMED.get(last, last)}"), value=value)


OPERATIONS = ("CREATE", "UPDATE")


class DynamoAdmission:
    """Defaulting and validation of DynamoGraphDeployments."""

    def __init__(self, settings: DynamoAdmissionSettings) -> None:
        self._settings = settings

    def handles(self, request: AdmissionRequest) -> bool:
        ours = (request.group, request.resource) == (DynamoGraphDeployment.GROUP, DynamoGraphDeployment.PLURAL)
        return ours and not request.subresource and request.operation in OPERATIONS

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        """Fill in; what cannot be read is left for the schema to refuse."""
        if _is_leaving(request):
            return Verdict()
        try:
            stored, old = _stored(request.object), _stored(request.old_object)
            changed = defaulted(stored, old if request.operation == "UPDATE" else None, self._settings)
        except (ConversionError, RecursionError, AttributeError, TypeError):
            return Verdict()
        if changed is stored:
            return Verdict()
        return Verdict(object=to_alpha(changed) if _is_alpha(request.object) else changed)

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        """Every error at once, at the paths of the version that was written."""
        if _is_leaving(request):
            return Verdict()
        try:
            stored, old = _stored(request.object), _stored(request.old_object)
        except ConversionError as error:
            return Verdict(False, message=str(error), code=400)
        except RecursionError:
            return Verdict(False, message="the object is nested too deeply to be checked", code=400)
        found = Findings()
        found.refuse_all(self._errors(request, stored, old, lookup))
        warnings = tuple(change_warnings(stored, old)) if request.operation == "UPDATE" else ()
        if not found.errors:
            return Verdict(warnings=warnings)
        errors = found.told()
        if _is_alpha(request.object):
            names = [str(one.get("name")) for one in items(part(stored, "spec").get("components"))]
            errors = tuple(in_alpha(error, names) for error in errors)
        return Verdict(False, errors=errors, warnings=warnings)

    def _errors(self, request: AdmissionRequest, stored: Object, old: Object, lookup: Lookup) -> Iterator[FieldError]:
        """What a deployment must be comes first; only if that is right is it asked what changed."""
        typed = read(stored, DynamoGraphDeployment)
        if isinstance(typed, FieldError):
            yield typed
            return
        content = list(content_errors(stored))
        yield from content
        if request.operation == "CREATE":
            yield from creation_errors(stored)
            yield from topology_errors(stored, self._settings, lookup)
        elif not content:
            is_operator = request.user in self._settings.operator_users
            yield from change_errors(stored, old, is_operator or _is_planner(request), is_operator)


def _is_planner(request: AdmissionRequest) -> bool:
    """Planners scale the deployments of their own namespace."""
    return request.user == f"system:serviceaccount:{request.namespace}:{ACCOUNTS['planner']}"


def _is_alpha(obj: Object | None) -> bool:
    return (obj or {}).get("apiVersion") == ALPHA


def _stored(obj: Object | None) -> Object:
    if obj is None:
        return {}
    return to_beta(obj) if _is_alpha(obj) else obj


def _is_leaving(request: AdmissionRequest) -> bool:
    return bool(part(request.object, "metadata").get("deletionTimestamp"))
