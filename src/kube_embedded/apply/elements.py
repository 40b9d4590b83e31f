"""Path elements: how a field, an item of a keyed list or an item of a set is named inside FieldsV1.

An element is the string that FieldsV1 uses (`f:spec`, `k:{"name":"a"}`, `v:"x"`); two elements are equal exactly when
their strings are, so every string here is in canonical form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

import msgspec

SELF = "."
Order = tuple[int, Any]

_ESCAPED_BY_GO = re.compile("[<>&\u2028\u2029]")
_SHORT_ESCAPES = {"\\b": "\\u0008", "\\f": "\\u000c"}
_SHORT_ESCAPE = re.compile(r"\\(?:\\|[bf])")


class MalformedElement(ValueError):
    """A string that names no path element."""


class Unkeyed(ValueError):
    """A list item that has no identity."""


@lru_cache(maxsize=16384)
def _string(text: str) -> str:
    """A JSON string as Go writes it."""
    quoted: str = encode_basestring(text)
    if "\\" in quoted:
        quoted = _SHORT_ESCAPE.sub(lambda found: _SHORT_ESCAPES.get(found.group(), found.group()), quoted)
    return _ESCAPED_BY_GO.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)


def _json(value: Any) -> str:
    if type(value) is str:
        return _string(value)
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return msgspec.json.encode(value, order="sorted").decode()


@lru_cache(maxsize=16384)
def _single_key(name: str, value: str) -> str:
    return f'k:{{"{name}":{_string(value)}}}'


def _key_element(pairs: list[tuple[str, Any]]) -> str:
    return "k:{" + ",".join(f"{_string(name)}:{_json(value)}" for name, value in sorted(pairs)) + "}"


def item_element(item: Any, keys: tuple[str, ...], defaults: Mapping[str, Any]) -> str:
    """The element of an item of an associative list: by its keys, or by its value where the list has no keys."""
    if not keys:
        return _value_element(item)
    if type(item) is not dict:
        raise Unkeyed(
            f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}"
        )
    if len(keys) == 1:
        value = item.get(keys[0])
        if type(value) is str:
            return _single_key(keys[0], value)
    pairs = [(key, item.get(key, defaults.get(key))) for key in keys if key in item or key in defaults]
    if not pairs:
        named = " ".join(f'"{key}"' for key in keys)
        raise Unkeyed(
            f"associative list with keys has an element that omits all key fields [{named}]"
            " (and doesn't have default values for any key fields)"
        )
    return _key_element(pairs)


def _value_element(item: Any) -> str:
    if item is None:
        raise Unkeyed("associative list without keys has an element that's an explicit null")
    if type(item) is dict:
        raise Unkeyed("associative list without keys has an element that's a map type")
    if type(item) is list:
        raise Unkeyed("not supported: associative list with lists as elements")
    return "v:" + _json(item)


@lru_cache(maxsize=16384)
def canonical(element: str) -> str | None:
    """The canonical form of an element that a client wrote; None for a kind of element that is not known."""
    if len(element) < 2:
        raise MalformedElement("key must be 2 characters long:")
    if element[1] != ":":
        raise MalformedElement(f"missing colon: {element}")
    kind, content = element[0], element[2:]
    if kind == "f":
        return element
    if kind == "v":
        return "v:" + _json(_decoded(content))
    if kind == "k":
        pairs = _decoded(content)
        if type(pairs) is not dict:
            raise MalformedElement(f"expected an object of keys: {element}")
        return _key_element(list(pairs.items()))
    if kind == "i":
        try:
            return f"i:{int(content)}"
        except ValueError as error:
            raise MalformedElement(f"not an index: {element}") from error
    return None


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise MalformedElement(f"parsing key as path element: {error}") from error


@lru_cache(maxsize=16384)
def order(element: str) -> Order:
    """Where an element stands among its siblings: itself, fields, keyed items, values, indices."""
    kind = element[:2]
    if kind == "f:":
        return (1, element)
    if kind == "k:":
        keys = msgspec.json.decode(element[2:])
        return (2, tuple((name, _value_order(value)) for name, value in keys.items()))
    if kind == "v:":
        return (3, _value_order(msgspec.json.decode(element[2:])))
    if kind == "i:":
        return (4, int(element[2:]))
    return (0, "")


def _value_order(value: Any) -> Order:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, tuple(_value_order(item) for item in value))
        case dict():
            return (4, tuple((name, _value_order(item)) for name, item in sorted(value.items())))
        case _:
            return (5, 0)


def text(element: str) -> str:
    """The element as conflicts and errors print it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`."""
    kind, content = element[0], element[2:]
    if kind == "f":
        return "." + content
    if kind == "k":
        return "[" + ",".join(f"{name}={_text_of(value)}" for name, value in msgspec.json.decode(content).items()) + "]"
    if kind == "v":
        return f"[={_text_of(msgspec.json.decode(content))}]"
    return f"[{content}]"


def _text_of(value: Any) -> str:
    return encode_basestring(value) if type(value) is str else _json(value)
