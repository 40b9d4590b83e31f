"""`spinney run` as processes against an embedded server of their own: webhook, all roles, configuration."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from cluster_kit.admission import SETS, TOPOLOGIES
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from kube_apimachinery import tls
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import WEBHOOK_CONFIGURATION
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.bare import bare_server, kubeconfig_of_role
from stack_kit.spinney import SPINNEY
from unit.operator.operator_world import clique, podcliqueset

Json = dict[str, Any]
ZONE = {"domain": "zone", "key": "example.com/zone"}
RACK = {"domain": "rack", "key": "example.com/rack"}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    with bare_server("embedded", tmp_path) as server:
        yield server


class Process:
    """One `spinney run`, with the rights of its role and ports of its own."""

    def __init__(self, server: Server, directory: Path, *words: str, **configuration: Any) -> None:
        self.probes, self.metrics, self.webhook = free_ports(3)
        self.config = directory / "config.yaml"
        self._given = configuration
        self.write()
        role = words[0]
        kubeconfig = server.kubeconfig if role == "all" else kubeconfig_of_role(server, role, directory)
        whole = ["run", *words, "--kubeconfig", str(kubeconfig), "--config", str(self.config)]
        with (directory / "stderr").open("w") as log:
            self.process = subprocess.Popen([*SPINNEY, *whole], stderr=log)
        self.stderr = directory / "stderr"

    def write(self, **more: Any) -> None:
        ports = {"healthProbes": self.probes, "metrics": self.metrics, "webhooks": self.webhook}
        told = {"server": {name: {"port": port} for name, port in ports.items()}, **self._given, **more}
        self.config.write_text(json.dumps(told))

    def get(self, port: int, path: str) -> tuple[int, str]:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=20)
            return answer.status, answer.data.decode()
        except urllib3.exceptions.HTTPError:
            return 0, ""

    def ready(self) -> None:
        def check() -> bool:
            assert self.process.poll() is None, self.stderr.read_text()
            return self.get(self.probes, "/readyz")[0] == 200

        eventually(check, "ready", 60)

    def stop(self) -> None:
        """It ends as told, with status 0."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, self.stderr.read_text()


@contextmanager
def spinney_run(server: Server, directory: Path, *words: str, **configuration: Any) -> Iterator[Process]:
    started = Process(server, directory, *words, **configuration)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait(60)


def with_levels(*levels: Json) -> Json:
    return {"topologyAwareScheduling": {"enabled": True, "levels": list(levels)}, "scheduler": KAI}


KAI = {"profiles": [{"name": "kai-scheduler", "default": True}]}


def levels_of(server: Server) -> list[Json]:
    found: list[Json] = Space(server, "").get(TOPOLOGIES, "grove-topology").ok(200)["spec"]["levels"]
    return found


def test_c7_configuration_is_read_at_the_start_only(own: Server, tmp_path: Path) -> None:
    with spinney_run(own, tmp_path, "operator", **with_levels(ZONE)) as operator:
        operator.ready()
        operator.write(**with_levels(ZONE, RACK))
        space = Space(own, "default")
        space.create(SETS, podcliqueset("p", [clique("a")])).ok(201)
        eventually(lambda: space.list("pods")["items"], "it is at work", 30)
        assert levels_of(own) == [ZONE]
        operator.config.write_text("no configuration at all: [")
        space.create(SETS, podcliqueset("q", [clique("a")])).ok(201)
        eventually(lambda: len(space.list("pods")["items"]) == 2, "it is still at work", 30)
        assert levels_of(own) == [ZONE]
        operator.stop()
    with spinney_run(own, tmp_path, "operator", **with_levels(ZONE, RACK)) as again:
        again.ready()
        assert levels_of(own) == [ZONE, RACK]
        again.stop()


def test_all_roles_run_in_one_process_and_are_measured(own: Server, tmp_path: Path) -> None:
    with spinney_run(own, tmp_path, "all", **with_levels(ZONE)) as roles:
        roles.ready()
        space = Space(own, "default")
        made = space.create(SETS, podcliqueset("p", [clique("a")], topologyConstraint={"packDomain": "zone"})).ok(201)
        assert made["metadata"]["labels"] == {"grove.io/topology-name": "grove-topology"}
        wrong = podcliqueset("q", [clique("a")], topologyConstraint={"packDomain": "rack"})
        space.create(SETS, wrong).refused(422, "Invalid", "does not exist in cluster topology")
        eventually(lambda: space.list("pods")["items"], "pods are made", 30)
        status, text = roles.get(roles.metrics, "/metrics")
        assert status == 200
        for line in (
            "# TYPE spinney_ready gauge",
            'spinney_ready{role="operator"} 1',
            'spinney_leading{role="operator"} 1',
            'spinney_ready{role="webhook"} 1',
            "# TYPE spinney_calls_total counter",
        ):
            assert line in text.splitlines()
        assert 'spinney_calls_total{role="webhook",path="/validate",code="200"}' in text
        assert roles.get(roles.probes, "/metrics")[0] == 404
        roles.stop()


