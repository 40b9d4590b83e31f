"""R9 in small: schedulers that are killed, stopped past their lease or led by two, and what the server recorded."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from simulation.witness import Witness
from spinney.sim.kubernetes.processes import free_ports
from spinney.sim.nodes.describe import load_nodes
from stack_kit.bare import bare_server
from stack_kit.spinney import SPINNEY
from unit.operator.topologies import RACK
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, podgroup, pods

Json = dict[str, Any]
PODGROUPS = "scheduling.run.ai/v2alpha2/podgroups"
FATES = ("kill", "stop", "kill", "stop")
ELECTION = {"enabled": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}

pytestmark = pytest.mark.timeout(600)


class Process:
    """One `spinney run scheduler`, with ports of its own."""

    def __init__(self, server: Server, directory: Path, number: int) -> None:
        probes, self._metrics = free_ports(2)
        ports = {"healthProbes": {"port": probes}, "metrics": {"port": self._metrics}}
        config, self._log = directory / f"config-{number}.yaml", directory / f"log-{number}"
        config.write_text(json.dumps({"server": ports, "leaderElection": ELECTION}))
        words = ["run", "scheduler", "--kubeconfig", str(server.kubeconfig), "--config", str(config)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*SPINNEY, *words], stderr=log)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def leads(self) -> bool:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._metrics}/metrics", retries=False, timeout=1)
        except urllib3.exceptions.HTTPError:
            return False
        return 'spinney_leading{role="scheduler"} 1' in answer.data.decode()

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def end(self) -> int:
        """How it ended by itself."""
        return self._process.wait(150)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)


class Crew:
    """Two processes that may lead; one that ended, on a busy machine by itself, is replaced."""

    def __init__(self, server: Server, directory: Path) -> None:
        self._server, self._directory = server, directory
        self._started: list[Process] = []
        self._alive: list[Process] = []

    def filled(self) -> bool:
        self._alive = [each for each in self._alive if not each.has_ended]
        while len(self._alive) < 2:
            self._started.append(Process(self._server, self._directory, len(self._started)))
            self._alive.append(self._started[-1])
        return True

    def leader(self) -> Process | None:
        self.filled()
        return next((each for each in self._alive if each.leads()), None)

    def lose(self, process: Process) -> None:
        self._alive.remove(process)

    def end(self) -> None:
        for process in self._started:
            process.kill()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with bare_server(request.param, tmp_path) as found:
        yield found


def _furnish(server: Server) -> None:
    cluster = Space(server, "")
    cluster.create("kai.scheduler/v1alpha1/topologies", TOPOLOGY).ok(201)
    for node in load_nodes(NODES):
        cluster.create("nodes", node).ok(201)
        ready = {"type": "Ready", "status": "True"}
        status = {**node["status"], "conditions": [ready]}
        cluster.patch("nodes", node["metadata"]["name"], {"status": status}, sub="status").ok(200)


def _ask(space: Space, number: int) -> None:
    """Gangs that fit: what the round before asked for is deleted first."""
    for old in space.list("pods")["items"]:
        space.delete("pods", old["metadata"]["name"], gracePeriodSeconds=0)
    for each in range(3):
        name = f"g{number}-{each}"
        space.create(PODGROUPS, podgroup(name, 3, required=RACK)).ok(201)
        for member in pods(name, 3, 4):
            space.create("pods", member).ok(201)


def _all_bound(space: Space) -> bool:
    found = space.list("pods")["items"]
    plans = [each for each in space.list(PODGROUPS)["items"] if "spinney.dev/plan" in each["metadata"]["annotations"]]
    return len(found) == 9 and all(each["spec"].get("nodeName") for each in found) and not plans


def test_r9_whatever_happens_to_leaders_the_record_of_the_server_breaks_no_promise(
    server: Server, tmp_path: Path
) -> None:
    witness, space = Witness(server), Space(server, "default")
    _furnish(server)
    crew = Crew(server, tmp_path)
    try:
        for number, fate in enumerate(FATES):
            leader = eventually(crew.leader, "somebody leads", 120)
            _ask(space, number)
            leader.send(signal.SIGKILL if fate == "kill" else signal.SIGSTOP)
            crew.lose(leader)
            eventually(lambda: crew.filled() and _all_bound(space), f"round {number}: everybody has a node", 120)
            if fate == "stop":
                eventually(crew.leader, "somebody else leads", 120)
                leader.send(signal.SIGCONT)
                assert leader.end() == 1
    finally:
        crew.end()
    eventually(lambda: witness.judge().binds >= 9 * len(FATES), "the watches have told everything")
    dog = witness.judge()
    assert dog.violations == []
    assert dog.binds == 9 * len(FATES)
    assert dog.plans >= 3 * len(FATES)
