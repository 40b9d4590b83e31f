"""A program of the control plane while it runs: its log, its end.

Never outlives its owner: each program is started through the keeper, which ends it when the owner's pipe closes.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
STOP_TIMEOUT_S = 15.0
TAIL_BYTES = 4000
_LEAST_PORT = 10_240
_PORT_TRIES = 50
_CONNECTION_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_CONNECTION_PORT = 32_768


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

    @property
    def pid(self) -> int:
        """Of the keeper; the program is its only child."""
        return self._keeper.pid

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
    """Ports of the loopback interface that nobody listens on; distinct, because all are held until the last one.

    Not of those that the system gives to connections: one of them would be somebody's before a program listens on it.
    """
    ours = range(_LEAST_PORT, _first_of_connections())
    with contextlib.ExitStack() as held:
        return [_hold_port(held, ours) for _ in range(count)]


def _hold_port(held: contextlib.ExitStack, ours: range) -> int:
    """One of ours; where there is none, any that the system gives."""
    for _ in range(_PORT_TRIES if ours else 0):
        if found := _held(held, secrets.choice(ours)):
            return found
    return _held(held, 0)


def _held(held: contextlib.ExitStack, port: int) -> int:
    """The port, held until the end; 0: it is taken."""
    sock = held.enter_context(socket.socket())
    with contextlib.suppress(OSError):
        sock.bind(("127.0.0.1", port))
    return int(sock.getsockname()[1])


def _first_of_connections() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_CONNECTION_PORTS.read_text().split()[0])
    return _USUAL_CONNECTION_PORT
