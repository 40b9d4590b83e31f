"""The view: indexes, subscribers, waiting, and own writes (INV12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spinney.drive.client.codec import WatchEvent
from spinney.drive.client.errors import StaleView
from spinney.drive.client.informers.cache import Cache, Change, OwnWrites
from spinney.drive.client.informers.shared_caches import catch_up
from unit.drive.drive_kit import THINGS, Scripted, Thing, in_skipped_time, reader, refusal, reply, thing

A = ("ns", "a")


def by_color(item: Thing) -> tuple[str, ...]:
    return (item.color,) if item.color else ()


def added(item: Thing) -> WatchEvent[Thing]:
    return WatchEvent("ADDED", item)


def deleted(item: Thing) -> WatchEvent[Thing]:
    return WatchEvent("DELETED", item)


async def synced(*items: Thing, version: int = 10) -> Cache[Thing]:
    cache: Cache[Thing] = Cache(THINGS, indexes={"color": by_color})
    cache.begin_list(str(version))
    cache.fold_page(items)
    await cache.end_list(str(version))
    return cache


async def test_an_index_follows_its_objects() -> None:
    cache = await synced(thing("b", 1, color="red"), thing("a", 2, color="red"))
    assert [item.metadata.name for item in cache.by("color", "red")] == ["a", "b"]
    cache.fold([added(thing("a", 11, color="blue")), deleted(thing("b", 12))])
    assert (cache.by("color", "red"), cache.by("color", "blue")) == ([], [thing("a", 11, color="blue")])


async def test_an_index_added_late_knows_what_is_there() -> None:
    cache = await synced(thing("a", 1, color="red"))
    cache.add_index("name", lambda item: (item.metadata.name,))
    assert cache.by("name", "a") == [thing("a", 1, color="red")]


async def test_a_subscriber_hears_what_is_there_then_each_change_with_old_and_new() -> None:
    cache = await synced(thing("a", 1))
    heard: list[Change[Thing]] = []
    unsubscribe = cache.subscribe(heard.append)
    cache.fold([added(thing("a", 11, color="red")), deleted(thing("a", 12))])
    unsubscribe()
    cache.fold([added(thing("b", 13))])
    assert heard == [
        Change(A, None, thing("a", 1)),
        Change(A, thing("a", 1), thing("a", 11, color="red")),
        Change(A, thing("a", 11, color="red"), None),
    ]


async def test_an_object_recreated_in_a_gap_is_deleted_then_added() -> None:
    cache = await synced(thing("a", 1, uid="first"))
    heard: list[Change[Thing]] = []
    cache.subscribe(heard.append)
    cache.fold([added(thing("a", 20, uid="second"))])
    assert heard[1:] == [Change(A, thing("a", 1, uid="first"), None), Change(A, None, thing("a", 20, uid="second"))]


async def test_a_late_change_does_not_bring_a_deleted_object_back() -> None:
    cache = await synced(thing("a", 1))
    cache.fold([deleted(thing("a", 15)), added(thing("a", 14))])
    assert A not in cache


async def test_a_change_older_than_a_bookmark_is_ignored() -> None:
    cache = await synced()
    cache.bookmark("50")
    cache.fold([added(thing("a", 30))])
    assert A not in cache
    assert cache.resource_version == "50"


async def test_a_change_older_than_what_a_list_of_no_version_showed_is_ignored() -> None:
    cache = await synced(thing("a", 10), version=0)
    cache.fold([added(thing("a", 5))])
    assert cache.get(A) == thing("a", 10)


async def test_after_the_history_began_anew_small_versions_count() -> None:
    cache = await synced(thing("a", 900), version=1000)
    cache.begin_list("20", renew=True)
    cache.fold_page([thing("a", 15)])
    await cache.end_list("20")
    cache.fold([added(thing("a", 21, color="red")), added(thing("a", 16))])
    assert (cache.get(A), cache.resource_version) == (thing("a", 21, color="red"), "21")


async def test_a_deleted_object_that_comes_again_is_shown() -> None:
    cache = await synced(thing("a", 1))
    cache.fold([deleted(thing("a", 15)), added(thing("a", 16, uid="second"))])
    assert cache.get(A) == thing("a", 16, uid="second")


async def test_a_subscriber_may_leave_while_it_is_told() -> None:
    cache = await synced()
    heard: list[str] = []

    def once(change: Change[Thing]) -> None:
        heard.append("once")
        leave()

    leave = cache.subscribe(once)
    cache.subscribe(lambda change: heard.append("always"))
    cache.fold([added(thing("a", 11)), added(thing("a", 12))])
    assert heard == ["once", "always", "always"]


async def test_the_view_is_not_synced_while_it_is_listed_again() -> None:
    cache = await synced(thing("a", 1))
    cache.begin_list("20")
    assert not cache.synced
    await cache.end_list("20")
    assert cache.synced
    assert A not in cache


async def test_a_long_list_of_deletes_lets_others_run() -> None:
    cache = await synced(*(thing(f"t{i}", 1) for i in range(2000)))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    cache.begin_list("20")
    await cache.end_list("20")
    counting.cancel()
    assert (len(cache), turns >= 4) == (0, True)


async def test_waiting_for_a_version_ends_when_it_is_seen() -> None:
    cache = await synced()
    waiting = asyncio.create_task(cache.wait_for("12"))
    cache.fold([added(thing("a", 11))])
    await asyncio.sleep(0)
    assert not waiting.done()
    cache.fold([added(thing("a", 12))])
    await waiting


class TestOwnWrites:
    """INV12: no decision on a view older than our own last write."""

    async def test_inv12_a_write_is_unseen_until_its_version_comes_back(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.wrote(A, "15")
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 14))])
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 15))])
        assert cache.unseen() == {}

    async def test_inv12_a_write_is_seen_when_the_object_is_deleted_later(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.wrote(A, "15")
        cache.fold([deleted(thing("a", 16))])
        assert cache.unseen() == {}

    async def test_inv12_a_later_change_of_another_object_is_no_proof(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.wrote(A, "15")
        cache.fold([added(thing("b", 16))])
        assert list(cache.unseen()) == [A]
        cache.bookmark("16")
        assert cache.unseen() == {}

    async def test_inv12_a_removal_is_seen_when_that_very_object_is_gone(self) -> None:
        cache = await synced(thing("a", 1, uid="first"))
        cache.expectations.removed(A, "first")
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 20, uid="second"))])
        assert cache.unseen() == {}

    async def test_inv12_an_object_created_and_removed_at_once_is_not_taken_for_gone_before_it_came(self) -> None:
        cache = await synced()
        cache.expectations.wrote(A, "15")
        cache.expectations.removed(A, "first")
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 15, uid="first"))])
        assert list(cache.unseen()) == [A]
        cache.fold([deleted(thing("a", 16, uid="first"))])
        assert cache.unseen() == {}

    async def test_inv12_a_write_without_its_version_is_the_next_after_its_precondition(self) -> None:
        cache = await synced(thing("a", 12))
        cache.expectations.wrote_after(A, "12")
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 13))])
        assert cache.unseen() == {}

    async def test_inv12_a_write_without_its_version_is_not_shown_by_a_bookmark(self) -> None:
        cache = await synced(thing("a", 12))
        cache.bookmark("20")
        cache.expectations.wrote_after(A, "12")
        assert list(cache.unseen()) == [A]
        cache.bookmark("30")
        assert list(cache.unseen()) == [A]
        cache.fold([added(thing("a", 31))])
        assert cache.unseen() == {}

    async def test_inv12_a_write_of_unknown_fate_is_looked_up_before_the_view_is_trusted(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.unsure(A)
        transport = Scripted(reply(thing("a", 17)))
        waiting = asyncio.create_task(catch_up(reader(transport), [cache]))
        await asyncio.sleep(0.005)
        assert not waiting.done()
        cache.fold([added(thing("a", 17))])
        await waiting
        assert len(transport.asked) == 1

    async def test_inv12_a_deletion_of_unknown_fate_waits_until_the_object_leaves_the_view(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.unsure(A)
        waiting = asyncio.create_task(catch_up(reader(Scripted(refusal(404, "NotFound"))), [cache]))
        await asyncio.sleep(0.005)
        assert not waiting.done()
        cache.fold([deleted(thing("a", 18))])
        await waiting

    @in_skipped_time
    async def test_inv12_a_view_that_does_not_catch_up_is_refused_by_name(self) -> None:
        cache = await synced(thing("a", 1))
        cache.expectations.wrote(A, "99")
        with pytest.raises(StaleView, match=r"things.test.dev ns/a: own write not seen"):
            await catch_up(reader(Scripted()), [cache], timeout_s=5)

    @in_skipped_time
    async def test_a_cache_that_was_never_synced_is_refused(self) -> None:
        with pytest.raises(StaleView, match="not synced"):
            await catch_up(reader(Scripted()), [Cache(THINGS)], timeout_s=5)

    async def test_later_writes_do_not_prolong_a_wait_in_progress(self) -> None:
        cache = await synced()
        cache.expectations.wrote(A, "11")
        waiting = asyncio.create_task(catch_up(reader(Scripted()), [cache]))
        await asyncio.sleep(0.001)
        cache.expectations.wrote(("ns", "b"), "99")
        cache.fold([added(thing("a", 11))])
        await asyncio.wait_for(waiting, 1)

    async def test_later_writes_of_unknown_fate_do_not_prolong_a_wait_in_progress(self) -> None:
        cache = await synced(thing("a", 1), thing("b", 2))
        cache.expectations.unsure(A)
        client = reader(Scripted(reply(thing("a", 17))))
        asked = client.get

        async def get(*given: Any) -> Any:
            cache.expectations.unsure(("ns", "b"))
            return await asked(*given)

        client.get = get  # type: ignore[assignment, method-assign]
        waiting = asyncio.create_task(catch_up(client, [cache]))
        await asyncio.sleep(0.001)
        cache.fold([added(thing("a", 17))])
        await asyncio.wait_for(waiting, 1)
        assert list(cache.unseen()) == [("ns", "b")]

    def test_each_cache_has_its_own_ledger_and_only_of_its_namespace(self) -> None:
        own = OwnWrites()
        everywhere, here, elsewhere = (
            own.expectations(THINGS),
            own.expectations(THINGS, "ns"),
            own.expectations(THINGS, "other"),
        )
        assert own.concerned(THINGS.ref("a", "ns")) == [everywhere, here]
        assert own.concerned(THINGS.ref("a", "other")) == [everywhere, elsewhere]
