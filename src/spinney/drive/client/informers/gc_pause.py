"""The garbage collector's manners while a large list comes in.

The only place that touches the collector; watchers take a `DuringList` as given, and by default one that does nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Tidy = Callable[[], None]
DuringList = Callable[[], AbstractContextManager[Tidy]]
"""Entered for the time of a list; what it gives is called after each page."""

_THRESHOLDS = (1_000, 20, 100)
"""Few new objects per look: they are still in the processor's cache, and the looks take slim ones out of sight."""


@contextmanager
def no_pause() -> Iterator[Tidy]:
    """Leave the collector as it is."""
    yield lambda: None


class GcPause:
    """No collections of its own choosing while a list runs: what is new is looked at once, page by page.

    A look at new slim objects takes them out of the collector's sight for ever, so that neither the end of the list nor
    a later collection has to look at a hundred thousand of them at once.
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
