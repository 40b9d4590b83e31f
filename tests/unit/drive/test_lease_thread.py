"""A thread with a loop of its own: what runs in it goes on while the main loop does not."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from kube_apimachinery.system_clock import SystemClock
from spinney.drive.apply.door import Door
from spinney.drive.election.leader_election import Candidacy, Election, Leadership, LeaseSettings, RenewalLoop
from spinney.drive.election.lease_thread import STUCK_S, Heartbeat, loop_thread
from unit.drive.drive_kit import HASTY, reader
from unit.drive.test_election import REF, LeaseServer

DEADLINE_S = 60.0


class HandClock:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


async def test_the_lease_is_renewed_while_the_main_loop_is_blocked() -> None:
    server, dice = LeaseServer(), random.Random(1)
    held: list[Leadership] = []

    async def block(leadership: Leadership) -> None:
        held.append(leadership)
        before, end = server.version, time.monotonic() + DEADLINE_S
        while server.version < before + 3 and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - nothing on this loop runs meanwhile
        assert server.version >= before + 3
        assert leadership.holds()

    async with loop_thread("lease") as thread:
        door = Door(server, dice, field_manager="one", retry_policy=HASTY)
        lease_settings = LeaseSettings(duration_s=60, renew_deadline_s=50.0, retry_s=0.05)
        election = Election(
            reader(server),
            door,
            Candidacy(REF, "one", lease_settings, watches=True),
            SystemClock(),
            dice,
            RenewalLoop(thread.run),
        )
        await election.run(block)
    assert not held[0].holds()
    assert server.holders == [("one", 1), ("", 1)], "and given back in the end"


async def test_what_is_done_in_the_thread_is_answered_fails_and_is_cancelled_as_if_done_here() -> None:
    cancelled: list[bool] = []

    async def answers() -> int:
        return 7

    async def fails() -> None:
        raise KeyError("x")

    async def lasts() -> None:
        try:
            await asyncio.sleep(DEADLINE_S)
        finally:
            cancelled.append(True)

    async with loop_thread("some") as thread:
        assert await thread.run(answers()) == 7
        with pytest.raises(KeyError):
            await thread.run(fails())
        waiting = asyncio.create_task(thread.run(lasts()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await thread.run(answers()) == 7
    assert cancelled == [True]


async def test_a_main_loop_that_does_not_run_is_stuck_after_a_while() -> None:
    clock = HandClock()
    heartbeat = Heartbeat(clock)
    clock.at = STUCK_S
    assert heartbeat.stuck() == ""
    clock.at = STUCK_S + 1
    assert heartbeat.stuck() == "the main loop has not run for 16 s"
    beating = asyncio.create_task(heartbeat.run())
    await asyncio.sleep(0)
    assert heartbeat.stuck() == ""
    beating.cancel()
