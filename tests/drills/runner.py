"""Runs contract cases against the embedded server with a bug planted in it, one run after the other.

A process of its own, in which everything is imported once. A run is a fork of it, and so is the server of the run,
where the bug is planted: nothing is left of either for the next run. Reads orders, one line of JSON each, and answers
`done` after each; the cases' report, output and server log are then in the directory that the order names.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from cluster_kit import embedded_host, server, servers
from drills.planted import BUGS, plant

CONTRACT = Path("tests/contract")
REPORT, OUTPUT, SERVER_LOG = "report.xml", "output", "server.log"
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")


class ForkedHost:
    """The embedded server in a fork of this process; what is read and written like a started program."""

    def __init__(self, directory: Path, bug: str) -> None:
        from_orders, to_orders = os.pipe()
        from_answers, to_answers = os.pipe()
        self._pid = _forked(lambda: _serve(directory, bug, from_orders, to_answers, close=(to_orders, from_answers)))
        os.close(from_orders)
        os.close(to_answers)
        self.stdin = os.fdopen(to_orders, "w", buffering=1)
        self.stdout = os.fdopen(from_answers)

    def __enter__(self) -> ForkedHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        self.stdout.close()

    def wait(self, timeout: float | None = None) -> int:
        """The time is that of the run."""
        return os.waitpid(self._pid, 0)[1]


def _serve(directory: Path, bug: str, orders: int, answers: int, close: Sequence[int]) -> None:
    for descriptor in close:
        os.close(descriptor)
    os.dup2(orders, 0)
    os.dup2(answers, 1)
    _write_to(directory / SERVER_LOG, 2)
    if bug:
        plant(bug)
    asyncio.run(embedded_host.main(directory))


def _run(cases: Sequence[str], directory: Path, bug: str, patience_s: float) -> None:
    _write_to(directory / OUTPUT, 1, 2)
    host = ForkedHost(directory, bug)
    servers.start_host = lambda scratch: cast("subprocess.Popen[str]", host)
    server.DEADLINE_S = patience_s
    reports = (f"--basetemp={directory / 'run'}", f"--junitxml={directory / REPORT}")
    pytest.main([*OPTIONS, *reports, *_paths(cases)])


def _paths(cases: Sequence[str]) -> list[str]:
    return [str(CONTRACT / case) for case in cases]


def _write_to(file: Path, *descriptors: int) -> None:
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in descriptors:
        os.dup2(opened, descriptor)
    os.close(opened)


def _forked(act: Callable[[], None]) -> int:
    """The process that does it and ends without what this one does at its end."""
    pid = os.fork()
    if pid:
        return pid
    try:
        act()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(0)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    pytest.main([*OPTIONS, "--collect-only", *_paths([case for bug in BUGS.values() for case in bug.cases])])
    answers.write("ready\n")
    for line in sys.stdin:
        order = json.loads(line)
        directory = Path(order["directory"])
        pid = _forked(lambda: _run(order["cases"], directory, order["bug"], order["patience_s"]))  # noqa: B023
        os.waitpid(pid, 0)
        answers.write("done\n")


if __name__ == "__main__":
    main()
