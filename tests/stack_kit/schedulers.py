"""`spinney run scheduler` as processes that may be killed, stopped and continued."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import urllib3

from cluster_kit.server import Server
from spinney.api.roles import NAMESPACE
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.bare import kubeconfig_of_role
from stack_kit.spinney import SPINNEY


class SchedulerProgram:
    """One process, with the rights of its role and ports of its own."""

    def __init__(self, server: Server, directory: Path, number: int) -> None:
        self._probes, self._metrics = free_ports(2)
        ports = {"healthProbes": {"port": self._probes}, "metrics": {"port": self._metrics}}
        config, self._log = directory / f"config-{number}.yaml", directory / f"log-{number}"
        election = {"enabled": True, "resourceNamespace": NAMESPACE}
        config.write_text(json.dumps({"server": ports, "leaderElection": election}))
        kubeconfig = kubeconfig_of_role(server, "scheduler", directory)
        words = ["run", "scheduler", "--kubeconfig", str(kubeconfig), "--config", str(config)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*SPINNEY, *words], stderr=log)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def leads(self) -> bool:
        return self.figure("spinney_leading") == 1.0

    def is_ready(self) -> bool:
        return self._get(self._probes, "/readyz") == (200, "ok\n")

    def figure(self, name: str, labels: str = "") -> float:
        """A figure of the role; 0 if it is not told."""
        start = f'{name}{{role="scheduler"{labels}}} '
        told = [line for line in self._get(self._metrics, "/metrics")[1].splitlines() if line.startswith(start)]
        return float(told[0].removeprefix(start)) if told else 0.0

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def stop(self) -> int:
        """How it ends when it is asked to."""
        self.send(signal.SIGTERM)
        return self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def _get(self, port: int, path: str) -> tuple[int, str]:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=2)
            return answer.status, answer.data.decode()
        except urllib3.exceptions.HTTPError:
            return 0, ""


class Schedulers:
    """Two processes that may lead; one that was killed is replaced."""

    def __init__(self, server: Server, directory: Path) -> None:
        self._server, self._directory = server, directory
        self._started: list[SchedulerProgram] = []
        self._alive: list[SchedulerProgram] = []

    def filled(self) -> bool:
        self._alive = [each for each in self._alive if not each.has_ended]
        while len(self._alive) < 2:
            self._started.append(SchedulerProgram(self._server, self._directory, len(self._started)))
            self._alive.append(self._started[-1])
        return True

    def leader(self) -> SchedulerProgram | None:
        self.filled()
        return next((each for each in self._alive if each.leads()), None)

    def all_ready(self) -> bool:
        self.filled()
        return all(each.is_ready() for each in self._alive)

    def lose(self, process: SchedulerProgram) -> None:
        self._alive.remove(process)

    def take_back(self, process: SchedulerProgram) -> None:
        self._alive.append(process)

    def refused(self) -> list[str]:
        """What the server refused to any of them, as their logs tell it."""
        lines = [line for process in self._started for line in process.log.splitlines()]
        return [line for line in lines if "was refused" in line or "forbidden" in line]

    def end(self) -> None:
        for process in self._started:
            process.kill()
