"""What every command in the foreground has: the loop, signals, and the pause of the garbage collector during lists."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator

import pytest

from spinney.cli.wiring.process import run_until_stopped
from spinney.drive.client.informers import gc_pause
from spinney.drive.client.informers.gc_pause import during_list


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gc_pause, "_of_process", gc_pause.no_pause)
    monkeypatch.setattr(gc_pause, "_THRESHOLDS", gc.get_threshold())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_roles_pause_the_collector_during_lists_as_the_benchmark_does() -> None:
    enabled: list[bool] = []

    async def lists() -> None:
        with during_list():
            enabled.append(gc.isenabled())
        enabled.append(gc.isenabled())

    run_until_stopped(lists)
    assert enabled == [False, True]


def test_a_library_and_a_simulation_leave_the_collector_as_it_is() -> None:
    with during_list():
        assert gc.isenabled()


def test_a_signal_stops_the_work() -> None:
    async def waits() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.get_running_loop().create_future()

    run_until_stopped(waits)
