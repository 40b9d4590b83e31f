"""Splits a stream of chunks into pieces of whole lines.

Never scans a line twice, and copies only a line that is split between chunks.
"""

from __future__ import annotations

from collections.abc import Iterator

from spinney.drive.client.errors import Undecodable

_LONGEST_LINE = 64 << 20
_PIECE = 64 << 10


class LineBuffer:
    """Holds the unfinished line between chunks."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._tail_size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | memoryview]:
        """Small pieces of whole lines: objects decoded from a piece are applied while still in the CPU cache."""
        start, end = 0, chunk.rfind(b"\n") + 1
        if self._tail and end:
            start = chunk.find(b"\n") + 1
            yield b"".join((*self._tail, chunk[:start]))
            self._tail, self._tail_size = [], 0
        view = memoryview(chunk)
        while start < end:
            cut = end if end - start <= _PIECE else chunk.find(b"\n", start + _PIECE, end) + 1 or end
            yield view[start:cut]
            start = cut
        if end < len(chunk):
            self._keep(chunk[end:])

    def _keep(self, rest: bytes) -> None:
        self._tail.append(rest)
        self._tail_size += len(rest)
        if self._tail_size > _LONGEST_LINE:
            raise Undecodable(f"watch: found a line of over {self._tail_size} bytes, expected at most {_LONGEST_LINE}")
