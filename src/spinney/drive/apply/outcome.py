"""What became of a write: one value per thing a caller may want to do about it.

Never an exception for what the server says in the normal course of things; `written` turns outcomes into the error
tree for callers whose only plan is to try again.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from spinney.drive.client.codec import read_status
from spinney.drive.client.errors import ClientError, ServerError, Status, TransportError, Undecodable, status_error
from spinney.drive.client.http.retries import retry_after_s
from spinney.drive.client.http.transport import Response


class Written(msgspec.Struct, frozen=True):
    """It is written. `body` is the server's answer: the object as it is now, or a Status for subresources."""

    body: bytes
    uid: str = ""
    version: str = ""
    name: str = ""
    lingers: bool = False  # a deleted object that stays for its finalizers or its grace

    @property
    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Deleted(msgspec.Struct, frozen=True):
    """The object is gone from the server now."""

    uid: str = ""


class Stale(msgspec.Struct, frozen=True):
    """The precondition does not hold: read again, decide again."""

    status: Status


class FieldConflict(msgspec.Struct, frozen=True):
    """Somebody else owns fields that we apply without force."""

    status: Status


class Exists(msgspec.Struct, frozen=True):
    """Create: an object of that name is there."""

    status: Status


class Gone(msgspec.Struct, frozen=True):
    """There is no such object (or its kind or namespace is not there)."""

    status: Status


class RetryLater(msgspec.Struct, frozen=True):
    """Nothing was written: the server is busy or out of reach, or a disruption budget says no."""

    reason: Status | TransportError
    retry_after_s: float | None = None


class Refused(msgspec.Struct, frozen=True):
    """The server will not have it, now or later: validation, admission, permission."""

    status: Status


class Unknown(msgspec.Struct, frozen=True):
    """It may or may not have been written."""

    reason: Status | TransportError


Outcome = Written | Deleted | Stale | FieldConflict | Exists | Gone | RetryLater | Refused | Unknown


def written(outcome: Outcome) -> Written:
    """The written object, or the error whose class says what to do next."""
    match outcome:
        case Written():
            return outcome
        case Deleted(uid):
            raise Undecodable(f"found uid {uid} deleted, expected an object")
        case Stale(status) | FieldConflict(status) | Exists(status) | Gone(status) | Refused(status):
            raise status_error(status)
        case RetryLater(reason, after_s):
            raise _as_error(reason, after_s)
        case Unknown(reason):
            raise _as_error(reason, None)
        case _:
            assert_never(outcome)


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()


class _Details(msgspec.Struct):
    uid: str = ""


class _Answer(msgspec.Struct):
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw(b"")
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    details: _Details | None = None


_ANSWERS = msgspec.json.Decoder(_Answer)
_SUCCESS = b'"Success"'


def read_outcome(response: Response) -> Outcome:
    """The outcome that an answer means."""
    if 200 <= response.status < 300:
        return _read_success(response.body)
    status = read_status(response.status, response.body)
    match response.status:
        case 404:
            return Gone(status)
        case 409 if status.reason == "AlreadyExists":
            return Exists(status)
        case 409 if status.has_cause("FieldManagerConflict"):
            return FieldConflict(status)
        case 409:
            return Stale(status)
        case 429 | 503:
            return RetryLater(status, retry_after_s(response))
        case code if code >= 500:
            return Unknown(status)
        case _:
            return Refused(status)


def _read_success(body: bytes) -> Outcome:
    try:
        answer = _ANSWERS.decode(body)
    except msgspec.MsgspecError as error:
        return Unknown(TransportError(f"the answer to a write cannot be read: {error}"))
    if answer.kind == "Status" and bytes(answer.status) == _SUCCESS:
        return Written(body, answer.details.uid if answer.details else "")
    meta = answer.metadata
    lingers = bool(meta.finalizers or meta.deletion_grace_period_seconds)
    return Written(body, meta.uid, meta.resource_version, meta.name, lingers)


def _as_error(reason: Status | TransportError, after_s: float | None) -> ClientError:
    if isinstance(reason, TransportError):
        return reason
    return status_error(reason, retry_after_s=after_s) if reason.code else ServerError(reason)
