"""Cutting a stream of chunks into whole lines, many at once.

Never looks at a line twice, and copies only the one that a chunk cuts in two.
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
        """Pieces of whole lines, small: what is decoded from one is folded while the processor's cache still has it."""
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
