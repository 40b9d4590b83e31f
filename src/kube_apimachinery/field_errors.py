"""Errors about one field of one object, worded as Kubernetes words them.

A field error never knows how it will be shown: as a Status, as an admission verdict or on a terminal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any


class ErrorType(Enum):
    """Kinds of field errors; the value is the machine-readable `reason` of a Status cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_WORDS = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset({ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL})
OMITTED = object()
"""A value that is not shown, because it may be large."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """`path: What: value: detail`, for instance `spec.replicas: Invalid value: -1: must be at least 0`."""

    path: str
    type: ErrorType
    value: Any = None
    detail: str = ""

    def body(self) -> str:
        """The text without the path, as a Status cause carries it."""
        words = _WORDS[self.type]
        hidden = self.type in _WITHOUT_VALUE or self.value is OMITTED
        shown = words if hidden else f"{words}: {_render(self.value)}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        return f"{self.path}: {self.body()}"


def _render(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return str(value)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, ErrorType.REQUIRED, None, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, ErrorType.INVALID, value, detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, ErrorType.FORBIDDEN, None, detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, ErrorType.DUPLICATE, value)


def not_supported(path: str, value: Any, allowed: tuple[str, ...] | list[str]) -> FieldError:
    """An enum value that is not one of the allowed ones; they are listed in sorted order."""
    shown = ", ".join(json.dumps(one) for one in sorted(allowed))
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {shown}")


def aggregate(errors: list[FieldError]) -> str:
    """One error as it is; several in brackets, in order, each once."""
    shown = list(dict.fromkeys(str(error) for error in errors))
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
