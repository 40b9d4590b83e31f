"""Controls Python's garbage collector while a large list is decoded.

The only place that touches the collector. There is one for the whole process, so a process that keeps caches says once
that it pauses (`pause_in_this_process`). Simulations do not: they make and drop whole clusters, and what was frozen
during a list would never be freed.
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
            yield self._collect_young
        finally:
            self._running -= 1
            if not self._running:
                gc.set_threshold(*_THRESHOLDS)
                gc.enable()

    @staticmethod
    def _collect_young() -> None:
        gc.collect(0)


_of_process: DuringList = no_pause


def pause_in_this_process() -> None:
    """From now on the collector is paused during lists. Said once, where a process begins."""
    global _of_process
    if _of_process is no_pause:
        _of_process = GcPause()


def during_list() -> AbstractContextManager[Tidy]:
    """What this process does during lists."""
    return _of_process()
