"""`spinney up` in a process of its own, and what can be done to it from outside.

Never imports the parts under test: they are met through the command line, HTTP and kubectl only.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

START_DEADLINE_S = 180.0
SPINNEY = [sys.executable, "-m", "spinney.cli.main"]


class Spinney:
    """One process; its output is kept in files of the directory it runs in."""

    def __init__(
        self, directory: Path, *arguments: str, kubectl: Path | None = None, program: Sequence[str] = SPINNEY
    ) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self._kubectl = kubectl
        self._out, self._err = directory / "stdout", directory / "stderr"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [*program, "up", "--kubeconfig", str(self.kubeconfig), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=directory,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def faults(self) -> list[str]:
        """What it said on standard error, but for warnings: a busy machine may give reason for them."""
        return [line for line in self.stderr.splitlines() if '"level": "warning"' not in line]

    @property
    def url(self) -> str:
        return next(line for line in self.stdout.splitlines() if line.startswith("ready")).split()[1]

    @property
    def pages(self) -> str:
        """Where the pages are served."""
        return next(line for line in self.stdout.splitlines() if line.split()[:1] == ["pages"]).split()[1]

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        return found

    @property
    def token(self) -> str:
        return str(self.config["users"][0]["user"]["token"])

    def ready(self) -> Spinney:
        """Wait for the line that starts with `ready`."""
        until = time.monotonic() + START_DEADLINE_S
        while not any(line.startswith("ready") for line in self.stdout.splitlines()):
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.stderr}"
            assert time.monotonic() < until, f"not ready within {START_DEADLINE_S} s: {self.stderr}"
            time.sleep(0.02)
        return self

    def refused(self, timeout: float = START_DEADLINE_S) -> tuple[int, str]:
        """Exit status and standard error of a start that must fail; never a traceback."""
        status = self.process.wait(timeout)
        assert "Traceback" not in self.stderr
        assert not self.stdout
        return status, self.stderr

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Exit status, and how long it took."""
        begun = time.monotonic()
        self.process.send_signal(how)
        return self.process.wait(180), time.monotonic() - begun

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            self.kubectl_command(*arguments), input=input, capture_output=True, text=True, check=False, timeout=180
        )
        assert not check or done.returncode == 0, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def kubectl_command(self, *arguments: str) -> list[str]:
        cache = self.directory / "kubectl-cache"
        return [str(self._kubectl), "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(cache), *arguments]

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def http(self, method: str, path: str, body: Any = None, token: str = "", **options: Any) -> tuple[int, Any]:
        """One request with the kubeconfig's trust; JSON in and out."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        raw = json.dumps(body).encode() if body is not None else None
        answer = self._pool.request(method, f"{self._base}{path}", body=raw, headers=headers, **options)
        return answer.status, json.loads(answer.data) if answer.data[:1] == b"{" else answer.data

    def read(self, path: str, **query: str) -> Any:
        """What is there, as the administrator sees it; costs little where kubectl would start a process."""
        status, found = self.http("GET", f"{path}?{urlencode(query)}" if query else path, token=self._administrator)
        assert status == 200, found
        return found

    @cached_property
    def _administrator(self) -> str:
        return self.token

    @cached_property
    def _base(self) -> str:
        return self.url

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(maxsize=8, retries=False, timeout=90, **self._trust())

    def _trust(self) -> dict[str, Any]:
        data = self.config["clusters"][0]["cluster"].get("certificate-authority-data")
        if data is None:
            return {}
        return {"ssl_context": ssl.create_default_context(cadata=base64.b64decode(data).decode())}

    def computed_s(self) -> float:
        """Processor time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        """Memory of the process now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def spinney(
    directory: Path, *arguments: str, kubectl: Path | None = None, program: Sequence[str] = SPINNEY
) -> Iterator[Spinney]:
    """A process that does not outlive the block."""
    directory.mkdir(parents=True, exist_ok=True)
    started = Spinney(directory, *arguments, kubectl=kubectl, program=program)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            try:
                started.process.wait(120)
            except subprocess.TimeoutExpired:
                started.kill()
