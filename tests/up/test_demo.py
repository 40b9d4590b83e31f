"""`spinney demo` as people run it: every step shown and checked, nothing left behind, or kept to look around"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
import yaml

from cluster_kit.server import eventually
from spinney.cli.demonstration import STEPS, manifests
from stack_kit.spinney import SPINNEY

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = ("nodes", "topologies", "chat", "assistant", "finetune", "giant")


class Demo:
    """One process; its output is kept in files of the directory it runs in."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self._out, self._err = directory / "out", directory / "err"
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "KUBECONFIG")}
        with self._out.open("w") as out, self._err.open("w") as err:
            command = [*SPINNEY, "demo", *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=err, cwd=directory, env=environment)

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def shows(self, text: str) -> None:
        def look() -> bool:
            assert text in self.stdout or self.process.poll() is None, self.stderr
            return text in self.stdout

        eventually(look, f"the demo shows {text!r}", 120.0)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "here").mkdir()
    yield tmp_path / "here"


def ended(demo: Demo) -> int:
    try:
        return demo.process.wait(120)
    finally:
        demo.process.kill()


def test_b1_every_step_is_shown_and_checked_and_nothing_is_left_behind(directory: Path) -> None:
    demo = Demo(directory)
    assert ended(demo) == 0, demo.stderr
    text = demo.stdout
    for number, (title, _) in enumerate(STEPS, start=1):
        assert f"[{number}/{len(STEPS)}] {title}" in text
    assert re.search(r"8 pods run in block (h100-b\d)\n", text)
    assert re.search(r"routers: 2 pods on host h100-b\d-r\d-h\d\n", text)
    assert re.search(r"5 pods run in block gb200-z0-b\d\n", text)
    assert re.search(r"4 pods run in rack h100-b\d-r\d\n", text)
    assert "It would fit in one h100.example.com/block" in " ".join(text.split())
    home = re.search(r"8 pods run in block (\S+)\n", text)
    assert home is not None
    assert f"8 pods more, all in block {home[1]}\n" in text
    assert "Everything above was checked" in text
    assert sorted(path.name for path in directory.iterdir()) == ["err", "out"]


def test_b1_the_closing_picture_has_the_gangs_in_their_domains(directory: Path) -> None:
    demo = Demo(directory)
    assert ended(demo) == 0, demo.stderr
    picture = demo.stdout.partition("[7/7]")[2]
    assert "gb200  zone › block › rack › host" in picture
    assert "h100  block › rack › host" in picture
    assert re.search(r"gb200-z0-b0-r\d +4 .*assistant-0 ×5", picture)
    assert re.search(r"h100-b0-r\d +4 .*chat-0 ×8", picture)
    assert "giant" not in picture.partition("h100  block")[2]
    assert max(map(len, demo.stdout.splitlines())) <= 80
    assert "\x1b" not in demo.stdout


def test_b1_interrupted_it_stops_cleanly(directory: Path) -> None:
    demo = Demo(directory)
    demo.shows("[2/")
    demo.process.send_signal(signal.SIGINT)
    assert ended(demo) == 130
    assert demo.stderr == "spinney demo: interrupted, everything is stopped\n"


@pytest.mark.parametrize("moment_s", [0.0, 0.3])
def test_b1_interrupted_at_its_start_it_stops_without_a_traceback(directory: Path, moment_s: float) -> None:
    demo = Demo(directory)
    demo.shows("Starting")
    time.sleep(moment_s)
    demo.process.send_signal(signal.SIGINT)
    ended(demo)
    assert "Traceback" not in demo.stderr


def test_b1_kept_it_can_be_looked_at_until_it_is_told_to_stop(directory: Path) -> None:
    demo = Demo(directory, "--keep")
    demo.shows("Ctrl-C stops it")
    told = re.search(r"export KUBECONFIG=(\S+)", demo.stdout)
    page = re.search(r"In the browser: (\S+)", demo.stdout)
    assert told is not None
    assert page is not None
    kubeconfig = Path(told[1])
    assert kubeconfig == (directory / ".spinney" / "demo.kubeconfig").resolve()
    with urllib3.PoolManager(timeout=90) as pool:
        assert pool.request("GET", page[1]).status == 200
    asked = ["topology", "show", "--kubeconfig", str(kubeconfig), "--gang", "default/chat-0"]
    shown = subprocess.run([*SPINNEY, *asked], capture_output=True, text=True, check=True, timeout=180)
    assert "default/chat-0: 8 of 8 pods placed, 8 of them in rack h100-b0" in shown.stdout
    explained = [*SPINNEY, "explain", "default/giant", "--kubeconfig", str(kubeconfig)]
    story = subprocess.run(explained, capture_output=True, text=True, check=True, timeout=180)
    assert "PodCliqueSet default/giant waits" in story.stdout
    demo.process.send_signal(signal.SIGINT)
    assert (ended(demo), demo.stderr) == (0, "")


def test_b1_somebody_elses_kubeconfig_is_not_overwritten(directory: Path) -> None:
    (directory / "config").write_text("mine")
    demo = Demo(directory, "--keep", "--kubeconfig", "config")
    assert ended(demo) == 2
    assert len(demo.stderr.splitlines()) == 1
    assert (directory / "config").read_text() == "mine"


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ("demo._CHAT = 9", "PodCliqueSet chat does not run: 8 of 9 pods run"),
        ("demo.GB_BLOCK = 'kubernetes.io/hostname'", "the pods of assistant should share one kubernetes.io/hostname"),
        ("demo.RACK = 'kubernetes.io/hostname'", "should share one kubernetes.io/hostname and are in h100-b0-r0-h"),
    ],
)
def test_b1_what_is_not_as_it_should_be_is_one_sentence_and_status_1(directory: Path, planted: str, words: str) -> None:
    code = "import sys; from pathlib import Path; from spinney.cli import demonstration as demo; "
    code += f"demo.TIMEOUT_S = 5; {planted}; "
    code += "sys.exit(demo.run(keep=False, kubeconfig=Path('unused')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize("name", FILES)
def test_b1_what_it_applies_are_examples(name: str) -> None:
    text = (EXAMPLES / "demo" / f"{name}.yaml").read_text()
    assert name == "nodes" or list(yaml.safe_load_all(text)) == manifests(name)


def test_b1_the_cluster_is_mixed_and_as_large_as_it_says() -> None:
    nodes = manifests("nodes")
    assert len(nodes) == 40
    assert {len([key for key in node["metadata"]["labels"] if "example.com" in key]) for node in nodes} == {1, 2}
