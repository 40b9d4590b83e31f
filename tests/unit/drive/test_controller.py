"""Controllers: from changes to keys to reconciles, and what errors do to a key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from spinney.drive.client.codec import WatchEvent
from spinney.drive.client.errors import Conflict, Forbidden, ServerError, Status, TooManyRequests
from spinney.drive.client.informers.cache import Cache
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source, restart_on_error
from spinney.drive.election.leader_election import LeadershipLost
from spinney.drive.process_metrics import RECONCILES, page
from unit.drive.drive_kit import THINGS, Scripted, Thing, in_skipped_time, reader, thing


async def empty_view() -> Cache[Thing]:
    cache: Cache[Thing] = Cache(THINGS)
    cache.begin_list("10")
    await cache.end_list("10")
    return cache


def added(name: str, version: int) -> WatchEvent[Thing]:
    return WatchEvent("ADDED", thing(name, version))


@asynccontextmanager
async def running(
    cache: Cache[Thing], reconcile: Callable[[str], Awaitable[Result]], workers: int = 2
) -> AsyncIterator[Controller[str]]:
    source = Source(cache, lambda change: (change.key[1],))
    controller = Controller("test", [source], reconcile, reader(Scripted()), random.Random(1), workers=workers)
    async with asyncio.timeout(10_000), asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        await asyncio.sleep(0)
        yield controller
        controller.stop()


@in_skipped_time
async def test_every_change_leads_to_a_reconcile_of_its_key() -> None:
    cache, seen = await empty_view(), []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        return Done()

    async with running(cache, reconcile):
        cache.fold([added("a", 11), added("b", 12), added("a", 13)])
        await asyncio.sleep(1)
    assert seen == ["a", "b"]


@in_skipped_time
async def test_reconciles_their_errors_and_the_depth_of_the_queue_are_counted() -> None:
    """Under the names that controller-runtime has for them."""
    before = RECONCILES.values["test", "error"], RECONCILES.values["test", "success"]
    failing = [ValueError("ours")]

    async def reconcile(key: str) -> Result:
        if failing:
            raise failing.pop()
        return Done()

    cache = await empty_view()
    async with running(cache, reconcile):
        cache.fold([added("a", 11)])
        await asyncio.sleep(100)
    assert (RECONCILES.values["test", "error"], RECONCILES.values["test", "success"]) == (before[0] + 1, before[1] + 1)
    assert 'workqueue_depth{name="test"} 0' in page().splitlines()


@in_skipped_time
async def test_what_was_there_before_the_controller_is_reconciled_too() -> None:
    cache, seen = await empty_view(), []
    cache.fold([added("old", 11)])

    async def reconcile(key: str) -> Result:
        seen.append(key)
        return Done()

    async with running(cache, reconcile):
        await asyncio.sleep(1)
    assert seen == ["old"]


@in_skipped_time
async def test_nothing_is_reconciled_before_the_view_is_synced() -> None:
    cache: Cache[Thing] = Cache(THINGS)
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        assert cache.synced
        seen.append(key)
        return Done()

    async with running(cache, reconcile):
        cache.begin_list("10")
        cache.fold_page([thing("a", 1)])
        await asyncio.sleep(100)
        assert seen == []
        await cache.end_list("10")
        await asyncio.sleep(1)
    assert seen == ["a"]


@in_skipped_time
async def test_inv12_a_reconcile_waits_until_the_view_shows_our_own_writes() -> None:
    cache, seen = await empty_view(), []

    async def reconcile(key: str) -> Result:
        seen.append(cache.get(("ns", key)))
        cache.expectations.wrote(("ns", key), "20")
        return RequeueAfter(1)

    async with running(cache, reconcile, workers=1):
        cache.fold([added("a", 11)])
        await asyncio.sleep(5)
        assert seen == [thing("a", 11)]
        cache.fold([added("a", 20)])
        await asyncio.sleep(5)
    assert thing("a", 11) not in seen[1:]
    assert seen[1] == thing("a", 20)


@in_skipped_time
async def test_again_means_after_that_time() -> None:
    loop, times = asyncio.get_running_loop(), []
    cache = await empty_view()

    async def reconcile(key: str) -> Result:
        times.append(loop.time())
        return RequeueAfter(30) if len(times) == 1 else Done()

    async with running(cache, reconcile):
        cache.fold([added("a", 11)])
        await asyncio.sleep(100)
    assert times[1] - times[0] == pytest.approx(30)


@pytest.mark.parametrize(
    ("error", "least_s", "most_s"),
    [
        (Conflict(Status(code=409)), 0, 0.001),
        (ServerError(Status(code=500)), 0.005, 0.1),
        (TooManyRequests(Status(code=429), retry_after_s=7), 7, 7.1),
        (Forbidden(Status(code=403)), 30, 31),
        (KeyError("our bug"), 1, 2),
    ],
    ids=["now", "later", "when asked", "user", "bug"],
)
def test_the_class_of_an_error_says_when_the_key_comes_again(error: Exception, least_s: float, most_s: float) -> None:
    waits: list[float] = []
    reconcile_failing_once(error, waits)
    assert least_s <= waits[0] <= most_s


@in_skipped_time
async def reconcile_failing_once(error: Exception, waits: list[float]) -> None:
    loop, times = asyncio.get_running_loop(), []
    cache = await empty_view()

    async def reconcile(key: str) -> Result:
        times.append(loop.time())
        if len(times) == 1:
            raise error
        return Done()

    async with running(cache, reconcile):
        cache.fold([added("a", 11)])
        await asyncio.sleep(100)
    waits.append(times[1] - times[0])


@in_skipped_time
async def test_a_key_in_endless_conflict_does_not_spin() -> None:
    cache, count = await empty_view(), 0

    async def reconcile(key: str) -> Result:
        nonlocal count
        count += 1
        raise Conflict(Status(code=409))

    async with running(cache, reconcile):
        cache.fold([added("a", 11)])
        await asyncio.sleep(20)
    assert 5 < count < 30


@in_skipped_time
async def test_stopping_lets_work_in_progress_finish_and_starts_none() -> None:
    cache, finished = await empty_view(), []

    async def reconcile(key: str) -> Result:
        await asyncio.sleep(10)
        finished.append(key)
        return Done()

    async with running(cache, reconcile, workers=1):
        cache.fold([added("a", 11), added("b", 12)])
        await asyncio.sleep(1)
    assert finished == ["a"]


@in_skipped_time
async def test_a_controller_can_be_stopped_before_its_view_is_synced() -> None:
    async def reconcile(key: str) -> Result:
        raise AssertionError

    async with running(Cache(THINGS), reconcile):
        await asyncio.sleep(1)


async def _fail_when_cancelled() -> None:
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        raise LeadershipLost("the write came after the end of the term") from None


async def _write_side_by_side() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fail_when_cancelled())


@in_skipped_time
async def test_r9_a_write_that_fails_in_the_moment_of_a_cancellation_does_not_hide_it() -> None:
    """A role is cancelled while it creates two objects at a time: it ends, instead of going on with its next key."""
    cache = await empty_view()
    cache.fold([added("a", 11)])

    async def reconcile(key: str) -> Result:
        await _write_side_by_side()
        return Done()

    source = Source(cache, lambda change: (change.key[1],))
    controller = Controller("test", [source], reconcile, reader(Scripted()), random.Random(1))
    for work in (controller.run(), restart_on_error(_write_side_by_side, "test")):
        task = asyncio.create_task(work)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task], timeout=100)
        assert task.cancelled()
