"""One running stack that all abuse is aimed at, and a good client beside it."""

from __future__ import annotations

import http.client
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stack_kit.spinney import Spinney, spinney

NODE = "levels: [{name: node, count: 1}]\ncapacity: {cpu: 1}\n"
GROWTH_MIB = 300.0
"""What one abuse may leave behind, with caches and the allocator's leftovers."""


@dataclass(slots=True)
class Latencies:
    """How long a client waited for each answer, and how long the stack computed meanwhile.

    A busy machine adds to the first only.
    """

    seconds: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def worst(self) -> float:
        return max(self.seconds)

    @property
    def worst_computed(self) -> float:
        return max(self.computed)


class Target:
    """The stack under attack."""

    def __init__(self, stack: Spinney) -> None:
        self.stack = stack
        host, _, port = stack.url.removeprefix("http://").rpartition(":")
        self.address = (host, int(port))

    def connect(self, timeout: float = 10) -> socket.socket:
        return socket.create_connection(self.address, timeout)

    def ask(self, method: str, path: str, body: bytes | None = None, content_type: str = "") -> tuple[int, bytes]:
        """One request on a connection of its own; anything but an answer in HTTP fails."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            headers = {"Content-Type": content_type} if content_type else {}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, request: bytes, timeout: float = 10) -> bytes:
        """The first bytes that come back for these bytes; empty when the connection is closed without a word."""
        with self.connect(timeout) as sock:
            try:
                sock.sendall(request)
                return sock.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                return b""

    @contextmanager
    def good_client(self) -> Iterator[Latencies]:
        """Reads beside the block, as others do."""
        done, latencies = threading.Event(), Latencies()

        def work() -> None:
            while not done.wait(0.01):
                begun, computed = time.monotonic(), self.stack.computed_s()
                status, _ = self.ask("GET", "/api/v1/namespaces/default")
                assert status == 200
                latencies.computed.append(self.stack.computed_s() - computed)
                latencies.seconds.append(time.monotonic() - begun)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while not latencies.seconds:
            time.sleep(0.01)
        try:
            yield latencies
        finally:
            done.set()
            thread.join(30)
            assert not thread.is_alive(), "the good client got no answer"


@pytest.fixture(scope="session")
def _target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory: Path = tmp_path_factory.mktemp("abuse")
    nodes = directory / "nodes.yaml"
    nodes.write_text(NODE)
    with spinney(directory, "--nodes", str(nodes)) as stack:
        yield Target(stack.ready())


@pytest.fixture
def target(_target: Target) -> Iterator[Target]:
    """The stack; whatever a test did to it, it answers at once afterwards, and has not grown without bound."""
    before, said = _target.stack.resident_mib(), len(_target.stack.stderr)
    yield _target
    assert _target.stack.process.poll() is None
    begun = time.monotonic()
    assert _target.ask("GET", "/readyz")[0] == 200
    assert time.monotonic() - begun < 30.0
    growth = _target.stack.resident_mib() - before
    assert growth < GROWTH_MIB, f"grew by {growth:.0f} MiB"
    assert _target.stack.stderr[said:] == ""
