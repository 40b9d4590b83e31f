"""Gangs as they are listed: filters, search, pages, and the address that keeps them."""

from __future__ import annotations

import pytest

from spinney.core.view.gang_list import GangRow
from spinney.serve.dashboard.rows import PAGE, Query, gang_address, listing


def row(
    name: str, *, waits: bool = False, queue: str = "main", namespace: str = "default", created: str = "1"
) -> GangRow:
    state = "Unschedulable" if waits else "Scheduled"
    reason = "short of 8 nvidia.com/gpu" if waits else ""
    return GangRow(
        namespace, name, state, waits, reason, queue, "hall", "Job j", 1, 1, 1.0, "rack", ("b0", "r0"), created
    )


ROWS = [row("one"), row("two", waits=True, queue="other"), row("three", waits=True, namespace="team", created="0")]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["three", "two", "one"]),
        ({"state": "waits"}, ["three", "two"]),
        ({"state": "placed"}, ["one"]),
        ({"state": "Unschedulable", "queue": "other"}, ["two"]),
        ({"namespace": "team"}, ["three"]),
        ({"q": "SHORT of 8"}, ["three", "two"]),
        ({"q": "team/three"}, ["three"]),
        ({"q": "b0/r0", "state": "placed"}, ["one"]),
        ({"q": "nobody"}, []),
        ({"sort": "name"}, ["one", "two", "three"]),
        ({"sort": "-name"}, ["three", "two", "one"]),
        ({"sort": "queue"}, ["three", "one", "two"]),
        ({"sort": "nothing"}, ["three", "two", "one"]),
        ({"page": "99"}, ["three", "two", "one"]),
        ({"page": "-1"}, ["three", "two", "one"]),
        ({"page": "9" * 5000}, ["three", "two", "one"]),
    ],
)
def test_b5_gangs_are_those_that_were_asked_for_and_waiting_ones_come_first(
    asked: dict[str, str], names: list[str]
) -> None:
    assert [one.name for one in listing(ROWS, Query.read(asked)).rows] == names


@pytest.mark.parametrize("asked", [{}, {"state": "waits", "q": "a&b=c d"}, {"queue": "é", "page": "2"}])
def test_b5_the_address_says_what_was_asked_for(asked: dict[str, str]) -> None:
    from urllib.parse import parse_qsl

    query = Query.read(asked)
    assert Query.read(dict(parse_qsl(query.address.partition("?")[2]))) == query


def test_b5_a_heading_sorts_and_sorts_the_other_way_round() -> None:
    query = Query(q="a", page=3)
    once = query.sorted_by("pods")
    assert once.address == "/gangs?q=a&sort=pods"
    assert once.sorted_by("pods").address == "/gangs?q=a&sort=-pods"
    assert once.sorted_by("name").sort == "name"


def test_b5_a_long_list_is_cut_in_pages() -> None:
    rows = [row(f"g{number:03}") for number in range(2 * PAGE + 1)]
    last = listing(rows, Query(page=3))
    assert (last.pages, last.first, last.last, len(last.rows)) == (3, 2 * PAGE + 1, 2 * PAGE + 1, 1)
    assert listing(rows, Query(page=7)).query.page == 3


def test_a_name_is_one_part_of_an_address() -> None:
    assert gang_address("a", "b/../c?d#e") == "/gangs/a/b%2F..%2Fc%3Fd%23e"
