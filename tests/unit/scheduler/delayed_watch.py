"""A watch whose news of one object comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any


class DelayedWatch:
    """The stream `inner`; what has all of the words in it is heard of after `late_s`."""

    def __init__(self, inner: Any, *words: bytes, late_s: float = 5.0) -> None:
        self._inner = inner
        self._words, self._late_s = words, late_s
        self.status, self.headers, self.read = inner.status, inner.headers, inner.read

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if all(word in chunk for word in self._words):
                await asyncio.sleep(self._late_s)
            yield chunk
