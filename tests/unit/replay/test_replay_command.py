"""`spinney replay` as people call it: what it prints, what it writes, how it says no.

After a wanted change: SPINNEY_UPDATE_GOLDEN=1 pytest, then read the difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from spinney.cli.main import cli

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "cli" / "replay"
TRACE, NODES = "examples/traces/small-trace.csv", "examples/traces/small-nodes.yaml"
SMALL = ("replay", TRACE, "--nodes", NODES)
FOUR = ("binpack", "spread", "binpack+consolidation", "spread+fifo")
ALL = [part for name in FOUR for part in ("--setting", name)]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def called(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="spinney")


def check(name: str, printed: str) -> None:
    path = GOLDEN / name
    if os.environ.get("SPINNEY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")


def test_the_table_at_80_columns() -> None:
    found = called(*SMALL, *ALL)
    assert found.exit_code == 0 and found.stderr == ""
    assert max(map(len, found.stdout.splitlines())) <= 80
    check("table-80.txt", found.stdout)


def test_the_table_on_a_narrow_screen_puts_settings_under_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    found = called(*SMALL, *ALL)
    assert max(map(len, found.stdout.splitlines())) <= 50
    check("table-50.txt", found.stdout)


def test_the_json_is_golden_and_always_the_same() -> None:
    first, again = (called(*SMALL, "-o", "json").stdout for _ in range(2))
    assert first == again
    check("json.txt", first)


def test_yaml_and_json_say_the_same() -> None:
    assert yaml.safe_load(called(*SMALL, "-o", "yaml").stdout) == json.loads(called(*SMALL, "-o", "json").stdout)


def test_the_help_is_golden() -> None:
    check("help.txt", called("replay", "--help").stdout)


def test_standard_input_is_a_trace_too() -> None:
    by_file = json.loads(called(*SMALL, "-o", "json").stdout)
    found = json.loads(called("replay", "-", "--nodes", NODES, "-o", "json", stdin=Path(TRACE).read_text()).stdout)
    assert found["trace"].pop("file") == "standard input"
    del by_file["trace"]["file"]
    assert found == by_file


def test_a_single_gang_is_one_gang() -> None:
    found = called("replay", "-", "--nodes", NODES, stdin="arrival_s,gpus,duration_s\n0,1,5\n")
    assert found.stdout.startswith("standard input: 1 gang, ")


def test_pictures_are_written_and_well_formed(tmp_path: Path) -> None:
    assert called(*SMALL, *ALL, "--plots", str(tmp_path / "new")).exit_code == 0
    pictures = sorted((tmp_path / "new").iterdir())
    assert [picture.name for picture in pictures] == ["fragmentation.svg", "line.svg", "utilisation.svg", "waiting.svg"]
    for picture in pictures:
        text = picture.read_text()
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme:dark" in text and all(name in text for name in FOUR)
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_in_a_pipe_there_is_no_bar_and_no_colour() -> None:
    run = subprocess.run([sys.executable, "-m", "spinney.cli.main", *SMALL], capture_output=True, text=True, check=True)
    assert run.stderr == "" and "\x1b" not in run.stdout
    assert run.stdout == called(*SMALL).stdout


def test_on_a_terminal_there_is_a_bar_for_each_setting_on_standard_error() -> None:
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "spinney.cli.main", *SMALL],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = _everything(ours)
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 0 and b"\x1b" not in printed
    assert "binpack" in shown and "spread" in shown


def _everything(terminal: int) -> str:
    """Until the other end is closed, which Linux calls an error."""
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    return shown.decode()


def test_no_color_changes_nothing_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert called(*SMALL, *ALL).stdout == (GOLDEN / "table-80.txt").read_text(encoding="utf-8")


def _errors(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    files = {
        "empty.csv": b"",
        "words.csv": b"a,b\n1,2\n",
        "bad.csv": b"arrival_s,gpus,duration_s\n0,1,5\n3,many,5\n",
        "binary.csv": b"\x00\xff\xfe\x80",
        "levels.yaml": b"levels: 3\n",
        "cordoned.yaml": b"levels: [{name: host, count: 2}]\ncapacity: {nvidia.com/gpu: 8}\nunschedulable: true\n",
        "steps.csv": b"arrival_s,gpus,steps\n0,1,5\n0,1,5\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    bad = {name: str(tmp_path / name) for name in files}
    return {
        "no such trace": ("none.csv", "--nodes", NODES),
        "trace is a directory": ("examples", "--nodes", NODES),
        "empty trace": (bad["empty.csv"], "--nodes", NODES),
        "unknown header": (bad["words.csv"], "--nodes", NODES),
        "bad number": (bad["bad.csv"], "--nodes", NODES),
        "binary trace": (bad["binary.csv"], "--nodes", NODES),
        "no such nodes": (TRACE, "--nodes", "none.yaml"),
        "wrong nodes": (TRACE, "--nodes", bad["levels.yaml"]),
        "unknown sheet of hosts": (TRACE, "--nodes", TRACE),
        "nodes that take no pods": (TRACE, "--nodes", bad["cordoned.yaml"]),
        "no such topology": (TRACE, "--nodes", NODES, "--topology", "none.yaml"),
        "no topology in the file": (TRACE, "--nodes", NODES, "--topology", NODES),
        "unknown setting": (TRACE, "--nodes", NODES, "--setting", "best"),
        "unknown level": (TRACE, "--nodes", NODES, "--rule", "8=tor"),
        "load of gangs that come at once": (bad["steps.csv"], "--nodes", NODES),
        "pictures into a file": (TRACE, "--nodes", NODES, "--plots", f"{bad['words.csv']}/in"),
        "load and steps": (TRACE, "--nodes", NODES, "--load", "1", "--seconds-per-step", "1"),
        "standard input twice": ("-", "--nodes", "-"),
        "nodes left out": (TRACE,),
    }


def test_whatever_cannot_be_used_is_one_clear_sentence_and_status_2(tmp_path: Path) -> None:
    told = []
    for name, arguments in _errors(tmp_path).items():
        found = called("replay", *arguments)
        assert (found.exit_code, found.stdout) == (2, ""), name
        said = found.stderr.replace(f"{tmp_path}/", "")
        assert said.startswith("Usage: ") or said.count("\n") == 1, said
        told.append(f"# {name}\n{said}")
    check("errors.txt", "\n".join(told))


def test_a_hostile_name_does_not_reach_the_terminal_or_the_pictures(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,arrival_s,gpus,duration_s\n\x1b[31m<script>,0,999,5\nb,1,1,5\n")
    found = called("replay", str(tmp_path / "t.csv"), "--nodes", NODES, "--plots", str(tmp_path / "p"))
    assert found.exit_code == 0 and "\x1b" not in found.stdout and "never placed: 1 gang" in found.stdout
    assert all("<script" not in picture.read_text() for picture in (tmp_path / "p").iterdir())
