"""The wire format of protobuf: the fields of a message, as they come.

Bytes may come from strangers: nothing is read beyond the end, and what is no message is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
LENGTH_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}  # wire types of fixed size, in bytes
_LONGEST_VARINT = 10


class WireError(ValueError):
    """The bytes are not a message."""


Value = int | memoryview
"""A number for VARINT, the raw bytes for everything else."""


def fields(message: memoryview) -> Iterator[tuple[int, int, Value]]:
    """(number, wire type, value) of every field, in order."""
    position, end = 0, len(message)
    while position < end:
        tag, position = varint(message, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError("illegal field number 0")
        if wire == VARINT:
            value, position = varint(message, position)
            yield number, wire, value
            continue
        size, position = _size(message, position, wire)
        if size > end - position:
            raise WireError("unexpected EOF")
        yield number, wire, message[position : position + size]
        position += size


def varint(message: memoryview, position: int) -> tuple[int, int]:
    """An unsigned number and the position after it."""
    result = 0
    for index in range(_LONGEST_VARINT):
        if position >= len(message):
            raise WireError("unexpected EOF")
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, position
    raise WireError("integer overflow")


def _size(message: memoryview, position: int, wire: int) -> tuple[int, int]:
    if wire == LENGTH_DELIMITED:
        return varint(message, position)
    if wire not in _FIXED:
        raise WireError(f"illegal wireType {wire}")
    return _FIXED[wire], position
