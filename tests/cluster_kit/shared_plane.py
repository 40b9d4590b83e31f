"""Attaching to the real control plane of this test run; the first worker to ask starts it."""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST = Path(__file__).with_name("plane_host.py")
START_S = 120.0


@contextmanager
def attached(directory: Path) -> Iterator[dict[str, Any]]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connect(directory) or _start(directory)
    with connection:
        yield json.loads((directory / "state.json").read_text())


def _connect(directory: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(directory / "socket"))
    except OSError:
        connection.close()
        return None
    return connection


def _start(directory: Path) -> socket.socket:
    for stale in ("socket", "state.json", "error.txt"):
        (directory / stale).unlink(missing_ok=True)
    with (directory / "host.log").open("w") as log:
        host = subprocess.Popen(
            [sys.executable, "-m", "cluster_kit.plane_host", str(directory)],
            cwd=HOST.parent.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + START_S
    while not (directory / "state.json").exists():
        if host.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the real control plane did not start:\n{(directory / 'host.log').read_text()[-3000:]}")
        time.sleep(0.05)
    connection = _connect(directory)
    assert connection is not None, "the host of the real control plane does not answer"
    _REAP_LATER.append(host)
    return connection


# Kept so that the interpreter does not warn about a child that outlives the function which started it.
_REAP_LATER: list[subprocess.Popen[bytes]] = []
