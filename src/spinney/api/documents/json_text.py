"""JSON to values: decoded first, which is fast and safe at any depth, then measured."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from spinney.api.documents.errors import DocumentError, show
from spinney.api.documents.limits import MAX_DIGITS, Limits

_KEY = re.compile(rb'"\s*:')
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)  # matches from every quote: one pass
_COLLECTION = re.compile(rb"[ \t\r\n]*[\[{]")
_TOO_LARGE = 10**MAX_DIGITS


class NotJson(DocumentError):
    """It may still be YAML."""


def read(body: bytes, limits: Limits) -> Any:
    """The value of a text; raises NotJson for what is none, another DocumentError for what is too much."""
    _check_values(body, limits)
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep(limits) from None
    except msgspec.ValidationError:
        raise DocumentError(f"found a number beyond what a double can hold, allowed: {MAX_DIGITS} digits") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson(f"not JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
    if len(_KEY.findall(body)) != _measure(value, limits):
        _refuse_repeated_keys(body)
    return value


def _check_values(body: bytes, limits: Limits) -> None:
    """Each value is the first of its collection or stands behind a comma; texts may hold commas as well."""
    if not _COLLECTION.match(body) or _separators(body) <= limits.values:
        return
    if _separators(_TEXT.sub(b"", body)) > limits.values:
        raise DocumentError(f"found more than {limits.values} values, allowed: at most {limits.values}")


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{") + 1


def _measure(value: Any, limits: Limits) -> int:
    """The number of keys, level by level."""
    keys = depth = 0
    level = [value]
    while level:
        if depth >= limits.depth and any(one.__class__ in (dict, list) for one in level):
            raise _too_deep(limits)
        below: list[Any] = []
        for one in level:
            kind = one.__class__
            if kind is dict:
                keys += len(one)
                below += one.values()
            elif kind is list:
                below += one
            elif kind is int and not -_TOO_LARGE < one < _TOO_LARGE:
                raise DocumentError(f"found {show(one)}, allowed: {MAX_DIGITS} digits")
        level = below
        depth += 1
    return keys


def _refuse_repeated_keys(body: bytes) -> None:
    """The decoder takes the last of equal keys. Texts that hold `":` look the same from afar, and pass here."""
    json.loads(body, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DocumentError(f"found the key {show(key)} again, allowed: each key once")
        seen.add(key)


def _too_deep(limits: Limits) -> DocumentError:
    return DocumentError(f"found nesting beyond {limits.depth} levels, allowed: at most {limits.depth}")
