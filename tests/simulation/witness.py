"""The record of an API server, kept by watches from outside, and judged by the same promises as a simulated one."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import urllib3

from cluster_kit.server import Server
from spinney.sim.invariants.watchdog import WATCHED_RESOURCES, Watchdog

Json = dict[str, Any]
_PATHS = {
    "/pods": "/api/v1/pods",
    "/nodes": "/api/v1/nodes",
    "scheduling.k8s.io/priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "scheduling.run.ai/podgroups": "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "kai.scheduler/topologies": "/apis/kai.scheduler/v1alpha1/topologies",
}
assert set(_PATHS) == set(WATCHED_RESOURCES)


class Witness:
    """Begins before anything is made; versions of one server are one order of all its writes.

    Its threads end with the process; a watch that cannot go on ends its thread with an error, and binds are missing.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen: list[tuple[int, str, str, Json]] = []
        for collection, path in _PATHS.items():
            begin = server.http("GET", path).ok(200)
            for item in begin["items"]:
                self._seen.append((0, collection, "ADDED", item))
            version = begin["metadata"]["resourceVersion"]
            threading.Thread(target=self._follow, args=(collection, path, version), daemon=True).start()

    def _follow(self, collection: str, path: str, version: str) -> None:
        """From one quiet time to the next: a watch that ends is taken up where it was."""
        while True:
            query = {"watch": "1", "resourceVersion": version}
            with contextlib.suppress(urllib3.exceptions.HTTPError), self._server.stream(path, query=query) as watch:
                for event in iter(watch.next, None):
                    found = event["object"]
                    version = found["metadata"]["resourceVersion"]
                    self._seen.append((int(version), collection, event["type"], found))

    def judge(self) -> Watchdog:
        """Everything seen so far, in the order it was written. The record has no clock: a write is a second."""
        now = [0.0]
        dog = Watchdog(lambda: now[0], late_s=1_000.0)
        for number, collection, what, found in sorted(self._seen, key=lambda each: each[0]):
            now[0] = float(number)
            key = (found["metadata"].get("namespace", ""), found["metadata"]["name"])
            dog.see(collection, key, None if what == "DELETED" else found)
        return dog
