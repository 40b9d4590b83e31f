"""The work queue: each key once, one worker at a time, in order, again when needed."""

from __future__ import annotations

import asyncio
import random

import pytest

from spinney.drive.backoff import Backoff
from spinney.drive.controller.work_queue import QueueClosed, WorkQueue
from unit.drive.drive_kit import in_skipped_time


def a_queue(**more: object) -> WorkQueue[str]:
    return WorkQueue(random.Random(1), backoff=Backoff(base_s=1.0, cap_s=8.0, jitter=0.0), **more)  # type: ignore[arg-type]


async def drained(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


async def test_keys_come_in_the_order_they_were_added_and_only_once() -> None:
    queue = a_queue()
    for key in "abcab":
        queue.add(key)
    assert await drained(queue) == ["a", "b", "c"]


async def test_a_key_is_never_given_to_two_workers_and_comes_again_if_added_meanwhile() -> None:
    queue = a_queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await drained(queue) == ["a"]


async def test_a_key_that_is_always_added_again_does_not_starve_others() -> None:
    queue = a_queue()
    queue.add("busy")
    key = await queue.get()
    queue.add("busy")
    queue.add("other")
    queue.done(key)
    assert await drained(queue) == ["other", "busy"]


@in_skipped_time
async def test_a_delayed_key_comes_when_it_is_due_and_the_earliest_time_counts() -> None:
    loop = asyncio.get_running_loop()
    queue, began = a_queue(), asyncio.get_running_loop().time()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)
    assert await queue.get() == "a"
    assert loop.time() - began == pytest.approx(3)
    queue.done("a")
    await asyncio.sleep(60)
    assert len(queue) == 0


@in_skipped_time
async def test_failures_wait_longer_each_time_until_forgotten() -> None:
    loop = asyncio.get_running_loop()
    queue = a_queue()
    waits = []
    for round_ in range(6):
        if round_ == 5:
            queue.forget("a")
        began = loop.time()
        queue.retry("a")
        queue.done(await queue.get())
        waits.append(round(loop.time() - began, 3))
    assert waits == [1, 2, 4, 8, 8, 1]


@in_skipped_time
async def test_a_wait_that_the_server_asked_for_is_kept() -> None:
    loop = asyncio.get_running_loop()
    queue, began = a_queue(), loop.time()
    queue.retry("a", at_least_s=30)
    await queue.get()
    assert loop.time() - began == pytest.approx(30)


async def test_waiting_workers_are_woken_one_per_key() -> None:
    queue = a_queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(0)
    assert [worker.done() for worker in workers] == [True, True, False]
    workers[2].cancel()


async def test_a_worker_that_is_cancelled_when_it_is_woken_passes_the_key_on() -> None:
    queue = a_queue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


async def test_a_closed_queue_hands_out_nothing_more() -> None:
    queue = a_queue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    queue.add("a")
    with pytest.raises(QueueClosed):
        await waiting


async def test_closing_drops_what_is_delayed_and_what_waits() -> None:
    queue = a_queue()
    queue.add("a")
    queue.add_after("b", 0.001)
    queue.close()
    await asyncio.sleep(0.005)
    with pytest.raises(QueueClosed):
        await queue.get()


class Meter:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def waiting(self, depth: int) -> None:
        self.notes.append(f"depth {depth}")

    def taken(self, waited_s: float) -> None:
        self.notes.append(f"waited {waited_s:.0f}")

    def finished(self, worked_s: float) -> None:
        self.notes.append(f"worked {worked_s:.0f}")

    def retried(self) -> None:
        self.notes.append("retried")


@in_skipped_time
async def test_a_meter_is_told_of_depth_waits_work_and_retries() -> None:
    meter = Meter()
    queue = a_queue(meter=meter)
    queue.add("a")
    await asyncio.sleep(2)
    key = await queue.get()
    await asyncio.sleep(3)
    queue.done(key)
    queue.retry_at_once(key)
    assert meter.notes == ["depth 1", "waited 2", "depth 0", "worked 3", "retried", "depth 1"]
