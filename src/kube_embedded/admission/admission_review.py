"""AdmissionReview v1: the question that is sent to a webhook and the reading of its answer.

Pure: bytes are sent and received elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_embedded.admission.webhook_config import is_namespace
from kube_embedded.patch.go_wording import json_type

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_V1 = "admission.k8s.io/v1"
_FIELDS: dict[str, tuple[type, str]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "warnings": (list, "[]string"),
}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Undecodable(Exception):
    """The answer is no AdmissionReview at all."""


class InvalidResponse(Exception):
    """The answer is an AdmissionReview that may not be believed."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request as one webhook sees it: in the version it wants."""

    request: AdmissionRequest
    version: str
    object: Object | None
    old_object: Object | None


@dataclass(frozen=True, slots=True)
class Response:
    allowed: bool
    status: dict[str, Any] | None
    patch: bytes
    patch_type: str
    warnings: tuple[str, ...]


def describe(question: Question, uid: str) -> dict[str, Any]:
    """The `request` of an AdmissionReview; also what matchConditions know as `request`."""
    request = question.request
    kind = _kind(question.object or question.old_object, request, question.version)
    asked = _kind(request.object or request.old_object, request, request.version)
    resource = {"group": request.group, "version": question.version, "resource": request.resource}
    described: dict[str, Any] = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "subResource": request.subresource,
        "requestKind": asked,
        "requestResource": {**resource, "version": request.version},
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": namespace_of(request),
        "operation": request.operation,
        "userInfo": _user_info(request),
        "object": question.object,
        "oldObject": question.old_object,
        "dryRun": request.dry_run,
        "options": _options(request),
    }
    for optional in ("subResource", "requestSubResource", "name", "namespace"):
        if not described[optional]:
            del described[optional]
    return described


def _user_info(request: AdmissionRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {"username": request.user, "groups": list(request.groups)}
    if request.user_uid:
        shown["uid"] = request.user_uid
    if request.user_extra:
        shown["extra"] = {key: list(values) for key, values in request.user_extra.items()}
    return shown


def encode(question: Question, uid: str) -> bytes:
    review = {"kind": "AdmissionReview", "apiVersion": _V1, "request": describe(question, uid)}
    return msgspec.json.encode(review)


def namespace_of(request: AdmissionRequest) -> str:
    """A Namespace counts as being in itself."""
    return request.namespace or (request.name if is_namespace(request) else "")


def decode(body: bytes, uid: str, *, mutating: bool) -> Response:
    """The answer, once it is sure to be one to this question."""
    response = _response(body, uid)
    patch, patch_type = _patch(response), response.get("patchType")
    if mutating:
        _check_mutating(patch, patch_type)
    else:
        _check_validating(patch, patch_type)
    return Response(
        allowed=response.get("allowed") is True,
        status=response.get("status"),
        patch=patch,
        patch_type=patch_type or "",
        warnings=tuple(str(warning) for warning in response.get("warnings") or ()),
    )


def _response(body: bytes, uid: str) -> dict[str, Any]:
    review = _review(body)
    response = review.get("response")
    if response is None:
        raise InvalidResponse("webhook response was absent")
    if response.get("uid") != uid:
        raise InvalidResponse(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    if not review.get("kind") or not review.get("apiVersion"):
        group, _, version = (review.get("apiVersion") or "").rpartition("/")
        found = f"{group}/{version}, Kind={review.get('kind') or ''}"
        raise InvalidResponse(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}")
    checked: dict[str, Any] = response
    return checked


def _review(body: bytes) -> dict[str, Any]:
    """An object that is an AdmissionReview v1 or does not say what it is, with a response of the right types."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Undecodable(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        complaint = f"json: cannot unmarshal {json_type(review)} into Go value of type {_TYPE_META}"
        raise Undecodable(f"couldn't get version/kind; json parse error: {complaint}")
    kind, api_version = review.get("kind") or "", review.get("apiVersion") or ""
    if (kind, api_version) == ("AdmissionReview", "admission.k8s.io/v1beta1"):
        raise Undecodable("converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion")
    if kind and (kind != "AdmissionReview" or api_version not in ("", _V1)):
        raise Undecodable(f'no kind "{kind}" is registered for version "{api_version}"')
    _check_types(review.get("response"))
    return review


def _check_types(response: Any) -> None:
    if response is None:
        return
    if not isinstance(response, dict):
        raise Undecodable(f"json: cannot unmarshal {json_type(response)} into Go struct field AdmissionReview.response")
    for field, (wanted, shown) in _FIELDS.items():
        value = response.get(field)
        if value is not None and not isinstance(value, wanted):
            where = f"AdmissionResponse.response.{field} of type {shown}"
            raise Undecodable(f"json: cannot unmarshal {json_type(value)} into Go struct field {where}")


def _check_mutating(patch: bytes, patch_type: Any) -> None:
    if patch and patch_type is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise InvalidResponse('webhook returned invalid response.patchType of ""')


def _check_validating(patch: bytes, patch_type: Any) -> None:
    if patch:
        raise InvalidResponse("validating webhook may not return response.patch")
    if patch_type is not None:
        raise InvalidResponse("validating webhook may not return response.patchType")


def _patch(response: Mapping[str, Any]) -> bytes:
    encoded = response.get("patch") or ""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        at = next((at for at, char in enumerate(encoded) if char not in _BASE64), len(encoded))
        raise Undecodable(f"illegal base64 data at input byte {at}") from error


def _kind(obj: Object | None, request: AdmissionRequest, version: str) -> dict[str, str]:
    """The object says itself what it is (a Scale or a Binding is not of the resource's group); else the resource."""
    if obj is not None and obj.get("kind") and obj.get("apiVersion"):
        group, _, own = obj["apiVersion"].rpartition("/")
        return {"group": group, "version": own, "kind": obj["kind"]}
    return {"group": request.group, "version": version, "kind": request.kind}


def _options(request: AdmissionRequest) -> dict[str, Any] | None:
    kind = _OPTIONS.get(request.operation)
    if kind is None and not request.options:
        return None
    options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1", **request.options}
    if request.dry_run:
        options["dryRun"] = ["All"]
    return options
