"""Controls Python's garbage collector while a large list is decoded.

The only place that touches the collector; watchers are given a `DuringList`, by default one that does nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Tidy = Callable[[], None]
DuringList = Callable[[], AbstractContextManager[Tidy]]
"""A context manager around a list; the function that it yields is called after each page."""

_THRESHOLDS = (1_000, 20, 100)
"""Few new objects per collection: they are still in the CPU cache, and collections untrack objects without cycles."""


@contextmanager
def no_pause() -> Iterator[Tidy]:
    """Leave the collector as it is."""
    yield lambda: None


class GcPause:
    """Disables automatic collections while a list runs: new objects are collected once, page by page.

    A collection untracks new slim objects for good, so that neither the end of the list nor a later collection has to
    traverse a hundred thousand of them at once.
    """

    def __init__(self) -> None:
        self._running = 0

    @contextmanager
    def __call__(self) -> Iterator[Tidy]:
        gc.disable()
        if not self._running:
            gc.freeze()
        self._running += 1
        try:
            yield self._look_at_new
        finally:
            self._running -= 1
            if not self._running:
                gc.set_threshold(*_THRESHOLDS)
                gc.enable()

    @staticmethod
    def _look_at_new() -> None:
        gc.collect(0)
