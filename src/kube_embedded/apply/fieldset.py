"""Sets of fields as FieldsV1 writes them, and the path elements they are made of.

An element is the string that FieldsV1 uses (`f:spec`, `k:{"name":"a"}`, `v:"x"`): how a field, an item of a keyed list
or an item of a set is named. Every string is in canonical form, so that equal elements are equal strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, TypeAlias

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


FieldSet: TypeAlias = dict[str, "FieldSet"]
Path: TypeAlias = tuple[str, ...]


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def insert(fields: FieldSet, path: Sequence[str]) -> None:
    """Add a path; its parents do not become members."""
    graft(fields, path, {})


def graft(fields: FieldSet, path: Sequence[str], subtree: FieldSet) -> None:
    """Add a whole subtree at a path. The order of the set is left to `ordered`."""
    node = fields
    for element in path[:-1]:
        below = node.get(element)
        if below is None:
            below = node[element] = {}
        elif not below:
            below[SELF] = {}
        node = below
    found = node.get(path[-1])
    node[path[-1]] = subtree if found is None else _join(found, subtree)


def of_paths(*paths: str) -> FieldSet:
    """A set of plain fields, written `metadata.name`."""
    fields: FieldSet = {}
    for path in paths:
        insert(fields, [f"f:{name}" for name in path.split(".")])
    return ordered(fields)


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with every level in the order of FieldsV1."""
    if len(fields) < 2:
        return {element: ordered(node) if node else {} for element, node in fields.items()}
    return {element: ordered(fields[element]) if fields[element] else {} for element in sorted(fields, key=order)}


def parse(raw: Any) -> FieldSet:
    """The set that FieldsV1 from outside stands for; raises MalformedElement."""
    fields, _ = _parse(raw)
    return ordered(fields)


def _parse(raw: Any) -> tuple[FieldSet, bool]:
    if type(raw) is not dict:
        raise MalformedElement(f"expected an object of path elements, found {type(raw).__name__}")
    children: FieldSet = {}
    member = False
    for key, value in raw.items():
        if key == SELF:
            member = True
            continue
        element = canonical(key)
        if element is None:
            continue
        below, is_itself = _parse(value)
        if is_itself and below:
            below[SELF] = {}
        children[element] = _join(children[element], below) if element in children else below
    return children, member or not children


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    return _join(left, right) if right else left


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    """Two nodes in one; as nodes of a set, not as sets: an empty one is a member."""
    if left is right:
        return left
    if not left or not right:
        full = left or right
        return full if is_member(full) else {SELF: {}, **full}
    joined = left.copy()
    for element, node in right.items():
        joined[element] = _join(left[element], node) if element in left else node
    if len(joined) == len(left):
        return joined
    return {element: joined[element] for element in sorted(joined, key=order)}


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is a member of both."""
    common: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            continue
        both = intersection(node, other)
        if is_member(node) and is_member(other):
            common[element] = {SELF: {}, **both} if both else {}
        elif both:
            common[element] = both
    common.pop(SELF, None)
    return common


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of the left that are no members of the right; neither parents nor children of such are touched."""
    if not right:
        return left
    return _subtract(left, right, recursive=False)


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """As `difference`, but a member of the right takes all below it along."""
    if not right:
        return left
    return _subtract(left, right, recursive=True)


def _subtract(left: FieldSet, right: FieldSet, *, recursive: bool) -> FieldSet:
    rest: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            rest[element] = node
            continue
        if element == SELF or (recursive and is_member(other)):
            continue
        below = _subtract(node, other, recursive=recursive)
        below.pop(SELF, None)
        if is_member(node) and not is_member(other):
            rest[element] = {SELF: {}, **below} if below else {}
        elif below:
            rest[element] = below
    return rest


def has(fields: FieldSet, path: Sequence[str]) -> bool:
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return node is not None and bool(path) and is_member(node)


def leaves(fields: FieldSet) -> FieldSet:
    """The members that have no children."""
    return {element: leaves(node) for element, node in fields.items() if element != SELF}


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """All members: those of a level first, then what is below it."""
    for element, node in fields.items():
        if element != SELF and is_member(node):
            yield (*prefix, element)
    for element, node in fields.items():
        if node:
            yield from paths(node, (*prefix, element))
