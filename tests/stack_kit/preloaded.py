"""Commands of spinney that run to their end, each in a fork of one process where everything is imported.

As other processes they have a standard output, a standard error and an exit status of their own; only the second that
Python takes to import everything is not spent for each of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


class Preloaded:
    """The process; orders to it and its answers are lines."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._answers = process.stdin, process.stdout
        self._directory, self._count = directory, 0
        assert self._answers.readline() == "ready\n"

    def run(self, *arguments: str) -> Done:
        """In a directory of its own."""
        self._count += 1
        directory = self._directory / str(self._count)
        directory.mkdir()
        self._orders.write(f"{json.dumps([arguments, str(directory)])}\n")
        status = int(self._answers.readline())
        return Done(status, (directory / "stdout").read_text(), (directory / "stderr").read_text())


@contextmanager
def preloaded(directory: Path) -> Iterator[Preloaded]:
    with subprocess.Popen(
        [sys.executable, "-m", "stack_kit.preloaded"],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield Preloaded(process, directory)


def _run(arguments: list[str], directory: str) -> int:
    from spinney.cli.main import main

    os.chdir(directory)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    try:
        main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _serve() -> None:
    import spinney.cli.commands.up
    import spinney.cli.wiring.stack  # noqa: F401

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answers.write("ready\n")
    for line in sys.stdin:
        arguments, directory = json.loads(line)
        pid = os.fork()
        if not pid:
            status = _run(arguments, directory)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")


if __name__ == "__main__":
    _serve()
