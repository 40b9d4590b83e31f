"""The syntax tree of an expression, read from and written to the bytes that the CEL library exchanges.

Only what reading and small rewrites need is modelled; constants are carried along as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kube_apimachinery import protobuf_wire

_STRING = 6  # the field of a constant that is a text
PARSED = "type.googleapis.com/cel.expr.ParsedExpr"


@dataclass(frozen=True, slots=True)
class Node:
    """One expression. `args` are its parts in the order of the message; `names` its variables, field or function."""

    id: int
    kind: str  # const | ident | select | has | call | list | map | struct | comprehension
    names: tuple[str, ...] = ()
    target: Node | None = None
    args: tuple[Node, ...] = ()
    value: str = ""  # of a constant that is a text
    raw: bytes = b""  # of a constant, a list or a struct: what is not modelled

    def walk(self) -> Iterator[Node]:
        yield self
        if self.target is not None:
            yield from self.target.walk()
        for part in self.args:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class Tree:
    root: Node

    def next_id(self) -> int:
        return max((node.id for node in self.root.walk()), default=0) + 1

    def uses(self, name: str) -> bool:
        """Whether a variable of this name is read; a comprehension may hide it."""
        return any(node.kind == "ident" and node.names == (name,) for node in self.root.walk())


def read(data: bytes) -> Tree:
    """The tree in a serialized, parsed expression."""
    return Tree(_expr(_last(_fields(_last(_fields(data), 2)), 2)))


def write(root: Node) -> bytes:
    """The bytes of a tree, to be deserialized by the library."""
    return _text(1, PARSED) + _message(2, _message(2, _encode(root)))


def call(identity: int, function: str, *args: Node, target: Node | None = None) -> Node:
    return Node(identity, "call", (function,), target, args)


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found = protobuf_wire.fields(memoryview(data))
    return [(number, value if isinstance(value, int) else bytes(value)) for number, _, value in found]


def _last(fields: list[tuple[int, Any]], number: int) -> bytes:
    return next((value for found, value in reversed(fields) if found == number), b"")


def _words(fields: list[tuple[int, Any]], number: int) -> str:
    return _last(fields, number).decode()


def _expr(data: bytes) -> Node:
    identity, node = 0, Node(0, "const")
    for number, value in _fields(data):
        if number == 2:
            identity = value
        elif number in _READERS:
            node = _READERS[number](_fields(value), value)
    return replace(node, id=identity)


def _read_const(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    text = _last(fields, _STRING)
    return Node(0, "const", value=text.decode(errors="replace"), raw=raw)


def _read_select(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    kind = "has" if (3, 1) in fields else "select"
    return Node(0, kind, (_words(fields, 2),), _expr(_last(fields, 1)))


def _read_call(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    target = _last(fields, 1)
    args = tuple(_expr(value) for number, value in fields if number == 3)
    return Node(0, "call", (_words(fields, 2),), _expr(target) if target else None, args)


def _read_list(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    rest = b"".join(_message(2, value) for number, value in fields if number == 2)
    return Node(0, "list", (), None, tuple(_expr(value) for number, value in fields if number == 1), raw=rest)


def _read_struct(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    """Keys and values one after the other; a message (which no schema makes) is left as it is."""
    name = _words(fields, 1)
    entries = [_fields(value) for number, value in fields if number == 2]
    if name or any(number == 2 for entry in entries for number, _ in entry):
        return Node(0, "struct", (name,), raw=raw)
    args = [_expr(_last(entry, number)) for entry in entries for number in (3, 4)]
    optional = bytes((5, 1) in entry for entry in entries)
    return Node(0, "map", (), None, tuple(args), raw=optional)


def _read_comprehension(fields: list[tuple[int, Any]], raw: bytes) -> Node:
    names = tuple(_words(fields, number) for number in (1, 8, 3))
    return Node(0, "comprehension", names, None, tuple(_expr(_last(fields, number)) for number in (2, 4, 5, 6, 7)))


_READERS = {
    3: _read_const,
    4: lambda fields, raw: Node(0, "ident", (_words(fields, 1),)),
    5: _read_select,
    6: _read_call,
    7: _read_list,
    8: _read_struct,
    9: _read_comprehension,
}


def _encode(node: Node) -> bytes:
    head = _number(2, node.id)
    match node.kind:
        case "const":
            return head + _message(3, node.raw)
        case "ident":
            return head + _message(4, _text(1, node.names[0]))
        case "select" | "has":
            assert node.target is not None
            test = _number(3, 1) if node.kind == "has" else b""
            return head + _message(5, _message(1, _encode(node.target)) + _text(2, node.names[0]) + test)
        case "call":
            target = _message(1, _encode(node.target)) if node.target is not None else b""
            args = b"".join(_message(3, _encode(arg)) for arg in node.args)
            return head + _message(6, target + _text(2, node.names[0]) + args)
        case "list":
            return head + _message(7, b"".join(_message(1, _encode(arg)) for arg in node.args) + node.raw)
        case "map":
            return head + _message(8, b"".join(_encode_entry(node, index) for index in range(len(node.raw))))
        case "struct":
            return head + _message(8, node.raw)
        case _:
            names = b"".join(_text(number, name) for number, name in zip((1, 8, 3), node.names, strict=True) if name)
            parts = zip((2, 4, 5, 6, 7), node.args, strict=True)
            return head + _message(9, names + b"".join(_message(number, _encode(part)) for number, part in parts))


def _encode_entry(node: Node, index: int) -> bytes:
    key, value = node.args[2 * index : 2 * index + 2]
    optional = _number(5, 1) if node.raw[index] else b""
    return _message(2, _message(3, _encode(key)) + _message(4, _encode(value)) + optional)


def _number(number: int, value: int) -> bytes:
    return _pack(number << 3) + _pack(value)


def _message(number: int, data: bytes) -> bytes:
    return _pack(number << 3 | 2) + _pack(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _pack(value: int) -> bytes:
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)