def test_a_lease_that_nobody_can_take_is_not_ready_and_is_told_until_it_is_deleted(own: Server, tmp_path: Path) -> None:
    space, path = Space(own, NAMESPACE), "coordination.k8s.io/v1/leases"
    full = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 2**31 - 1}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "spinney-scheduler"}}
    space.create(path, {**lease, "spec": full}).ok(201)
    election = {"enabled": True, "resourceNamespace": NAMESPACE}
    with spinney_run(own, tmp_path, "scheduler", leaderElection=election) as scheduler:
        eventually(
            lambda: scheduler.get(scheduler.probes, "/readyz")[1].startswith("scheduler: no process leads"), "told", 60
        )
        status, text = scheduler.get(scheduler.probes, "/readyz")
        assert status == 503
        assert "spec.leaseTransitions: found 2147483647, allowed are 0 to 2147483646" in text
        assert scheduler.get(scheduler.probes, "/healthz")[0] == 200
        assert scheduler.stderr.read_text().count("no process can lead") == 1
        space.delete(path, "spinney-scheduler").ok(200)
        scheduler.ready()
        assert space.get(path, "spinney-scheduler").ok(200)["spec"]["leaseTransitions"] == 1
        scheduler.stop()
    assert space.get(path, "spinney-scheduler").ok(200)["spec"].get("holderIdentity", "") == ""


def test_certificates_of_a_directory_are_shown_and_followed(own: Server, tmp_path: Path) -> None:
    directory = tmp_path / "mounted"
    directory.mkdir()
    authority = mounted(directory)
    with spinney_run(own, tmp_path, "webhook", "--cert-dir", str(directory)) as webhook:
        webhook.ready()
        space = Space(own, "default")
        made = eventually(lambda: space.create(SETS, podcliqueset("p", [clique("a")])).ok(201), "the webhook is asked")
        assert made["spec"]["updateStrategy"] == {"type": "RollingRecreate"}
        assert shown_expiry(webhook.webhook, authority) > 0
        webhook.stop()


def mounted(directory: Path) -> tls.Certificate:
    now = time.time()
    authority = tls.create_authority("theirs", now_s=now)
    tls.save(tls.issue(authority, ["127.0.0.1"], now_s=now), directory / "tls.crt", directory / "tls.key")
    (directory / "ca.crt").write_bytes(authority.certificate_pem)
    return authority


def shown_expiry(port: int, authority: tls.Certificate) -> float:
    context = tls.client_context(authority.certificate_pem)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        return float(bool(secured.getpeercert()))


def test_a_directory_without_certificates_is_a_mistake(own: Server, tmp_path: Path) -> None:
    with spinney_run(own, tmp_path, "webhook", "--cert-dir", str(tmp_path)) as webhook:
        assert webhook.process.wait(60) == 2
        assert "tls.crt" in webhook.stderr.read_text()


def test_configurations_that_were_not_applied_are_named(own: Server, tmp_path: Path) -> None:
    with spinney_run(own, tmp_path, "webhook", "--service", "spinney-system/spinney-webhook") as webhook:
        assert webhook.process.wait(60) == 2
        assert "apply `spinney manifests webhooks` first" in webhook.stderr.read_text()


def listening_at(port: int) -> set[str]:
    """The addresses, as the kernel writes them, at which somebody listens on a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, number in local if int(number, 16) == port}


def test_the_webhook_listens_on_loopback_and_stops_cleanly(own: Server, tmp_path: Path) -> None:
    with spinney_run(own, tmp_path, "webhook") as webhook:
        webhook.ready()
        assert listening_at(webhook.webhook) == {"0100007F"}
        cluster = Space(own, "")
        (hook, *_) = cluster.get("validatingwebhookconfigurations", WEBHOOK_CONFIGURATION).ok(200)["webhooks"]
        assert hook["clientConfig"]["url"] == f"https://127.0.0.1:{webhook.webhook}/validate"
        webhook.stop()
        assert "Traceback" not in webhook.stderr.read_text()
