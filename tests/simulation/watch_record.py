"""The record of an API server, kept by watches from outside, and judged by the same promises as a simulated one."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from cluster_kit.following import following
from cluster_kit.server import Server
from spinney.sim.invariants.cluster_watch import RESOURCES
from spinney.sim.invariants.watchdog import Watchdog

Json = dict[str, Any]


class WatchRecord:
    """Begins before anything is made, and sees what is written while its block runs.

    Versions of one server are one order of all its writes. A watch that cannot go on ends its thread with an error,
    and binds are missing.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen: list[tuple[int, str, str, Json]] = []
        self._followers = ExitStack()

    def __enter__(self) -> WatchRecord:
        for collection, resource in RESOURCES.items():
            path = resource.collection()
            begin = self._server.http("GET", path).ok(200)
            for item in begin["items"]:
                self._seen.append((0, collection, "ADDED", item))
            version = begin["metadata"]["resourceVersion"]
            self._followers.enter_context(following(self._server, path, version, partial(self._note, collection)))
        return self

    def __exit__(self, *_: object) -> None:
        self._followers.close()

    def _note(self, collection: str, event: Json) -> None:
        found = event["object"]
        self._seen.append((int(found["metadata"]["resourceVersion"]), collection, event["type"], found))

    def judge(self) -> Watchdog:
        """Everything seen so far, in the order it was written. The record has no clock: a write is a second."""
        now = [0.0]
        dog = Watchdog(lambda: now[0], late_s=1_000.0)
        for number, collection, what, found in sorted(self._seen, key=lambda each: each[0]):
            now[0] = float(number)
            key = (found["metadata"].get("namespace", ""), found["metadata"]["name"])
            dog.see(collection, key, None if what == "DELETED" else found)
        return dog
