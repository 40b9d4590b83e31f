"""How far a replay is, on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ProgressCallback = Callable[[int], None]


@contextmanager
def progress(names: Sequence[str], total: int) -> Iterator[list[ProgressCallback]]:
    """A bar for each name, and who moves it, by so many steps of `total`."""
    if not sys.stderr.isatty():
        yield [_nobody] * len(names)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    parts = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*parts, console=Console(stderr=True), transient=True) as bars:
        yield [partial(_move, bars, bars.add_task(name, total=total, start=False)) for name in names]


def _move(bars: Progress, task: TaskID, steps: int) -> None:
    bars.start_task(task)
    bars.advance(task, steps)


def _nobody(_: int) -> None:
    """Nobody looks."""
