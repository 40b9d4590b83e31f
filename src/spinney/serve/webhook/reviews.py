"""AdmissionReview v1 from its other end: the question as a request value, the verdict as the answer.

Pure: bytes come and go elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object, Verdict
from kube_embedded.admission.chain import of_verdict
from spinney.api.documents import BODY, DocumentError, read_json_as
from spinney.serve.webhook.json_diff import differences

_V1 = "admission.k8s.io/v1"


class NotAReviewError(ValueError):
    """The body is no AdmissionReview v1."""


class _GroupKind(msgspec.Struct, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _GroupKind
    resource: _GroupKind
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = False
    options: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


def read_review(body: bytes) -> AdmissionRequest:
    """The request of a review."""
    try:
        review = read_json_as(body, _Review, limits=BODY)
    except DocumentError as error:
        raise NotAReviewError(f"not an AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (_V1, "AdmissionReview"):
        raise NotAReviewError(f"found {review.api_version} {review.kind}, expected {_V1} AdmissionReview")
    asked = review.request
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        group=asked.resource.group,
        version=asked.resource.version,
        kind=asked.kind.kind,
        resource=asked.resource.resource,
        subresource=asked.sub_resource,
        namespace=asked.namespace,
        name=asked.name or _name(asked.object),
        user=asked.user_info.username,
        groups=asked.user_info.groups or (),
        object=asked.object,
        old_object=asked.old_object,
        dry_run=bool(asked.dry_run),
        options=asked.options or {},
        user_uid=asked.user_info.uid,
        user_extra=asked.user_info.extra or {},
    )


def _name(obj: Object | None) -> str:
    metadata = (obj or {}).get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def answer_review(request: AdmissionRequest, verdict: Verdict) -> bytes:
    """The review that answers the request: allowed with a patch where something changes, or a Status with causes."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(request, verdict)
    elif verdict.object is not None:
        operations = differences(request.object, verdict.object)
        if operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return msgspec.json.encode({"apiVersion": _V1, "kind": "AdmissionReview", "response": response})


def _status(request: AdmissionRequest, verdict: Verdict) -> Mapping[str, Any]:
    shown = of_verdict(request, verdict).status()
    return {key: value for key, value in shown.items() if key not in ("kind", "apiVersion")}
