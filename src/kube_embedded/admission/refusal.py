"""How a refusal by admission looks to the client.

Never decides whether something is refused.
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Verdict
from kube_embedded.base import errors
from kube_embedded.base.errors import ApiError

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def forbidden(request: AdmissionRequest, why: str) -> ApiError:
    """403 about the object of the request, by its name or else by what its name would start with."""
    return errors.forbidden(request.group, request.resource, shown_name(request), why)


def shown_name(request: AdmissionRequest) -> str:
    """The name in a refusal, or else what a generated name would start with."""
    metadata = (request.object or {}).get("metadata") or {}
    return request.name or metadata.get("name") or metadata.get("generateName") or "Unknown"


def of_verdict(request: AdmissionRequest, verdict: Verdict) -> ApiError:
    """422 with one cause per field error, or the verdict's own code, or 403."""
    if verdict.code:
        return ApiError(verdict.code, _REASONS.get(verdict.code, ""), verdict.message)
    if verdict.errors:
        return errors.invalid(request.group, request.kind, request.name, verdict.errors)
    return forbidden(request, verdict.message)


def internal(message: str) -> ApiError:
    """500 with the cause, as every failure inside the server is told."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def denied(webhook: str, status: dict[str, Any] | None) -> ApiError:
    """What a webhook answered with allowed=false: its code where that is an error at all, its reason and details."""
    given = status or {}
    code = int(given.get("code") or 0)
    reason = str(given.get("reason") or "")
    explanation = given.get("message") or reason
    text = f'admission webhook "{webhook}" denied the request'
    message = f"{text}: {explanation}" if explanation else f"{text} without explanation"
    return ApiError(code if code >= 400 else 400, reason, message, given.get("details"))
