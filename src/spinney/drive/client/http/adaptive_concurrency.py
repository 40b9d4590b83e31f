"""Limits a client's concurrent requests to what the server answers without queueing them.

More of them would not be answered sooner; they would only queue ahead of other clients' requests. Pure.
"""

from __future__ import annotations

FEWEST = 4
FIRST = 8
ROUND = 32
"""The number of answers between two adjustments of the limit."""
_REMEMBERED = 32
"""The number of rounds until the fastest answer is forgotten: the latency to a server may grow permanently."""
_SHORT_LINE, _LONG_LINE = 3.0, 6.0
"""Our requests that are queued at the server: below the first value the limit grows, above the second it shrinks."""


class AdaptiveConcurrency:
    """`limit` follows the latency of writes: the fastest of a kind is the service time, the rest is queueing."""

    def __init__(self, most: int) -> None:
        self.limit = min(FIRST, most)
        self._most, self._fewest = most, min(FEWEST, most)
        self._fastest_s: dict[str, float] = {}
        self._lately_s: dict[str, float] = {}
        self._waited, self._answers, self._rounds = 0.0, 0, 0
        self._some_had_no_turn = False
        self._kept = 0
        """The limit before a round with minimal concurrency, which measures again how fast the idle server answers."""

    def answered(self, kind: str, took_s: float, none_free: bool) -> None:
        """Record the duration of a write of a kind; `none_free`: whether other requests waited for a free slot."""
        lately_s = self._lately_s[kind] = min(took_s, self._lately_s.get(kind, took_s))
        fastest_s = min(lately_s, self._fastest_s.get(kind, lately_s))
        self._waited += 1 - fastest_s / took_s if took_s > 0 else 0.0
        self._answers += 1
        self._some_had_no_turn |= none_free
        if self._answers >= ROUND:
            self._judge(self.limit * self._waited / self._answers)

    def _judge(self, in_line: float) -> None:
        self._rounds += 1
        if self._kept:
            self.limit, self._kept = self._kept, 0
        elif self._rounds % _REMEMBERED == 0:
            self._fastest_s, self._lately_s = self._lately_s, {}
            self.limit, self._kept = self._fewest, self.limit
        elif in_line > _LONG_LINE:
            self.limit = max(self._fewest, self.limit - 1)
        elif in_line < _SHORT_LINE and self._some_had_no_turn:
            self.limit = min(self._most, self.limit + 1)
        self._waited, self._answers, self._some_had_no_turn = 0.0, 0, False


def kind_of(method: str, target: str) -> str:
    """The class of requests of similar cost: `POST pods`, `POST pods binding`, `PATCH podgangs status`."""
    _, namespaced, rest = target.partition("?")[0].partition("/namespaces/")
    words = rest.split("/")
    return " ".join([method, *words[1:2], *words[3:4]]) if namespaced else method
