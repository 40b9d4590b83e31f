"""A documented shell session: its console blocks as steps, what varies in their output, and a stack to play them on.

$ command            a line to type; `> ` continues it
output               compared with what is printed, but for what varies from run to run
...                  any lines, also none
^C                   the reader interrupts here, once the lines above have appeared
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = "```"
ANYTHING = "..."
INTERRUPT = "^C"
FIRST_TERMINAL = "make up"
DEADLINE_S = 150.0
BETWEEN_LOOKS_S = 0.05

_LOOKS = re.compile(r"(kubectl (get|describe|events|logs)|spinney explain)\b(?!.* (-w|--raw)\b)")
_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})"), "<time>"),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"(?<![\w.])(\d+m)?\d+s(?= ago\b|\)|\s|$)"), "<age>"),
    (re.compile(r"(?<=[Rr]esourceVersion: )\"?\d+\"?"), "<version>"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{8,10}\b"), "<hash>"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "<suffix>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<address>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\(\d+\.\d s\)"), "<duration>"),
    (re.compile(r"\S*/(LIVE|MERGED)-\d+/"), r"\1/"),
    (re.compile(r"\S*\.spinney/kubeconfig"), "<kubeconfig>"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the session; lines are counted from one, `end` is the last line of the output."""

    start: int
    end: int
    command: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    step: Step
    printed: tuple[str, ...]

    def __str__(self) -> str:
        expected = "\n".join(f"  - {line}" for line in self.step.expected)
        printed = "\n".join(f"  + {line}" for line in self.printed)
        return f"line {self.step.start}: {self.step.command}\n{expected}\n{printed}"


def read_steps(text: str) -> list[Step]:
    """Every command of the console blocks, in order."""
    steps: list[Step] = []
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(FENCE):
            inside = line == f"{FENCE}console"
        elif inside and line.startswith("$ "):
            steps.append(Step(number, number, line[2:], ()))
        elif inside and line.startswith("> ") and not steps[-1].expected:
            last = steps[-1]
            steps[-1] = Step(last.start, number, f"{last.command}\n{line[2:]}", ())
        elif inside:
            last = steps[-1]
            steps[-1] = Step(last.start, number, last.command, (*last.expected, line))
    return steps


def settled(line: str) -> str:
    """The line with a word in the place of whatever differs from run to run."""
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return line.strip()


def fits(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the output is the documented one; `...` stands for any lines, empty lines at the end do not count."""
    return _fits(_settled(expected), _settled(printed))


def _settled(lines: Sequence[str]) -> list[str]:
    found = [settled(line) for line in lines]
    while found and not found[-1]:
        found.pop()
    return found


def _fits(expected: list[str], printed: list[str]) -> bool:
    if not expected:
        return not printed
    if expected[0] == ANYTHING:
        return any(_fits(expected[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and _fits(expected[1:], printed[1:])


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands of the session run: a directory with the examples and a kubectl in the path."""

    directory: Path
    environment: dict[str, str]
    announced: tuple[str, ...]
    patience_s: float

    def play(self, step: Step) -> Difference | None:
        """Type the command; what only looks is typed again until it shows what is documented."""
        if step.command.startswith("export "):
            return None
        if step.command == FIRST_TERMINAL:
            return None if fits(step.expected, self.announced) else Difference(step, self.announced)
        if step.expected and step.expected[-1] == INTERRUPT:
            printed = self._interrupted(step)
        else:
            printed = self._typed(step)
        return None if fits(step.expected, printed) else Difference(step, printed)

    def _typed(self, step: Step) -> tuple[str, ...]:
        deadline = time.monotonic() + (self.patience_s if _LOOKS.match(step.command) else 0.0)
        while True:
            printed = self._run(step.command)
            if fits(step.expected, printed) or time.monotonic() > deadline:
                return printed
            time.sleep(BETWEEN_LOOKS_S)

    def _run(self, command: str) -> tuple[str, ...]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        return tuple(done.stdout.splitlines())

    def _interrupted(self, step: Step) -> tuple[str, ...]:
        """Read until as much has come as is documented, then press Ctrl-C."""
        wanted = len(step.expected) - 1
        with subprocess.Popen(
            ["bash", "-c", f"exec {step.command}"],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            assert running.stdout is not None
            alarm = threading.Timer(DEADLINE_S, running.send_signal, [signal.SIGINT])
            alarm.start()
            printed = [line.rstrip("\n") for _, line in zip(range(wanted), running.stdout, strict=False)]
            alarm.cancel()
            running.send_signal(signal.SIGINT)
        return (*printed, INTERRUPT)


@contextmanager
def stack(directory: Path, kubectl: Path, *options: str, patience_s: float = 10.0) -> Iterator[Shell]:
    """`spinney up` in a directory with nothing but the examples, and a shell beside it."""
    (directory / "examples").symlink_to(ROOT / "examples")
    up = [sys.executable, "-m", "spinney.cli.main", "up", *options]
    with (
        (directory / "up.log").open("w") as log,
        subprocess.Popen(up, cwd=directory, stdout=subprocess.PIPE, stderr=log, text=True) as running,
    ):
        assert running.stdout is not None
        try:
            announced = tuple(running.stdout.readline().rstrip("\n") for _ in range(4))
            assert announced[0].startswith("ready"), (directory / "up.log").read_text()[-4000:]
            yield Shell(directory, _environment(directory, kubectl), announced, patience_s)
        finally:
            running.send_signal(signal.SIGINT)
    assert running.returncode == 0, f"spinney up ended with {running.returncode}"


def _environment(directory: Path, kubectl: Path) -> dict[str, str]:
    return {
        "HOME": str(directory),
        "KUBECONFIG": ".spinney/kubeconfig",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(directory),
        "TZ": "UTC",
    }


def play(shell: Shell, steps: Sequence[Step], tell: Callable[[Step, float], None] | None = None) -> list[Difference]:
    """All steps in order; what differed."""
    differences = []
    for step in steps:
        began = time.monotonic()
        difference = shell.play(step)
        if difference is not None:
            differences.append(difference)
        if tell is not None:
            tell(step, time.monotonic() - began)
    return differences
