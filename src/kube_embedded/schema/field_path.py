"""Paths to fields as definitions write them (`.spec.name`, `.labels['a.b']`), checked against a schema."""

from __future__ import annotations

import re
from typing import Any

from kube_embedded.schema.model import Raw

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class BadFieldPath(ValueError):
    """A path that leads to no field of the schema."""


def resolve(path: str, raw: Raw, arrays: bool = True) -> tuple[str, Raw]:
    """The path as errors show it, and the schema it leads to; raises `BadFieldPath`."""
    tokens = _TOKEN.findall(path)
    shown, schema, at = "", raw, 0
    while at < len(tokens):
        token = tokens[at]
        if token == "[":
            if not arrays:
                raise BadFieldPath("array notation is not allowed")
            name = _quoted(_token(tokens, at + 1))
            if _token(tokens, at + 2) != "]":
                raise BadFieldPath(f"expected ] but got {tokens[at + 2]}")
            at += 3
        elif token == ".":
            name = _token(tokens, at + 1)
            at += 2
        else:
            raise BadFieldPath(f"expected [ or . but got: {token}")
        shown, schema = _step(shown, schema, name)
    return shown, schema


def _token(tokens: list[str], at: int) -> str:
    if at >= len(tokens):
        raise BadFieldPath("unexpected end of JSON path")
    return tokens[at]


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise BadFieldPath(f"expected single quoted string but got {token}")
    return re.sub(r"\\(.)", _unescaped, token[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    if found[1] not in _ESCAPES:
        raise BadFieldPath(f"invalid string literal: invalid escape char {found[0]}")
    return _ESCAPES[found[1]]


def _step(shown: str, schema: Raw, name: str) -> tuple[str, Any]:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise BadFieldPath("does not refer to a valid field")
        return f"{shown}.{name}" if shown else name, properties[name]
    if isinstance(additional, dict):
        return f"{shown}[{name}]", additional
    raise BadFieldPath("does not refer to a valid field")
