"""List and watch: the table, and what the hands make of good and bad streams."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from spinney.drive.backoff import Backoff
from spinney.drive.client.api import Selection
from spinney.drive.client.codec import codec_for
from spinney.drive.client.errors import NotSent, TransportError, Undecodable
from spinney.drive.client.http.transport import Response
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.informers.watch import (  # type: ignore[attr-defined]
    Closed,
    Complete,
    Empty,
    Expired,
    Failed,
    LineBuffer,
    Listed,
    Opened,
    Outcome,
    Received,
    State,
    Tidy,
    Watcher,
    Watching,
    WatchSettings,
    step,
)
from unit.drive.drive_kit import (
    THINGS,
    Chunks,
    Scripted,
    Thing,
    as_json,
    in_skipped_time,
    reader,
    refusal,
    reply,
    thing,
)


@pytest.mark.parametrize(
    ("before", "outcome", "after"),
    [
        (Empty(2), Complete("5"), Listed("5")),
        (Empty(2), Failed("x"), Empty(3)),
        (Empty(2), Expired(), Empty(3)),
        (Listed("5", 2), Opened(), Watching("5", 2)),
        (Listed("5", 2), Failed("x"), Listed("5", 3)),
        (Listed("5", 2), Expired(), Empty(3)),
        (Watching("5", 2), Received("6"), Watching("6")),
        (Watching("5", 2), Closed(abrupt=False), Listed("5")),
        (Watching("5", 2), Closed(abrupt=True), Listed("5", 3)),
        (Watching("5", 2), Failed("x"), Listed("5", 3)),
        (Watching("5"), Expired(), Empty(1)),
    ],
)
def test_the_table_of_states(before: State, outcome: Outcome, after: State) -> None:
    assert step(before, outcome) == after


@pytest.mark.parametrize("state", [Empty(), Listed("5")])
def test_changes_without_an_open_watch_are_impossible(state: State) -> None:
    with pytest.raises(AssertionError, match="cannot follow"):
        step(state, Received("6"))


def listing(*items: Thing, version: int = 10) -> Response:
    return reply({"metadata": {"resourceVersion": str(version)}, "items": items})


def line(kind: str, item: object) -> bytes:
    return as_json({"type": kind, "object": item}) + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})


@asynccontextmanager
async def watching(transport: Scripted) -> AsyncIterator[tuple[Cache[Thing], list[Change[Thing]], Watcher[Thing]]]:
    cache: Cache[Thing] = Cache(THINGS)
    changes: list[Change[Thing]] = []
    cache.subscribe(changes.append)
    settings = WatchSettings(Backoff(1.0, 30.0))
    watcher = Watcher(reader(transport), Selection(THINGS), codec_for(Thing), cache, random.Random(1), settings)
    task = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(3600):
            yield cache, changes, watcher
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@in_skipped_time
async def test_changes_are_folded_however_the_stream_is_cut() -> None:
    lines = b"".join(line("ADDED", thing(f"t{i}", 11 + i)) for i in range(20))
    transport = Scripted(
        listing(), streams=[Chunks([lines[i : i + 7] for i in range(0, len(lines), 7)], stays_open=True)]
    )
    async with watching(transport) as (cache, _, _):
        await cache.wait_for("30")
        assert len(cache) == 20


@in_skipped_time
async def test_a_watch_asks_for_bookmarks_and_continues_from_the_list() -> None:
    transport = Scripted(listing())
    async with watching(transport) as (cache, _, _):
        await cache.wait_synced()
        await asyncio.sleep(0.1)
    asked = transport.asked[1].query
    assert (asked["watch"], asked["allowWatchBookmarks"], asked["resourceVersion"]) == ("true", "true", "10")
    assert 240 <= int(asked["timeoutSeconds"]) <= 300


@in_skipped_time
async def test_a_broken_watch_continues_from_the_last_version_seen_without_a_list() -> None:
    streams: list[Chunks | Exception] = [
        Chunks([line("ADDED", thing("a", 11))], end=TransportError("reset")),
        Chunks([bookmark(25)]),
        Chunks([line("ADDED", thing("b", 26))], stays_open=True),
    ]
    transport = Scripted(listing(), streams=streams)
    async with watching(transport) as (cache, _, _):
        await cache.wait_for("26")
    assert [asked.method for asked in transport.asked] == ["GET", "WATCH", "WATCH", "WATCH"]
    assert [asked.query["resourceVersion"] for asked in transport.asked[1:]] == ["10", "11", "25"]


@pytest.mark.parametrize(
    "expiry",
    [
        Chunks([refusal(410, "Expired").body], status=410),
        Chunks([line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})]),
    ],
    ids=["refused", "in the stream"],
)
@in_skipped_time
async def test_an_expired_watch_lists_again_and_no_delete_is_lost(expiry: Chunks) -> None:
    transport = Scripted(
        listing(thing("stays", 3), thing("goes", 4)),
        listing(thing("stays", 3), thing("comes", 15), version=20),
        streams=[Chunks(expiry.chunks, status=expiry.status), Chunks(stays_open=True)],
    )
    async with watching(transport) as (cache, changes, _):
        await cache.wait_for("20")
    assert [(change.key[1], change.new is None) for change in changes] == [
        ("stays", False),
        ("goes", False),
        ("comes", False),
        ("goes", True),
    ]


@in_skipped_time
async def test_bookmarks_and_changes_may_share_a_chunk() -> None:
    chunk = line("ADDED", thing("a", 11)) + bookmark(12) + line("MODIFIED", thing("a", 13, color="red"))
    async with watching(Scripted(listing(), streams=[Chunks([chunk], stays_open=True)])) as (cache, _, _):
        await cache.wait_for("13")
        assert cache.get(("ns", "a")) == thing("a", 13, color="red")


@in_skipped_time
async def test_one_object_of_another_shape_does_not_hide_the_others() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "ns", "resourceVersion": "12"}, "color": 7}
    chunk = line("ADDED", thing("a", 11)) + line("ADDED", odd) + line("ADDED", thing("b", 13))
    async with watching(Scripted(listing(), streams=[Chunks([chunk], stays_open=True)])) as (cache, _, _):
        await cache.wait_for("13")
        assert cache.keys() == [("ns", "a"), ("ns", "b")]
        assert "color" in cache.broken[("ns", "odd")].problem


@in_skipped_time
async def test_an_object_that_loses_its_shape_keeps_its_last_good_state_until_it_is_deleted() -> None:
    odd = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "12"}, "color": 7}
    gone = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "13"}, "color": 7}
    streams: list[Chunks | Exception] = [Chunks([line("MODIFIED", odd)], stays_open=True)]
    async with watching(Scripted(listing(thing("a", 5)), streams=streams)) as (cache, _, _):
        await cache.wait_for("12")
        assert (cache.get(("ns", "a")), list(cache.broken)) == (thing("a", 5), [("ns", "a")])
        cache.fold_broken(codec_for(Thing).events(line("DELETED", gone), "x").broken)
        assert (cache.get(("ns", "a")), cache.broken) == (None, {})


@in_skipped_time
async def test_a_list_is_tried_again_with_growing_delays_and_the_trouble_is_named() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    transport = Scripted(*[refusal(403, "Forbidden", "you may not")] * 3, listing())
    async with watching(transport) as (cache, _, watcher):
        await asyncio.sleep(0.5)
        assert "you may not" in watcher.trouble
        await cache.wait_synced()
        assert watcher.trouble == ""
    assert 5 < loop.time() - began < 9  # about 1 + 2 + 4 seconds


@in_skipped_time
async def test_a_server_that_hangs_up_at_once_is_not_called_in_a_hot_loop() -> None:
    transport = Scripted(listing(), streams=[Chunks() for _ in range(5)])
    async with watching(transport) as (cache, _, _):
        await cache.wait_synced()
        await asyncio.sleep(10)
        assert 3 <= sum(asked.method == "WATCH" for asked in transport.asked) <= 5


@in_skipped_time
async def test_a_watch_that_stays_silent_past_its_end_is_opened_anew() -> None:
    transport = Scripted(
        listing(), streams=[Chunks(stays_open=True), Chunks([line("ADDED", thing("a", 11))], stays_open=True)]
    )
    async with watching(transport) as (cache, _, _):
        await cache.wait_for("11")


@in_skipped_time
async def test_an_old_list_is_refused_and_the_view_never_goes_back_in_time() -> None:
    transport = Scripted(
        listing(thing("a", 9)),
        listing(version=5),
        listing(thing("a", 9), version=21),
        streams=[Chunks([line("ADDED", thing("b", 20))], end=None), Chunks([refusal(410).body], status=410)],
    )
    async with watching(transport) as (cache, changes, _):
        await cache.wait_for("21")
    assert [change.key[1] for change in changes if change.new is None] == ["b"]
    assert ("ns", "a") in cache


@in_skipped_time
async def test_a_server_that_begins_its_history_anew_is_believed_in_the_end() -> None:
    anew = [listing(thing("new", 1), version=2) for _ in range(4)]
    transport = Scripted(
        listing(thing("old", 900), version=1000), *anew, streams=[Chunks([refusal(410).body], status=410)]
    )
    async with watching(transport) as (cache, _, _):
        await cache.wait_synced()
        await asyncio.sleep(60)
        assert (cache.keys(), cache.resource_version) == ([("ns", "new")], "2")


@in_skipped_time
async def test_a_page_that_must_be_given_up_leaves_no_trace_in_the_new_list() -> None:
    first = reply({"metadata": {"resourceVersion": "10", "continue": "t"}, "items": [thing("ghost", 3)]})
    transport = Scripted(first, refusal(410, "Expired"), listing(thing("a", 12), version=13))
    async with watching(transport) as (cache, _, _):
        await cache.wait_synced()
        assert cache.keys() == [("ns", "a")]


@in_skipped_time
async def test_the_collectors_manners_are_kept_during_lists_only() -> None:
    noted: list[str] = []

    @contextmanager
    def manners() -> Iterator[Tidy]:
        noted.append("in")
        yield lambda: noted.append("page")
        noted.append("out")

    cache: Cache[Thing] = Cache(THINGS)
    first = reply({"metadata": {"resourceVersion": "10", "continue": "t"}, "items": [thing("a", 3)]})
    client = reader(Scripted(first, listing(thing("b", 4))))
    settings = WatchSettings(during_list=manners)
    watcher = Watcher(client, Selection(THINGS), codec_for(Thing), cache, random.Random(1), settings)
    task = asyncio.create_task(watcher.run())
    await cache.wait_synced()
    await asyncio.sleep(0)
    task.cancel()
    assert noted == ["in", "page", "page", "out"]


@in_skipped_time
async def test_a_server_out_of_reach_is_waited_for() -> None:
    async with watching(Scripted(*[NotSent("refused")] * 6, listing())) as (cache, _, _):
        await cache.wait_synced()


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    lines = LineBuffer()
    with pytest.raises(Undecodable, match="expected at most"):
        for _ in range(70):
            list(lines.feed(b"x" * (1 << 20)))


def test_large_chunks_are_cut_into_pieces_at_line_ends() -> None:
    rows = [b"%d" % i * 20_000 + b"\n" for i in range(10, 90)]
    pieces = [bytes(piece) for piece in LineBuffer().feed(b"".join(rows))]
    assert len(pieces) > 1
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert b"".join(pieces) == b"".join(rows)
