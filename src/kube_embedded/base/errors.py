"""Refusals of the API server: every one is a Kubernetes Status with the code and reason that kubectl expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_apimachinery.field_errors import FieldError, aggregate


class ApiError(Exception):
    """A request that is refused; `status()` is the body of the answer."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers
        self.metadata: dict[str, Any] = {}

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def _qualified(group: str, kind: str) -> str:
    return f"{kind}.{group}" if group else kind


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    subject = f'{_qualified(group, plural)} "{name}"' if name else _qualified(group, plural)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(group, plural, name))


def not_found(group: str, plural: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{_qualified(group, plural)} "{name}" not found', _details(group, plural, name))


class NoSuchPath(ApiError):
    """Nothing is served under this path; the answer is no Status but a line of text, as a real server gives it."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "the server could not find the requested resource", {})


def no_such_path() -> ApiError:
    """A door that this kind of object does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{_qualified(group, plural)} "{name}" already exists', _details(group, plural, name)
    )


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}',
        _details(group, plural, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def stale(group: str, plural: str, name: str) -> ApiError:
    return conflict(group, plural, name, MODIFIED)


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 with one cause per field error, all of them at once."""
    details = _details(group, kind, name)
    details["causes"] = [{"reason": e.type.value, "message": e.body(), "field": e.path} for e in errors]
    message = f'{_qualified(group, kind)} "{name}" is invalid: {aggregate(list(errors))}'
    return ApiError(422, "Invalid", message, details)


def too_many_requests(message: str, retry_after_s: int = 1, details: dict[str, Any] | None = None) -> ApiError:
    headers = (("Retry-After", str(retry_after_s)),) if retry_after_s else ()
    return ApiError(429, "TooManyRequests", message, details, headers)


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def timeout(message: str) -> ApiError:
    return ApiError(504, "Timeout", f"Timeout: {message}")
