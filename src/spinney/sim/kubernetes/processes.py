"""A program of the control plane while it runs: its log, its end.

Never outlives its owner: each program is started through the keeper, which ends it when the owner's pipe closes.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
STOP_TIMEOUT_S = 15.0
TAIL_BYTES = 4000


class Program:
    """One running program; `stop` may be called any number of times."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as sink:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), *arguments],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    def ended(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._keeper.poll()

    def stop(self) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.close()
        try:
            self._keeper.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()

    def tail(self) -> str:
        """The end of the log, for messages."""
        content = self.log.read_bytes() if self.log.exists() else b""
        return content[-TAIL_BYTES:].decode(errors="replace").strip()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on; distinct, because all are held until the last one."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
