"""The calls of a scheduler from the watch that shows the last pod of a gang to the end of the gang's plan.

Only calls in tasks of the scheduler are traced, and only those of Spinney's own code; the API server, which is in the
same process, is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import spinney
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.world import World
from unit.scheduler.scheduler_world import in_world, pod, podgroup

_ROOT = f"{Path(spinney.__file__).parent}/"
_FIRST, _WRITE = ("drive/client/informers/watch.py", "Watcher._fold_lines"), ("drive/apply/door.py", "Door.bind")
_SERVER = ("sim/", "core/admission/", "api/reserved_keys.py")
_in_scheduler: ContextVar[bool] = ContextVar("in_scheduler", default=False)

Call = tuple[str, str]
"""A path below src/spinney, and the qualified name of a function in it."""


@dataclass(slots=True)
class Trace:
    """Calls in the order in which each is made first.

    `files`: those entered until the first pod is bound. `callers`: the files on the stack when a call is first made,
    its own among them.
    """

    calls: list[Call] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    callers: dict[Call, frozenset[str]] = field(default_factory=dict)
    _known: set[Call] = field(default_factory=set)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _in_scheduler.get() or not frame.f_code.co_filename.startswith(_ROOT):
            return
        call = (frame.f_code.co_filename.removeprefix(_ROOT), frame.f_code.co_qualname)
        if call in self._known or call[0].startswith(_SERVER) or not (self.calls or call == _FIRST):
            return
        if _WRITE not in self._known:
            self.files.add(call[0])
        self._known.add(call)
        self.calls.append(call)
        self.callers[call] = frozenset(_files_of(frame))


def _files_of(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_ROOT) and not path.removeprefix(_ROOT).startswith(_SERVER):
            yield path.removeprefix(_ROOT)
        frame = frame.f_back


def trace_gang() -> Trace:
    """Two pods of a gang whose PodGroup is there already, in a cluster with room for them."""
    found = Trace()
    run = Scheduler.run

    async def traced(self: Scheduler) -> None:
        _in_scheduler.set(True)
        await run(self)

    async def scenario(world: World) -> None:
        await world.apply([podgroup("before"), pod("before-0", "before"), podgroup("w", 2)])
        await world.settle()
        sys.setprofile(found.profile)
        try:
            await world.apply([pod("w-0", "w"), pod("w-1", "w")])
            await world.settle()
        finally:
            sys.setprofile(None)

    try:
        Scheduler.run = traced  # type: ignore[method-assign]
        in_world(scenario)
    finally:
        Scheduler.run = run  # type: ignore[method-assign]
    return found
