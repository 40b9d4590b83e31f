"""Bugs planted in the embedded server, one at a time: the contract must notice each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drills.bug import Bug
from drills.planted import BUGS
from drills.runner import OUTPUT, REPORT, SERVER_LOG

TESTS = Path(__file__).parents[1]
UNHARMED = "test_deletion.py::test_a_deleted_object_is_gone[embedded-configmaps]"
"""Passes whatever is planted: a server that fails at everything would prove nothing."""
OWN_FAULTS = ("a request failed by our own fault", "housekeeping failed")
PATIENCE_S = 10.0
"""So long a case waits for what a planted bug may never let happen."""
PATIENCE_UNHARMED_S = 150.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of contract cases came to, by case: passed, failed (in its own words) or broken (around it)."""

    outcomes: dict[str, str]
    output: str
    server_log: str


class Runner:
    """The process that runs cases; orders to it and its answers are lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._answers = process.stdin, process.stdout
        assert self._answers.readline() == "ready\n"

    def run(self, cases: tuple[str, ...], directory: Path, patience_s: float, bug: str = "") -> Run:
        order = {"cases": cases, "directory": str(directory), "bug": bug, "patience_s": patience_s}
        self._orders.write(f"{json.dumps(order)}\n")
        assert self._answers.readline() == "done\n"
        output, report = (directory / OUTPUT).read_text()[-8000:], directory / REPORT
        assert report.exists(), f"the run of the cases ended without a report:\n{output}"
        return Run(_read(report), output, (directory / SERVER_LOG).read_text())


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    command = [sys.executable, "-m", "drills.runner"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with subprocess.Popen(
        command,
        cwd=TESTS.parent,
        env={**environment, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield Runner(process)


def _read(report: Path) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        outcomes[name] = "failed" if case.find("failure") is not None else "passed" if len(case) == 0 else "broken"
    return outcomes


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_contract_notices(bug: Bug, runner: Runner, tmp_path: Path) -> None:
    run = runner.run((*bug.cases, UNHARMED), tmp_path, PATIENCE_S, bug.name)
    assert run.outcomes == {**dict.fromkeys(bug.cases, "failed"), UNHARMED: "passed"}, run.output
    assert not any(words in run.server_log for words in OWN_FAULTS), run.server_log[-4000:]


def test_without_a_bug_every_one_of_these_cases_passes(runner: Runner, tmp_path: Path) -> None:
    cases = tuple(dict.fromkeys(case for bug in BUGS.values() for case in (*bug.cases, UNHARMED)))
    run = runner.run(cases, tmp_path, PATIENCE_UNHARMED_S)
    assert run.outcomes == dict.fromkeys(cases, "passed"), run.output
