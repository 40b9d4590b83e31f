"""The record of an API server, kept by watches from outside, and judged by the same promises as a simulated one."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from cluster_kit.following import following
from cluster_kit.server import Server
from spinney.sim.invariants.watchdog import WATCHED_RESOURCES, Watchdog

Json = dict[str, Any]
_PATHS = {
    "/pods": "/api/v1/pods",
    "/nodes": "/api/v1/nodes",
    "scheduling.k8s.io/priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "scheduling.run.ai/queues": "/apis/scheduling.run.ai/v2/queues",
    "scheduling.run.ai/podgroups": "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "kai.scheduler/topologies": "/apis/kai.scheduler/v1alpha1/topologies",
}
assert set(_PATHS) == set(WATCHED_RESOURCES)


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
        for collection, path in _PATHS.items():
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
