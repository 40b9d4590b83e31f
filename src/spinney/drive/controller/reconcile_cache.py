"""Skips the expansion of an object that needs no changes, while everything that its expansion read is the same.

What was read is recorded by reading: caches that an expansion may ask are wrapped in `RecordedCache`, and every
question with its answer becomes an input. No list of inputs is kept by hand, because one that misses a line leaves an
object asleep until a restart. Answers are compared whole, never a hash or a version, and a requeue time still applies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from spinney.api.changes import ChangeSet
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.paths import Key

T = TypeVar("T")

Expand = Callable[[Key], ChangeSet]
"""Reads the object itself first; the time is the only input that is not read from a cache."""


Answers = dict[tuple[Callable[..., object], tuple[Hashable, ...]], object]
"""What a question, with its arguments, was answered."""


class Reads:
    """The questions of the expansion that is under way, with their answers. One per process: expansions never wait."""

    def __init__(self) -> None:
        self._answers: Answers | None = None

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        answer = question(*arguments)
        if self._answers is not None:
            self._answers[question, arguments] = answer
        return answer

    def record(self, expand: Expand, key: Key) -> tuple[ChangeSet, Inputs]:
        answers: Answers = {}
        self._answers = answers
        try:
            return expand(key), Inputs(answers)
        finally:
            self._answers = None


class Inputs:
    """What one expansion has read."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    @property
    def of_nothing(self) -> bool:
        """Whether the object itself was not there: nothing is worth remembering of it."""
        return next(iter(self._answers.values()), None) is None

    def are_same(self) -> bool:
        """Whether every question has the same answer now. Equal objects are the same object mostly: this is fast."""
        return all(question(*arguments) == answer for (question, arguments), answer in self._answers.items())


class RecordedCache(Generic[T]):
    """A cache whose answers are recorded as inputs. Sources of controllers take the `cache` itself."""

    def __init__(self, cache: Cache[T], reads: Reads) -> None:
        self.cache = cache
        self._reads = reads

    def get(self, key: Key) -> T | None:
        return self._reads.ask(self.cache.get, key)

    def by(self, index: str, value: str) -> list[T]:
        """The objects that an index holds under a value, ordered by key."""
        return self._reads.ask(self.cache.by, index, value)

    def keys(self) -> list[Key]:
        return self._reads.ask(self.cache.keys)

    def __iter__(self) -> Iterator[T]:
        return iter(self._reads.ask(self._all))

    def _all(self) -> list[T]:
        return list(self.cache)


class ReconcileCache:
    """Results and inputs of the expansions that held no changes, by key."""

    def __init__(self, expand: Expand, reads: Reads) -> None:
        self._expand = expand
        self._reads = reads
        self._known: dict[Key, tuple[ChangeSet, Inputs]] = {}

    def expansion(self, key: Key, now_s: float) -> ChangeSet:
        """The expansion of the key: a known one if its inputs are the same and its requeue time has not come."""
        known = self._known.pop(key, None)
        if known is not None and not _is_due(known[0], now_s) and known[1].are_same():
            expansion, inputs = known
        else:
            expansion, inputs = self._reads.record(self._expand, key)
        if not expansion.changes and not inputs.of_nothing:
            self._known[key] = (expansion, inputs)
        return expansion


def _is_due(expansion: ChangeSet, now_s: float) -> bool:
    return expansion.requeue_at_s is not None and expansion.requeue_at_s <= now_s
