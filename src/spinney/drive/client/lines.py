"""Cutting a stream of chunks into whole lines, many at once; a line is never looked at twice."""

from __future__ import annotations

from collections.abc import Iterator

from spinney.drive.client.errors import Undecodable

_LONGEST_LINE = 64 << 20
_PIECE = 1 << 20


class LineBuffer:
    """Holds the unfinished line between chunks."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._tail_size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Pieces of whole lines, each about a megabyte at most so that decoding one is no pause."""
        end = chunk.rfind(b"\n") + 1
        start = 0
        while start < end:
            cut = end if end - start <= _PIECE else chunk.find(b"\n", start + _PIECE, end) + 1 or end
            piece = chunk[start:cut]
            yield self._with_tail(piece)
            start = cut
        if end < len(chunk):
            self._keep(chunk[end:])

    def _with_tail(self, piece: bytes) -> bytes:
        if not self._tail:
            return piece
        whole = b"".join((*self._tail, piece))
        self._tail, self._tail_size = [], 0
        return whole

    def _keep(self, rest: bytes) -> None:
        self._tail.append(rest)
        self._tail_size += len(rest)
        if self._tail_size > _LONGEST_LINE:
            raise Undecodable(f"watch: found a line of over {self._tail_size} bytes, expected at most {_LONGEST_LINE}")
