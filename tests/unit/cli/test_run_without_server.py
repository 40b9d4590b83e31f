"""A role whose API server does not answer says so within five seconds, and goes on when it does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from spinney.cli.wiring.roles.runner import until_reachable
from spinney.drive.client.errors import NotSent
from spinney.drive.client.http.transport import Response, Transport
from spinney.sim.event_loop import Sim, run


def nowhere(tmp_path: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


CONFIGURATION = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}


@pytest.mark.parametrize("role", ["operator", "webhook", "scheduler", "dynamo", "dashboard", "watchdog"])
def test_r9_a_role_says_that_its_server_does_not_answer_and_keeps_trying(tmp_path: Path, role: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump({**CONFIGURATION, "server": {"healthProbes": {"port": 0}, "metrics": {"port": 0}}})
    )
    command = [sys.executable, "-m", "spinney.cli.main", "run", role]
    words = [*command, "--kubeconfig", str(nowhere(tmp_path)), "--config", str(config)]
    env = {**os.environ, "KUBERNETES_SERVICE_HOST": ""}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        said = json.loads(process.stderr.readline())
        time.sleep(0.2)
        assert process.poll() is None
        process.terminate()
    assert said["event"] == "the API server cannot be reached, it is tried again"
    assert "cannot connect to 127.0.0.1" in said["error"]


class Late:
    """A server that answers from a time on."""

    def __init__(self, sim: Sim, from_s: float) -> None:
        self._clock, self._from_s = sim.clock, from_s
        self.closed = False

    async def request(self, *_: object, **__: object) -> Response:
        if self._clock.monotonic() < self._from_s:
            raise NotSent("cannot connect")
        return Response(403, {}, b"{}")

    async def close(self) -> None:
        self.closed = True


def test_r9_a_server_that_comes_later_is_found_within_two_seconds_whatever_it_says() -> None:
    async def main(sim: Sim) -> tuple[float, bool]:
        late = Late(sim, sim.clock.monotonic() + 60)
        began = sim.clock.monotonic()
        transport: Transport = late  # type: ignore[assignment]  # no more of it is used
        await until_reachable(lambda: transport, "operator")
        return sim.clock.monotonic() - began, late.closed

    waited, closed = run(main)
    assert 60 <= waited <= 62 and closed
