"""The garbage collector's manners while a large list comes in.

The only place that touches the collector; caches take `quiet` as a given and tests give them nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 20, 100)


class QuietCollector:
    """Collector off while any list is running; what a list left behind is then taken out of its sight."""

    def __init__(self) -> None:
        self._running = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        gc.disable()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                gc.collect()
                gc.freeze()
                gc.set_threshold(*_THRESHOLDS)
                gc.enable()
