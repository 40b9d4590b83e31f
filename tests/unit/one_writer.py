"""Faults for one writer among several in one process; what the others write passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spinney.sim.faults import FaultyTransport


class OneWriter:
    """`is_theirs` knows a request of theirs by its method and what is sent with it."""

    def __init__(
        self, inner: Any, faulty: FaultyTransport, is_theirs: Callable[[str, Mapping[str, Any]], bool]
    ) -> None:
        self._inner = inner
        self._faulty = faulty
        self._is_theirs = is_theirs
        self.stream = faulty.stream
        self.close = inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        chosen = self._faulty if self._is_theirs(method, rest) else self._inner
        return await chosen.request(method, path, **rest)


def writes_as(manager: str, rest: Mapping[str, Any]) -> bool:
    return (rest.get("query") or {}).get("fieldManager") == manager
