"""What a plain word of YAML means: nothing, a boolean, a number, or itself.

The rules are those of YAML 1.1 as Kubernetes reads it, less what JSON has no value for: dates and times stay text,
`1:30` is no number, and neither is what a double cannot hold.
"""

from __future__ import annotations

import math
import re
from typing import Any

from spinney.api.documents.errors import DocumentError, show
from spinney.api.documents.limits import MAX_DIGITS

_FIRST = frozenset("0123456789+-.~nNyYtTfFoO")
_WORDS: dict[str, bool | None] = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_DECIMAL = r"[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*"
_FLOAT = re.compile(rf"[-+]?(?:{_DECIMAL}|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)")
_MISSING = object()


def plain(text: str) -> Any:
    """The value of a word without quotes and without a tag."""
    if text and text[0] not in _FIRST:
        return text
    known = _WORDS.get(text, _MISSING)
    if known is not _MISSING:
        return known
    if text[0] > "9":
        return text
    if _INT.fullmatch(text):
        return whole(text)
    return fraction(text) if _FLOAT.fullmatch(text) else text


def boolean(text: str) -> bool:
    known = _WORDS.get(text)
    if known is None:
        raise DocumentError(f"found {show(text)}, which is no boolean to be read")
    return known


def nothing(text: str) -> None:
    return None


def whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise DocumentError(f"found {show(text)}, which is no number to be read: allowed are {MAX_DIGITS} digits")
    digits = text.replace("_", "")
    try:
        return int(digits, 8 if re.fullmatch("[-+]?0[0-7]+", digits) else 0)
    except ValueError:
        raise DocumentError(f"found {show(text)}, which is no number to be read") from None


def fraction(text: str) -> float:
    try:
        value = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise DocumentError(f"found {show(text)}, which is no number to be read") from None
    if not math.isfinite(value):
        raise DocumentError(f"found {show(text)}, which is no number to be read: allowed is what a double can hold")
    return value
