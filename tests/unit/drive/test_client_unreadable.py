"""Objects that can not be read: each is one complaint, and hides nobody else."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spinney.drive.client.codec import Broken, WatchEvent, codec_for
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.informers.unreadable import Complaint, Unreadable, figures
from unit.drive.drive_kit import THINGS, Thing, as_json, thing

KEY = ("ns", "bad")


def fold(cache: Cache[Thing], *items: Thing) -> None:
    cache.fold([WatchEvent("MODIFIED", item) for item in items])


def fails_of_red(change: Change[Thing]) -> None:
    if change.new is not None and change.new.color == "red":
        raise ZeroDivisionError("red")


def test_a_subscriber_that_fails_of_one_object_hears_of_all_others() -> None:
    unreadable, heard = Unreadable(), list[str]()
    cache: Cache[Thing] = Cache(THINGS, unreadable=unreadable)
    cache.subscribe(fails_of_red)
    cache.subscribe(lambda change: heard.append(change.key[1]))
    fold(cache, thing("a", 1), thing("bad", 2, color="red"), thing("b", 3))
    assert heard == ["a", "bad", "b"]
    assert cache.broken[KEY].problem == "ZeroDivisionError: red"
    assert figures(unreadable) == {
        'unreadable_objects{kind="things.test.dev"}': 1.0,
        'unreadable_objects_total{kind="things.test.dev"}': 1.0,
    }


def test_a_complaint_is_made_once_for_each_version_and_ends_with_the_object_or_its_mistake() -> None:
    unreadable, told = Unreadable(), list[Complaint]()
    unreadable.listen(told.append)
    cache: Cache[Thing] = Cache(THINGS, unreadable=unreadable)
    cache.subscribe(fails_of_red)
    cache.subscribe(fails_of_red)
    fold(cache, thing("bad", 1, color="red"), thing("bad", 1, color="red"))
    assert len(told) == 1
    fold(cache, thing("bad", 2, color="red"))
    assert len(told) == 2
    fold(cache, thing("bad", 3))
    assert (cache.broken, unreadable.has_any) == ({}, False)
    fold(cache, thing("bad", 4, color="red"))
    cache.fold([WatchEvent("DELETED", thing("bad", 5, color="red"))])
    assert (cache.broken, unreadable.has_any, unreadable.totals.total()) == ({}, False, 3)


def test_whoever_subscribes_late_is_not_ended_by_what_is_there() -> None:
    cache: Cache[Thing] = Cache(THINGS)
    fold(cache, thing("bad", 1, color="red"), thing("a", 2))
    cache.subscribe(fails_of_red)
    assert list(cache.broken) == [KEY]


def test_an_object_that_can_not_be_indexed_is_listed_nowhere() -> None:
    def by_color(item: Thing) -> tuple[str, ...]:
        return (str(1 // len(item.color)),)

    cache: Cache[Thing] = Cache(THINGS, indexes={"color": by_color})
    fold(cache, thing("bad", 1), thing("a", 2, color="x"))
    assert [each.metadata.name for each in cache.by("color", "1")] == ["a"]
    assert list(cache.broken) == [KEY]


def test_those_who_want_to_know_hear_what_broke_and_what_is_well_again() -> None:
    heard: list[tuple[bool, bool]] = []
    cache: Cache[Thing] = Cache(THINGS)
    cache.fold_broken([Broken(KEY, "1", False, "odd")])
    cache.subscribe_broken(lambda before, after: heard.append((before is not None, after is not None)))
    fold(cache, thing("bad", 2))
    assert heard == [(False, True), (True, False)]


def test_failed_work_on_an_object_is_told_and_the_object_is_not_broken() -> None:
    unreadable = Unreadable()
    cache: Cache[Thing] = Cache(THINGS, unreadable=unreadable)
    fold(cache, thing("bad", 1))
    cache.complain(KEY, ValueError("later"))
    assert (unreadable.has_any, cache.broken) == (True, {})
    cache.recover(KEY)
    assert not unreadable.has_any


def deep(levels: int, **more: Any) -> bytes:
    head = as_json({"metadata": {"name": "bad", "namespace": "ns", "resourceVersion": "12", "uid": "u", **more}})
    return head[:-1] + b',"spec":{"nodeName":"n","x":' + b"[" * levels + b"]" * levels + b'},"color":"red"}'


@pytest.mark.parametrize("levels", [1_500, 9_990, 500_000])
def test_an_object_nested_deeper_than_any_decoder_goes_does_not_hide_the_others(levels: int) -> None:
    began = time.process_time()
    bad, good = deep(levels, annotations={"pod-group-name": "g"}), as_json(thing("a", 11))
    page = codec_for(Thing).page(b'{"metadata":{"resourceVersion":"20"},"items":[' + bad + b"," + good + b"]}", "x")
    assert (page.items, page.version) == ((thing("a", 11),), "20")
    lines = b'{"type":"ADDED","object":' + bad + b'}\n{"type":"ADDED","object":' + good + b"}\n"
    batch = codec_for(Thing).events(lines, "x")
    assert [event.object for event in batch.events] == [thing("a", 11)]
    for broken in (*page.broken, *batch.broken):
        assert (broken.key, broken.version, broken.uid, broken.node) == (KEY, "12", "u", "n")
        assert broken.annotations == {"pod-group-name": "g"}
        assert broken.problem == "Nested deeper than 256 levels"
    assert len(page.broken) == len(batch.broken) == 1
    assert time.process_time() - began < 5.0


def test_what_is_nested_less_deep_than_decoders_go_is_read() -> None:
    batch = codec_for(Thing).events(b'{"type":"ADDED","object":' + deep(600) + b"}\n", "x")
    assert [event.object.color for event in batch.events] == ["red"]
