"""Bugs planted in the embedded server, one at a time: the contract must notice each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drills.bug import Bug
from drills.host import PLANT
from drills.planted import BUGS

ROOT = Path(__file__).parents[2]
CONTRACT = Path("tests/contract")
UNHARMED = "test_deletion.py::test_a_deleted_object_is_gone[embedded-configmaps]"
"""Passes whatever is planted: a server that fails at everything would prove nothing."""
OWN_FAULTS = ("a request failed by our own fault", "housekeeping failed")
RUN_S = 500
PATIENCE_S = 40
"""So long a case waits for what a planted bug may never let happen."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of contract cases came to, by case: passed, failed (in its own words) or broken (around it)."""

    outcomes: dict[str, str]
    output: str
    server_log: str


def run_cases(cases: tuple[str, ...], directory: Path, bug: str = "") -> Run:
    """Run these contract cases in a process of their own, against a server with the bug."""
    report, temporary = directory / "report.xml", directory / "run"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short"]
    command += [f"--basetemp={temporary}", f"--junitxml={report}", *(str(CONTRACT / case) for case in cases)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    if bug:
        environment |= {"SPINNEY_HOST_MODULE": "drills.host", PLANT: bug, "SPINNEY_TEST_PATIENCE_S": str(PATIENCE_S)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=RUN_S
    )
    output = f"{done.stdout[-6000:]}{done.stderr[-2000:]}"
    assert report.exists(), f"the run of the cases ended without a report:\n{output}"
    logs = "".join(log.read_text() for log in temporary.glob("embedded*/server.log"))
    return Run(_read(report), output, logs)


def _read(report: Path) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        outcomes[name] = "failed" if case.find("failure") is not None else "passed" if len(case) == 0 else "broken"
    return outcomes


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_contract_notices(bug: Bug, tmp_path: Path) -> None:
    run = run_cases((*bug.cases, UNHARMED), tmp_path, bug.name)
    assert run.outcomes == {**dict.fromkeys(bug.cases, "failed"), UNHARMED: "passed"}, run.output
    assert not any(words in run.server_log for words in OWN_FAULTS), run.server_log[-4000:]


def test_without_a_bug_every_one_of_these_cases_passes(tmp_path: Path) -> None:
    cases = tuple(dict.fromkeys(case for bug in BUGS.values() for case in (*bug.cases, UNHARMED)))
    run = run_cases(cases, tmp_path)
    assert run.outcomes == dict.fromkeys(cases, "passed"), run.output
