"""An event loop that owns the time: nothing waits, the clock jumps to the next timer, and a seed fixes the whole run.

It must never touch the real world: sockets, threads, processes and signals are refused by name.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

START_S = 1_767_225_600.0
"""Where simulated time begins unless told otherwise: 2026-01-01T00:00:00Z."""

_STEPS_PER_INSTANT = 10_000_000


class SimulationError(RuntimeError):
    """A simulated run that cannot go on."""


class NothingLeftToHappen(SimulationError):
    """Every task waits, no timer is set: the run is stuck for ever."""


class TimeIsUp(SimulationError):
    """The run did not end within the simulated time it was given."""


class StandingStill(SimulationError):
    """Work goes on and on at one instant: somebody spins."""


class RealWorldRefused(SimulationError):
    """Something asked the simulated loop for a socket, a thread, a process or a signal."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is its birth number, so that a set of tasks has the same order in every run."""

    _number: int

    def __init__(self, number: int, coro: Any, *, loop: asyncio.AbstractEventLoop, **rest: Any) -> None:
        self._number = number
        super().__init__(coro, loop=loop, **rest)

    def __hash__(self) -> int:
        return self._number


class _Jump:
    """Stands where the selector stands: instead of waiting it moves the loop's clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._steps = 0

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise NothingLeftToHappen(f"nothing left to happen at {self._loop.time():.3f} s; {self._loop.pending()}")
        if timeout_s > 0:
            self._steps = 0
            self._loop.jump(timeout_s)
            return []
        self._steps += 1
        if self._steps > _STEPS_PER_INSTANT:
            raise StandingStill(f"the clock stands at {self._loop.time():.3f} s; {self._loop.pending()}")
        return []

    def close(self) -> None:
        """Nothing is held."""


def _refused(what: str) -> Any:
    def refuse(_loop: SimLoop, *_args: object, **_options: object) -> NoReturn:
        raise RealWorldRefused(f"{what} is not available in simulated time")

    return refuse


class SimLoop(asyncio.BaseEventLoop):
    """The loop. Timers run in the order of their time, ready work in the order it came."""

    _selector: _Jump
    _clock_resolution: float

    def __init__(self, start_s: float = START_S, limit_s: float | None = None) -> None:
        super().__init__()
        self.start_s = start_s
        self.limit_s = limit_s
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9
        self._elapsed_s = 0.0
        self._born = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._elapsed_s

    def jump(self, timeout_s: float) -> None:
        """Move the clock on; called when nothing is ready."""
        self._elapsed_s += timeout_s
        if self.limit_s is not None and self._elapsed_s > self.limit_s:
            raise TimeIsUp(f"not done after {self.limit_s:g} simulated seconds; {self.pending()}")

    def pending(self) -> str:
        """The tasks that are not done, by name and the place each one waits at."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        waiting = ", ".join(f"{task.get_name()} at {_place(task)}" for task in tasks)
        return f"waiting: {waiting or 'no task'}"

    def _make_task(self, _loop: asyncio.AbstractEventLoop, coro: Any, **rest: Any) -> asyncio.Task[Any]:
        self._born += 1
        rest.setdefault("name", f"task-{self._born}")
        return _Task(self._born, coro, loop=self, **rest)

    def _process_events(self, _events: list[Any]) -> None:
        """No events come from outside."""

    def _write_to_self(self) -> None:
        """There is no sleep to be woken from."""

    run_in_executor = _refused("a thread")
    add_signal_handler = _refused("a signal handler")
    add_reader = _add_reader = _refused("reading from a file descriptor")
    add_writer = _add_writer = _refused("writing to a file descriptor")
    getaddrinfo = _refused("name resolution")
    create_connection = _refused("a network connection")
    create_datagram_endpoint = _refused("a datagram socket")
    create_server = _refused("a listening socket")
    subprocess_exec = subprocess_shell = _refused("a process")


class SimClock:
    """The loop's time as the clock that everything is given."""

    __slots__ = ("_loop",)

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return self._loop.start_s + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


@dataclass(frozen=True, slots=True)
class Sim:
    """What a simulated run is given: the time, the dice, and the seed that names the run."""

    clock: SimClock
    dice: random.Random
    seed: int


def run(
    main: Callable[[Sim], Coroutine[Any, Any, T]],
    seed: int = 0,
    start_s: float = START_S,
    limit_s: float | None = None,
) -> T:
    """Run `main` in simulated time to its end, and cancel whatever it leaves behind.

    Raises NothingLeftToHappen when everything waits for ever, TimeIsUp after `limit_s` simulated seconds.
    """
    loop = SimLoop(start_s, limit_s)
    sim = Sim(SimClock(loop), random.Random(seed), seed)
    with asyncio.Runner(debug=False, loop_factory=lambda: loop) as runner:
        try:
            return runner.run(main(sim))
        finally:
            loop.limit_s = None


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost line a task waits at, as function:line."""
    frames = task.get_stack(limit=1)
    if not frames:
        return "its end"
    frame = frames[-1]
    return f"{frame.f_code.co_qualname}:{frame.f_lineno}"
