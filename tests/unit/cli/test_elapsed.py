"""Work that takes long says so, on a terminal only."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from spinney.cli.options import elapsed
from spinney.cli.wiring.stack import announce_start


class Terminal(io.StringIO):
    """Tells when something was written."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.written = threading.Event()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        found = super().write(text)
        self.written.set()
        return found


def test_long_work_says_how_long_it_takes_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with elapsed("planning", after_s=0.01, every_s=0.01):
        assert terminal.written.wait(60)
    assert terminal.getvalue().startswith("\rplanning: 0 s")
    assert terminal.getvalue().endswith("\r\033[K")


def test_short_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with elapsed("planning", after_s=3600):
        pass
    assert terminal.getvalue() == ""


def test_a_pipe_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal(is_terminal=False))
    before = threading.active_count()
    with elapsed("planning", after_s=0.0):
        assert threading.active_count() == before


def test_a_start_with_many_nodes_is_announced_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    announce_start(16)
    assert capsys.readouterr() == ("", "")
    announce_start(5000)
    assert capsys.readouterr() == ("", "spinney up: starting with 5000 nodes; a line with 'ready' follows\n")
