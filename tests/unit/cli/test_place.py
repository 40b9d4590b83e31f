"""`spinney place`: every input has one of three ends: an answer, a line that says what is wrong, or quiet."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from click.testing import Result as Run

from spinney.api.placement.problem import Problem
from spinney.api.placement.result import Decision, Domain, Explanation, Placement, Result
from spinney.cli.main import cli

PROBLEM: dict[str, Any] = {
    "version": 1,
    "resources": ["cpu"],
    "nodes": [{"name": "n0", "allocatable": {"cpu": 4}}],
    "gangs": [{"name": "ns/g", "pods": [{"name": "w"}]}],
}
LINE = json.dumps(PROBLEM)


def _decide(problem: Problem) -> Result:
    """Stands in for the engine: the first node takes everything, and gangs that are called `no` get nothing."""
    return Result(tuple(_decision(one.name, problem) for one in problem.gangs))


def _decision(name: str, problem: Problem) -> Decision:
    if name == "no":
        return Decision(name, "infeasible", explanation=Explanation("no rack holds it"))
    return Decision(
        name,
        "placed",
        score=1.0,
        placements=(Placement("w", 0, problem.nodes[0].name),),
        domains=tuple(Domain(group, "rack", ("a", "r0")) for group in ("", "x", "y", "z")),
    )


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    """The stand-in, unless a test asks for the real one by the parameter None."""
    if hasattr(request, "param"):
        return None
    module = ModuleType("spinney.core.placement.engine")
    module.place = _decide  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spinney.core.placement.engine", module)
    return module


def run(*arguments: str, stdin: str | bytes | None = None) -> Run:
    return CliRunner().invoke(cli, ["place", *arguments], input=stdin)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str | bytes], str]:
    def write(content: str | bytes) -> str:
        file = tmp_path / "problem.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(file)

    return write


Written = Callable[[str | bytes], str]


def test_a_file_is_answered_in_json(written: Written) -> None:
    ran = run(written(LINE))
    assert (ran.exit_code, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert list(answer) == ["version", "gangs"]
    assert answer["gangs"][0]["placements"] == [{"pods": "w", "index": 0, "node": "n0"}]
    assert '"score": 1.0' in ran.stdout


def test_yaml_and_json_of_one_problem_get_the_same_bytes(written: Written) -> None:
    first = run(written(LINE)).stdout_bytes
    assert run(written(yaml.safe_dump(PROBLEM))).stdout_bytes == first
    assert run("-", stdin=LINE).stdout_bytes == first


def test_the_answer_comes_in_yaml_on_request(written: Written) -> None:
    ran = run(written(LINE), "-o", "yaml")
    assert yaml.safe_load(ran.stdout) == json.loads(run(written(LINE)).stdout)
    assert ran.stdout.startswith("version: 1\ngangs:\n- name: ns/g\n  outcome: placed\n")


def test_the_table_has_a_line_for_each_gang(written: Written) -> None:
    gangs = [{"name": name, "pods": [{"name": "w"}]} for name in ("ns/g", "no", "evil\x1b[2J")]
    ran = run(written(json.dumps({**PROBLEM, "gangs": gangs})), "-o", "table")
    assert ran.stdout.splitlines() == [
        "GANG       OUTCOME      SCORE   PODS   DOMAINS                        REASON",
        "ns/g       placed       1.00    1      a/r0, x=a/r0, y=a/r0, 1 more   -",
        "no         infeasible   -       0      -                              no rack holds it",
        "evil?[2J   placed       1.00    1      a/r0, x=a/r0, y=a/r0, 1 more   -",
    ]


def test_a_gang_without_a_place_is_an_answer(written: Written) -> None:
    ran = run(written(json.dumps({**PROBLEM, "gangs": [{"name": "no"}]})))
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["gangs"][0]["explanation"]["reason"] == "no rack holds it"


def test_a_field_that_cannot_be_read_is_named_with_file_and_line(written: Written) -> None:
    name = written("version: 1\nresources: [cpu]\nnodes: []\ngangs:\n  - name: g\n    pods:\n      - name: 7\n")
    ran = run(name)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == f"{name}:7: gangs[0].pods[0].name: found 7, allowed: a text (in quotes)\n"


def test_the_line_is_found_in_json_too() -> None:
    ran = run("-", stdin='{"version": 1,\n"resources": ["cpu"],\n"nodes": 5,\n"gangs": []}')
    assert ran.stderr == "standard input:3: nodes: found 5, allowed: a list\n"


BROKEN = {
    "empty": b"",
    "garbage": bytes(range(256)),
    "zero bytes": b"\0" * 64,
    "half a document": b'{"version": 1, "nodes": [',
    "not an object": b"[1, 2]",
    "two documents": b"a: 1\n---\nb: 2\n",
    "deep": b"[" * 100_000,
    "another version": b"version: 2\n",
    "utf-16": "version: 1".encode("utf-16"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_problem_gets_one_line_and_status_2(name: str, written: Written) -> None:
    for ran in (run(written(BROKEN[name])), run("-", stdin=BROKEN[name])):
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr.count("\n") == 1
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("flags", [(), ("--jsonl",)])
def test_a_missing_file_and_a_directory_cannot_be_read(flags: tuple[str, ...], tmp_path: Path) -> None:
    missing, directory = run(str(tmp_path / "none"), *flags), run(str(tmp_path), *flags)
    assert (missing.exit_code, directory.exit_code) == (2, 2)
    assert missing.stderr == f"{tmp_path}/none: cannot be read: No such file or directory\n"
    assert directory.stderr == f"{tmp_path}: cannot be read: Is a directory\n"


def test_jsonl_answers_line_by_line_in_the_same_order() -> None:
    names = [f"g{number}" for number in range(20)]
    lines = [json.dumps({**PROBLEM, "gangs": [{"name": name, "pods": [{"name": "w"}]}]}) for name in names]
    ran = run("--jsonl", stdin="\n".join(lines))
    assert ran.exit_code == 0
    assert [json.loads(line)["gangs"][0]["name"] for line in ran.stdout.splitlines()] == names


def test_jsonl_reads_a_file_too(written: Written) -> None:
    assert len(run("--jsonl", written(f"{LINE}\n{LINE}\n")).stdout.splitlines()) == 2


def test_jsonl_without_lines_is_answered_with_none() -> None:
    ran = run("--jsonl", stdin="")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "", "")


def test_jsonl_skips_blank_lines_and_counts_them() -> None:
    ran = run("--jsonl", stdin=f"\n{LINE}\n  \r\nx\n")
    assert len(ran.stdout.splitlines()) == 1
    assert ran.stderr.startswith("line 4: ")


def test_jsonl_stops_at_a_line_that_cannot_be_read_and_results_before_it_stand() -> None:
    wrong = json.dumps({**PROBLEM, "gangs": [{"name": 5}]})
    ran = run("--jsonl", stdin=f"{LINE}\n{LINE}\n{wrong}\n{LINE}\n")
    assert ran.exit_code == 2
    assert len(ran.stdout.splitlines()) == 2
    assert ran.stderr == "line 3: gangs[0].name: found 5, allowed: a text (in quotes)\n"


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"version: 1", b"[" * 100_000, b'{"version": 1, "version": 1}'])
def test_jsonl_names_the_line_that_is_no_json(line: bytes) -> None:
    ran = run("--jsonl", stdin=LINE.encode() + b"\n" + line + b"\n")
    assert (ran.exit_code, len(ran.stdout.splitlines())) == (2, 1)
    assert ran.stderr.startswith("line 2: ")
    assert ran.stderr.count("\n") == 1


def test_usage_is_told_with_status_2() -> None:
    assert run().exit_code == 2
    assert "Missing argument 'FILE|-'" in run().stderr
    assert "--jsonl writes JSON lines" in run("--jsonl", "-o", "yaml", stdin="").stderr


def test_help_has_examples_and_the_exit_status() -> None:
    ran = run("--help")
    assert ran.exit_code == 0
    assert "spinney place examples/place/problem.yaml" in ran.stdout
    assert "Exit status" in ran.stdout
    assert "place" in CliRunner().invoke(cli, ["--help"]).stdout


def test_ctrl_c_is_quiet(engine: ModuleType) -> None:
    def interrupted(problem: Problem) -> Result:
        raise KeyboardInterrupt

    engine.place = interrupted  # type: ignore[attr-defined]
    ran = run("--jsonl", stdin=LINE)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (130, "", "")


ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("engine", [None], indirect=True)
def test_the_example_and_the_page_say_what_the_engine_says() -> None:
    page = (ROOT / "docs" / "placement.md").read_text()
    problem, result = re.findall(r"^```yaml\n# (?:problem|result)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert yaml.safe_load(run("-", stdin=problem).stdout) == yaml.safe_load(result)
    gangs = json.loads(run(str(ROOT / "examples" / "place" / "problem.yaml")).stdout)["gangs"]
    assert [one["outcome"] for one in gangs] == ["placed", "infeasible"]


STAND_IN = """
import sys
from types import ModuleType
from spinney.api.placement.result import Decision, Result
module = ModuleType("spinney.core.placement.engine")
module.place = lambda problem: Result(tuple(Decision(one.name, "placed", score=1.0) for one in problem.gangs))
sys.modules[module.__name__] = module
from spinney.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", STAND_IN, "place", "--jsonl"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as started:
        yield started
        started.kill()


def test_each_answer_is_flushed_before_the_next_line_comes(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(LINE.encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["gangs"][0]["outcome"] == "placed"
    process.stdin.close()
    assert process.wait(timeout=30) == 0


def test_a_reader_that_goes_away_is_no_trouble(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(LINE.encode() + b"\n")
    process.stdin.close()
    assert process.wait(timeout=30) == 1
    assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", STAND_IN, "place", "-"]
        ran = subprocess.run(command, input=LINE.encode(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode() == f"standard output: cannot be written: {os.strerror(errno.ENOSPC)}\n"
