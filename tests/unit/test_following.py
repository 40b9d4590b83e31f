"""A collection is followed over watches that end, and no thread is left when nobody follows it any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import urllib3

from cluster_kit.following import following
from cluster_kit.server import Server, eventually

Json = dict[str, Any]


class Broken:
    """Serves one event for each watch, then the connection breaks."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @contextmanager
    def stream(self, path: str, query: Json) -> Iterator[Any]:
        self.asked.append(query["resourceVersion"])
        yield self

    def next(self) -> Json:
        if len(self.asked) > 1 and self.asked[-1] == self.asked[-2]:
            raise urllib3.exceptions.HTTPError
        self.asked.append(self.asked[-1])
        return {"object": {"metadata": {"resourceVersion": "2"}}}


def test_a_watch_that_breaks_is_taken_up_where_it_was_until_the_block_ends() -> None:
    server, seen = Broken(), list[Json]()
    with following(cast(Server, server), "/api/v1/pods", "1", seen.append) as thread:
        eventually(lambda: server.asked.count("2") > 2, "it goes on from the last version", 10)
    thread.join(10)
    assert not thread.is_alive()
    assert [event["object"]["metadata"]["resourceVersion"] for event in seen] == ["2"] * len(seen)
    assert seen
