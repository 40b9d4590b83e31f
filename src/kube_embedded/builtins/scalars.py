"""The values at the leaves of built-in objects: how each is checked, spelt canonically, and refused.

A leaf knows nothing of the field it sits in; messages about fields are made in `decode`.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kube_apimachinery.quantity import QuantityError, canonical

INT32 = 2**31
INT64 = 2**63
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICROS_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_STEPS = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")


class TypeMismatch(Exception):
    """The value does not fit; with a message when the leaf's own parser refused it."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One leaf type. `exact` is set where a class check says it all."""

    walk: Callable[[Any], Any]
    zero: Any
    go: str  # how Go names it when it refuses a JSON type
    exact: type | None = None
    struct: bool = False  # a struct in Go: written even when empty
    own_go: bool = False  # messages name `go`, not the type of the field


def _string(value: Any) -> Any:
    if value.__class__ is str:
        return value
    if value is None:
        return ""
    raise TypeMismatch


def _boolean(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    if value is None:
        return False
    raise TypeMismatch


def _integer(limit: int) -> Callable[[Any], Any]:
    def walk(value: Any) -> Any:
        if value.__class__ is int and -limit <= value < limit:
            return value
        if value is None:
            return 0
        raise TypeMismatch

    return walk


def _number(value: Any) -> Any:
    if value.__class__ is int or value.__class__ is float:
        return value
    if value is None:
        return 0
    raise TypeMismatch


def _quantity(value: Any) -> Any:
    if value is None or value == "null":
        return "0"
    try:
        return canonical(value)
    except QuantityError:
        raise TypeMismatch(_QUANTITY_TEXT) from None


def _int_or_string(value: Any) -> Any:
    if value.__class__ is str or (value.__class__ is int and -INT32 <= value < INT32):
        return value
    if value is None:
        return 0
    raise TypeMismatch


def _bytes(value: Any) -> Any:
    if value is None:
        return ""
    if value.__class__ is not str:
        raise TypeMismatch
    plain: str = value.replace("\n", "").replace("\r", "")
    try:
        binascii.a2b_base64(plain, strict_mode=True)
    except (binascii.Error, ValueError):
        raise TypeMismatch(f"illegal base64 data at input byte {_illegal_byte(value)}") from None
    return plain


def _illegal_byte(text: str) -> int:
    for position, mark in enumerate(text):
        if not (mark.isascii() and (mark.isalnum() or mark in "+/\r\n")):
            return position
    return len(text) - len(text) % 4


def _time(value: Any) -> Any:
    return _stamp(value, _SECONDS, _SECONDS_LAYOUT, "%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any) -> Any:
    return _stamp(value, _MICROS, _MICROS_LAYOUT, "%Y-%m-%dT%H:%M:%S.%fZ")


def _stamp(value: Any, pattern: re.Pattern[str], layout: str, shape: str) -> Any:
    if value is None:
        return None
    if value.__class__ is not str:
        raise TypeMismatch
    canonical = pattern.fullmatch(value) is not None
    complaint = "" if canonical else _time_complaint(value, layout)
    if complaint:
        raise TypeMismatch(f'parsing time "{value}"{complaint}')
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise TypeMismatch(f'parsing time "{value}": {_range_complaint(value)}') from None
    if canonical:
        return value
    return moment.astimezone(UTC).strftime(shape)


def _time_complaint(text: str, layout: str) -> str:
    """Where a time stops following its layout, in the words of Go's parser."""
    steps = (*_STEPS, (".000000", r"\.\d{6}"), _ZONE) if layout == _MICROS_LAYOUT else (*_STEPS, _ZONE)
    rest = text
    for name, pattern in steps:
        if name == "Z07:00" and layout == _SECONDS_LAYOUT:
            rest = re.sub(r"^[.,]\d+", "", rest)
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f' as "{layout}": cannot parse "{rest}" as "{name}"'
        rest = rest[match.end() :]
    return f': extra text: "{rest}"' if rest else ""


def _range_complaint(text: str) -> str:
    parts = {"month": (text[5:7], 12), "day": (text[8:10], 31), "hour": (text[11:13], 23), "minute": (text[14:16], 59)}
    for name, (digits, limit) in parts.items():
        if int(digits) > limit or (int(digits) == 0 and name in ("month", "day")):
            return f"{name} out of range"
    return "second out of range" if int(text[17:19]) > 59 else "day out of range"


def _anything(value: Any) -> Any:
    return value


ANY = Leaf(_anything, None, "", struct=True)
STRING = Leaf(_string, "", "string", exact=str)
BOOLEAN = Leaf(_boolean, False, "bool", exact=bool)
INTEGER_32 = Leaf(_integer(INT32), 0, "int32")
INTEGER_64 = Leaf(_integer(INT64), 0, "int64")
NUMBER = Leaf(_number, 0, "float64")
QUANTITY = Leaf(_quantity, "0", "resource.Quantity", struct=True)
INT_OR_STRING = Leaf(_int_or_string, 0, "int32", struct=True, own_go=True)
BYTES = Leaf(_bytes, None, "[]uint8", own_go=True)
TIME = Leaf(_time, None, "string", struct=True, own_go=True)
MICRO_TIME = Leaf(_micro_time, None, "string", struct=True, own_go=True)


def leaf(kind: str | None, format_: str) -> Leaf:
    """The leaf of an OpenAPI type and format; what is not described is left alone."""
    match kind, format_:
        case "string", "byte":
            return BYTES
        case "string", "date-time":
            return TIME
        case "string", _:
            return STRING
        case "boolean", _:
            return BOOLEAN
        case "integer", "int32":
            return INTEGER_32
        case "integer", _:
            return INTEGER_64
        case "number", _:
            return NUMBER
        case _:
            return ANY
