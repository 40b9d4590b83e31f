"""All errors of requests to an API server as one class tree; the class determines the retry policy.

Nothing in here sends, retries or logs anything: the control loops read the policies.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

import msgspec


class Policy(Enum):
    """How a control loop reacts to an error."""

    RETRY_NOW = "retry now"
    RETRY_LATER = "retry later"
    TELL_USER = "tell the user"
    OUR_BUG = "our bug"


class ClientError(Exception):
    """Base class of all client errors."""

    policy: ClassVar[Policy] = Policy.OUR_BUG


class ConfigError(ClientError):
    """A kubeconfig or an environment that cannot be used; the message names file, field and what is allowed."""

    policy = Policy.TELL_USER


class CredentialError(ClientError):
    """A token, certificate or exec plugin that gives no usable credential."""

    policy = Policy.TELL_USER


class TransportError(ClientError):
    """The connection failed; the request may or may not have been carried out."""

    policy = Policy.RETRY_LATER


class TransportTimeout(TransportError):
    """No answer in time; the request may or may not have been carried out."""


class NotSent(TransportError):
    """The server was never reached: nothing took effect, any request may be repeated."""


class CertificateRefused(NotSent):
    """The server's certificate is not trusted."""

    policy = Policy.TELL_USER


class Undecodable(ClientError):
    """The server's answer does not have the shape that was asked for."""


class StaleView(ClientError):
    """The cache does not show our own writes yet; a decision on it would use outdated state."""

    policy = Policy.RETRY_LATER


class Cause(msgspec.Struct, frozen=True):
    """One cause in a Status, usually about one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The object that a Status is about, with the causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """A `v1.Status` as the server sent it, or as built from an answer without one."""

    status: str = "Failure"
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    def has_cause(self, reason: str) -> bool:
        return self.details is not None and any(cause.reason == reason for cause in self.details.causes)

    def is_about(self, field: str) -> bool:
        return self.details is not None and any(cause.field == field for cause in self.details.causes)


def words(status: Status) -> str:
    """The message of a Status, for users."""
    return status.message or status.reason or f"the API server answered {status.code} without a message"


class ApiStatusError(ClientError):
    """The server answered with an error status."""

    policy = Policy.TELL_USER

    def __init__(self, status: Status, *, about: str = "", retry_after_s: float | None = None) -> None:
        words = status.message or status.reason or "no message"
        super().__init__(f"{about}: {status.code} {words}" if about else f"{status.code} {words}")
        self.status = status
        self.about = about
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        return (_revive, (type(self), self.status, self.about, self.retry_after_s))


class BadRequest(ApiStatusError):
    """We sent something the server cannot read."""

    policy = Policy.OUR_BUG


class Unauthorized(ApiStatusError):
    """The server does not know who we are."""


class Forbidden(ApiStatusError):
    """The server knows who we are but does not permit the request."""


class NotFound(ApiStatusError):
    """No such object, or no such kind."""

    policy = Policy.RETRY_LATER


class Conflict(ApiStatusError):
    """The object changed since we read it."""

    policy = Policy.RETRY_NOW


class AlreadyExists(ApiStatusError):
    """An object of that name exists already."""

    policy = Policy.RETRY_NOW


class Gone(ApiStatusError):
    """The version or continue token is older than the server's history."""

    policy = Policy.RETRY_NOW


class Invalid(ApiStatusError):
    """Validation or admission refused the object; the causes name the fields."""


class TooManyRequests(ApiStatusError):
    """The server sheds load, or a disruption budget says not now; see `retry_after_s`."""

    policy = Policy.RETRY_LATER


class ServerError(ApiStatusError):
    """The server failed on its side (5xx)."""

    policy = Policy.RETRY_LATER


_BY_CODE: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    406: BadRequest,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: TooManyRequests,
}


def status_error(status: Status, *, about: str = "", retry_after_s: float | None = None) -> ApiStatusError:
    """The error for a Status: chosen by its reason where codes are ambiguous, else by its code."""
    if status.code == 409 and status.reason == "AlreadyExists":
        kind: type[ApiStatusError] = AlreadyExists
    elif status.code >= 500:
        kind = ServerError
    else:
        kind = _BY_CODE.get(status.code, ApiStatusError)
    return kind(status, about=about, retry_after_s=retry_after_s)


def _revive(kind: type[ApiStatusError], status: Status, about: str, retry_after_s: float | None) -> ApiStatusError:
    return kind(status, about=about, retry_after_s=retry_after_s)
