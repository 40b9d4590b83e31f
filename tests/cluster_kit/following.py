"""Following a collection of a server from outside, for as long as a block runs.

A thread that goes on after its server has ended asks nobody as fast as it can, and takes the processor from every test
that comes after it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import urllib3

from cluster_kit.server import Server

Json = dict[str, Any]
PAUSE_S = 0.05
"""Between two watches: a server that does not answer is not asked in a circle."""


@contextmanager
def following(server: Server, path: str, version: str, note: Callable[[Json], None]) -> Iterator[threading.Thread]:
    """Every event after the version, to `note`, in a thread of its own; a watch that ends is taken up where it was.

    After the block the thread ends with its next event, or with the server.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(server, path, version, note, ended), daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        ended.set()


def _follow(server: Server, path: str, version: str, note: Callable[[Json], None], ended: threading.Event) -> None:
    while not ended.wait(PAUSE_S):
        query = {"watch": "1", "resourceVersion": version}
        with contextlib.suppress(urllib3.exceptions.HTTPError), server.stream(path, query=query) as watch:
            for event in iter(watch.next, None):
                if ended.is_set():
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                note(event)
