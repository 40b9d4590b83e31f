"""A least-recently-used cache whose values are created on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Keeps the `most` values that were used last."""

    __slots__ = ("_kept", "_make", "_most")

    def __init__(self, most: int, make: Callable[[K], V]) -> None:
        self._most = most
        self._make = make
        self._kept: dict[K, V] = {}

    def get(self, key: K) -> V:
        kept = self._kept
        value = kept.pop(key, None)
        if value is None:
            value = self._make(key)
            if len(kept) >= self._most:
                del kept[next(iter(kept))]
        kept[key] = value  # inserted last: dicts keep insertion order, so the first key is the oldest
        return value
