"""Values and JSON types in the words of the real server, which clients read in its refusals."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Any


def shown(value: Any) -> str:
    """A value as Go prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{shown(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(shown(item) for item in value) + "]"
        case _:
            return str(value)


def quoted(value: Any) -> str:
    """A value as Go writes it in source."""
    match value:
        case str():
            return str(encode_basestring(value))
        case dict():
            return (
                go_type(value)
                + "{"
                + ", ".join(f"{quoted(name)}:{quoted(value[name])}" for name in sorted(value))
                + "}"
            )
        case list():
            return go_type(value) + "{" + ", ".join(quoted(item) for item in value) + "}"
        case _:
            return shown(value)


def json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case _:
            return "number"


def go_type(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case str():
            return "string"
        case float():
            return "float64"
        case _:
            return "int64"
