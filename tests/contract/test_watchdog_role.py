"""`spinney run watchdog` beside a cluster: silent over what the scheduler does, loud about what breaks an invariant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from cluster_kit.loops import running
from cluster_kit.real_programs import programs_of
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import eventually
from cluster_kit.servers import SERVERS
from contract.operator_stages import CONFIGURATION
from contract.test_scheduler_thin import NODES, nested
from kube_apimachinery.system_clock import SystemClock
from spinney.cli.wiring.roles.registry import WatchdogOptions
from spinney.cli.wiring.roles.watchdog import WatchdogRole
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from stack_kit.stage import Stage, stage_on, while_running

Json = dict[str, Any]


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    assets = programs_of(request.param)
    with stage_on(assets, tmp_path_factory.mktemp("watchdog"), NODES, Settings()) as found:
        found.operate(CONFIGURATION)
        yield found


class Watched:
    """The role at work, and the requests that it makes."""

    def __init__(self, stage: Stage) -> None:
        self.record = Record()
        connection = find_connection(SystemClock(), kubeconfig=stage.server.kubeconfig)
        self.role = WatchdogRole(WatchdogOptions(events=True), RecordingTransport(connect(connection), self.record))

    def running(self) -> AbstractContextManager[Any]:
        async def closed() -> None:
            """The role closes its transport."""

        begun = asyncio.Event()
        begun.set()
        return running(while_running(self.role.run, begun, closed))

    def has_read(self) -> bool:
        assert self.role.trouble() == ""
        return True

    def figure(self, name: str) -> float:
        return self.role.figures().get(f"watchdog_{name}_total", 0.0)


def test_b10_the_watchdog_is_silent_over_the_scheduler_and_tells_of_a_bind_without_a_record(stage: Stage) -> None:
    watched = Watched(stage)
    with watched.running():
        eventually(watched.has_read, "everything is read")
        stage.create(nested("calm", 2)).ok(201)
        pods = stage.ready_pods("calm", 3)
        stage.delete("PodCliqueSet", "calm")

        def judged() -> bool:
            assert (watched.figure("plans") >= 1, watched.figure("binds")) == (True, float(len(pods)))
            return True

        eventually(judged, "every bind of the scheduler is judged")
        assert watched.role.figures()["watchdog_gaps_total"] == 0
        assert "INV" not in str(watched.role.figures())
        stage.create(pod_of_nobody("forged")).ok(201)
        node = stage.find("Node")[0]["metadata"]["name"]
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "forged"}, "target": {"name": node}}
        stage.server.http("POST", "/api/v1/namespaces/default/pods/forged/binding", bind).ok(201)

        def told() -> bool:
            assert watched.role.figures().get('watchdog_violations_total{invariant="INV4"}') == 1
            reasons = dict(stage.events("Pod", "forged"))
            assert f"was bound to {node}, recorded is None" in reasons["InvariantViolated"]
            return True

        eventually(told, "the bind without a record is counted and told")
    writes = {(use.verb, use.resource) for use in watched.record.used if use.verb not in ("get", "list", "watch")}
    assert writes == {("create", "events")}


def pod_of_nobody(name: str) -> Json:
    """No node is selected by it, so the scheduler leaves it."""
    spec = {
        "schedulerName": "kai-scheduler",
        "nodeSelector": {"tests.example.com/nowhere": "true"},
        "containers": [{"name": "c", "image": "i"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
