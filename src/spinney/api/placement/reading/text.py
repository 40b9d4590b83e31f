"""Text to plain values: JSON, which is fast, or YAML."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from spinney.api.placement.reading import yaml_values
from spinney.api.placement.reading.unreadable import Path, Unreadable, show

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(rb'"\s*:')
_TOO_DEEP = "found nesting that is too deep, allowed: what a problem needs"


def decode_json(body: bytes) -> Any:
    """The value of a JSON text; raises Unreadable."""
    try:
        return _json(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable((), f"not JSON: {_words(error)}") from None


def decode_text(body: bytes) -> Any:
    """The value of a JSON or YAML text in UTF-8; raises Unreadable, with the line where one is known."""
    body = body.removeprefix(_BOM)
    try:
        return _json(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return yaml_values.load(_text(body))


def _json(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise Unreadable((), _TOO_DEEP) from None
    if len(_KEY.findall(body)) != _count_keys(value):
        _refuse_repeated_keys(body)
    return value


def line_of(body: bytes, path: Path) -> int | None:
    """The line where a field is written, if it can be found."""
    return yaml_values.line_of(body.removeprefix(_BOM).decode(errors="replace"), path)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise Unreadable((), f"not UTF-8 text: {error.reason} at byte {error.start}", line) from None


def _words(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def _count_keys(value: Any) -> int:
    keys = 0
    level = [value]
    while level:
        below: list[Any] = []
        for one in level:
            if one.__class__ is dict:
                keys += len(one)
                below += one.values()
            elif one.__class__ is list:
                below += one
        level = below
    return keys


def _refuse_repeated_keys(body: bytes) -> None:
    """The decoder takes the last of equal keys. Texts that hold `":` look the same from afar, and pass here."""
    try:
        json.loads(body, object_pairs_hook=_once)
    except RecursionError:
        raise Unreadable((), _TOO_DEEP) from None


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise Unreadable((), f"found the key {show(key)} again, allowed: each key once")
        seen.add(key)
