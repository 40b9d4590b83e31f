"""Commands end with a line and a status where their output cannot be written or somebody interrupts: no tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CALLED = [sys.executable, "-m", "spinney.cli.main"]
COMMANDS = {
    "validate": ["validate", "-f", "examples/sets/single-clique.yaml"],
    "manifests": ["manifests", "crds"],
    "convert": ["convert", "-f", "examples/dynamo.yaml"],
    "help": ["--help"],
    "version": ["--version"],
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_an_output_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run([*CALLED, *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.stderr == "spinney: standard output: cannot be written: No space left on device\n"
    assert ran.returncode == 1


def test_a_closed_pipe_is_no_error_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ran = subprocess.run([*CALLED, "manifests", "crds"], cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert ran.stderr == b""


def test_an_interrupt_ends_a_command_without_a_traceback() -> None:
    words = [*CALLED, "validate", "-f", "-"]
    pipe = subprocess.PIPE
    # Where the tests run in the background, interrupts are ignored, and children inherit that.
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, cwd=ROOT, stdin=pipe, stderr=pipe, stdout=pipe, preexec_fn=heeded) as process:
        while process.poll() is None and not _reads_manifests(process.pid):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said
    # Where the interrupt met the definition of a class, Python ends itself by the signal; a shell shows both as 130.
    assert process.returncode in (130, -signal.SIGINT)


def _reads_manifests(pid: int) -> bool:
    """The program was started, and the reader of manifests is there."""
    started = b"spinney.cli.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return started and b"yaml" in Path(f"/proc/{pid}/maps").read_bytes()
