"""The outcome of a write: one type for each reaction that a caller may want.

Expected answers of the server are values, never exceptions; `written` turns outcomes into errors for callers that only
retry.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from spinney.drive.client.codec import read_status
from spinney.drive.client.errors import ClientError, ServerError, Status, TransportError, Undecodable, status_error
from spinney.drive.client.http.retries import retry_after_s
from spinney.drive.client.http.transport import Response


class Written(msgspec.Struct, frozen=True):
    """The write succeeded. `body` is the server's answer: the object as it is now, or a Status for subresources."""

    body: bytes
    uid: str = ""
    version: str = ""
    name: str = ""
    lingers: bool = False  # a deleted object that still exists: finalizers or its grace period

    @property
    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Deleted(msgspec.Struct, frozen=True):
    """The object is gone from the server now."""

    uid: str = ""


class Stale(msgspec.Struct, frozen=True):
    """The precondition does not hold: read the object again and decide again."""

    status: Status


class FieldConflict(msgspec.Struct, frozen=True):
    """Another field manager owns fields that we apply without force."""

    status: Status


class Exists(msgspec.Struct, frozen=True):
    """Create: an object of that name exists already."""

    status: Status


class Gone(msgspec.Struct, frozen=True):
    """There is no such object, or its kind or namespace does not exist."""

    status: Status


class RetryLater(msgspec.Struct, frozen=True):
    """Nothing was written: the server is busy or unreachable, or a disruption budget forbids the eviction."""

    reason: Status | TransportError
    retry_after_s: float | None = None


class Refused(msgspec.Struct, frozen=True):
    """The server rejects the write, and a retry would not help: validation, admission, permission."""

    status: Status


class Unknown(msgspec.Struct, frozen=True):
    """It is not known whether the write took effect."""

    reason: Status | TransportError


Outcome = Written | Deleted | Stale | FieldConflict | Exists | Gone | RetryLater | Refused | Unknown


def written(outcome: Outcome) -> Written:
    """The written object; for any other outcome the error whose class holds the retry policy is raised."""
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
    """The outcome of a write, from the server's response."""
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
