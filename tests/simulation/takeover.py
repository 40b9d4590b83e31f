"""How long gangs wait when their scheduler is killed: from kill -9 to the first bind of its successor."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from cluster_kit.following import following
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from simulation.watch_record import WatchRecord
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_LEASE
from spinney.whatif.inputs.nodes import load_nodes
from stack_kit.judging import create_set, judged, of_a_set
from stack_kit.schedulers import Schedulers
from unit.operator.topologies import BLOCK, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, TOPOLOGY, podgroup, pods

Json = dict[str, Any]
GANGS, SIZE = 50, 3
PODGROUPS = "scheduling.run.ai/v2alpha2/podgroups"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 2}}
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 4}}
- {{name: host, count: 4}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds after the kill: until somebody else has the lease, and until its first bind."""

    leads_s: float
    binds_s: float


@dataclass
class Figures:
    rounds: list[Takeover] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    binds: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = ", ".join(f"{each.leads_s:.1f}/{each.binds_s:.1f}" for each in self.rounds)
        middle = median(each.binds_s for each in self.rounds)
        return (
            f"takeover after kill -9 in a burst of {GANGS} gangs, lease/first bind in s: {shown}; "
            f"median of {len(self.rounds)} to the first bind {middle:.1f} s; "
            f"{self.binds} binds, {len(self.violations)} violations, {len(self.refused)} writes refused"
        )


class _Times:
    """When pods got their nodes and leases their holders, by our clock."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._followers = ExitStack()
        self.bound: dict[str, float] = {}
        self.holders: list[tuple[float, str]] = []

    def __enter__(self) -> _Times:
        for path, note in (("/api/v1/pods", self._pod), (LEASES, self._lease)):
            version = self._server.http("GET", path).ok(200)["metadata"]["resourceVersion"]
            self._followers.enter_context(following(self._server, path, version, note))
        return self

    def __exit__(self, *_: object) -> None:
        self._followers.close()

    def _pod(self, event: Json) -> None:
        pod = event["object"]
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(pod["metadata"]["uid"], time.monotonic())

    def _lease(self, event: Json) -> None:
        lease = event["object"]
        holder = lease["spec"].get("holderIdentity", "")
        if lease["metadata"]["name"] == SCHEDULER_LEASE and (not self.holders or self.holders[-1][1] != holder):
            self.holders.append((time.monotonic(), holder))

    def after(self, killed: float) -> Takeover | None:
        """None as long as the successor has not bound anybody."""
        taken = next((when for when, holder in self.holders if when > killed and holder), None)
        if taken is None:
            return None
        first = min((when for when in list(self.bound.values()) if when > taken), default=None)
        return Takeover(taken - killed, first - killed) if first is not None else None


def measure(server: Server, directory: Path, rounds: int) -> Figures:
    """Everybody is bound at the end of each round; then it is cleared. Admission is as it is installed, and all pods
    are protected by the authorizer.
    """
    _furnish(server)
    figures = Figures()
    with judged(server, directory), WatchRecord(server) as record, _Times(server) as times:
        create_set(Space(server, "default"))
        _play(server, directory, rounds, times, figures)
        eventually(lambda: record.judge().binds >= GANGS * SIZE * rounds, "the watches have told everything", 60)
        dog = record.judge()
    figures.violations, figures.binds = list(dog.violations), dog.binds
    return figures


def _play(server: Server, directory: Path, rounds: int, times: _Times, figures: Figures) -> None:
    crew, space = Schedulers(server, directory), Space(server, "default")
    try:
        for number in range(rounds):
            eventually(crew.all_ready, "two are ready", 120)
            leader = eventually(crew.leader, "somebody leads", 120)
            killed = _burst(space, number, leader)
            crew.lose(leader)
            figures.rounds.append(eventually(lambda k=killed: times.after(k), "the successor binds", 120))  # type: ignore[misc]
            eventually(lambda: _all_bound(space), "everybody has a node", 120)
            _clear(space)
    finally:
        crew.end()
        figures.refused = crew.refused()


def _burst(space: Space, number: int, leader: Any) -> float:
    """Gangs come as fast as the server takes them; in the middle the leader is killed. When that was."""

    def ask(each: int) -> None:
        name = f"g{number}-{each}"
        space.create(PODGROUPS, podgroup(name, SIZE, required=RACK)).ok(201)
        for member in pods(name, SIZE, 1):
            space.create("pods", of_a_set(member)).ok(201)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, each) for each in range(GANGS)]
        asked[GANGS // 2].result()
        leader.send(signal.SIGKILL)
        killed = time.monotonic()
        for each in asked:
            each.result()
    return killed


def _furnish(server: Server) -> None:
    cluster = Space(server, "")
    cluster.create("kai.scheduler/v1alpha1/topologies", TOPOLOGY).ok(201)
    for node in load_nodes(NODES):
        cluster.create("nodes", node).ok(201)
        status = {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.patch("nodes", node["metadata"]["name"], {"status": status}, sub="status").ok(200)


def _all_bound(space: Space) -> bool:
    found = space.list("pods")["items"]
    return len(found) == GANGS * SIZE and all(each["spec"].get("nodeName") for each in found)


def _clear(space: Space) -> None:
    for pod in space.list("pods")["items"]:
        space.delete("pods", pod["metadata"]["name"], gracePeriodSeconds=0)
    for group in space.list(PODGROUPS)["items"]:
        space.delete(PODGROUPS, group["metadata"]["name"])
    eventually(lambda: not space.list("pods")["items"], "the pods are gone", 60)
