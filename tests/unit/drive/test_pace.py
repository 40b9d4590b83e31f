"""How many requests are under way, with servers that are played by arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spinney.drive.client.http.connection_pool import FEWEST, FIRST, ROUND, AdaptiveConcurrency, kind_of

MOST = 48


def after(
    pace: AdaptiveConcurrency, rounds: int, took_s: Callable[[int], float], kind: str = "POST pods", busy: bool = True
) -> int:
    """The limit after so many rounds with a server that takes so long for so many requests at a time."""
    for _ in range(rounds * ROUND):
        pace.answered(kind, took_s(pace.limit), busy)
    return pace.limit


def far(under_way: int) -> float:
    """A large server far away: nobody waits there."""
    return 0.020


def small(under_way: int) -> float:
    """A server with two cores and 4 ms of work for each request."""
    return max(0.004, 0.002 * under_way)


def test_a_server_that_keeps_nobody_waiting_gets_as_many_as_there_are_connections() -> None:
    assert after(AdaptiveConcurrency(MOST), 95, far) == MOST


def test_a_server_that_cannot_keep_up_gets_a_short_line() -> None:
    pace = AdaptiveConcurrency(MOST)
    seen = [after(pace, 1, small) for _ in range(300)]
    assert min(seen) == FEWEST
    assert max(seen) <= 12
    assert max(seen[100:]) <= 10


def test_a_line_becomes_shorter_when_the_server_slows_down_for_all() -> None:
    pace = AdaptiveConcurrency(MOST)
    assert after(pace, 20, far) > 2 * FIRST
    assert after(pace, 25, lambda under_way: 0.020 + 0.010 * under_way) < FIRST


def test_work_that_takes_long_by_itself_is_no_line() -> None:
    """An admission webhook makes pods slow; binds are quick. Neither waits."""
    pace = AdaptiveConcurrency(MOST)
    for _ in range(60):
        after(pace, 1, lambda _: 0.100, "POST pods")
        after(pace, 1, lambda _: 0.003, "POST pods binding")
    assert pace.limit == MOST


def test_a_way_that_has_become_longer_for_good_is_learnt() -> None:
    pace = AdaptiveConcurrency(MOST)
    after(pace, 1, lambda _: 0.001)
    assert after(pace, 20, far) < MOST / 2
    assert after(pace, 200, far) == MOST


def test_who_needs_no_more_gets_no_more() -> None:
    assert after(AdaptiveConcurrency(MOST), 50, far, busy=False) == FIRST


@pytest.mark.parametrize("most", [1, 2, 4])
def test_there_are_never_more_than_connections(most: int) -> None:
    assert after(AdaptiveConcurrency(most), 50, far) == most
    assert after(AdaptiveConcurrency(most), 50, small) == most


def test_an_answer_in_no_time_is_no_mistake() -> None:
    assert after(AdaptiveConcurrency(MOST), 2, lambda _: 0.0) >= FIRST


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("POST", "/api/v1/namespaces/a/pods", "POST pods"),
        ("POST", "/api/v1/namespaces/a/pods/x-1/binding", "POST pods binding"),
        ("PATCH", "/apis/grove.io/v1alpha1/namespaces/a/podcliques/x?fieldManager=me", "PATCH podcliques"),
        ("PATCH", "/prefix/apis/grove.io/v1alpha1/namespaces/a/podcliques/x/status", "PATCH podcliques status"),
        ("PUT", "/api/v1/nodes/n1", "PUT"),
    ],
)
def test_names_make_no_kinds(method: str, target: str, kind: str) -> None:
    assert kind_of(method, target) == kind
