"""`spinney run dynamo` as a process with its role's token: it leads, works and stops, on both servers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_kit.server import Server, eventually
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.dynamo_stages import component, configuration, deployment
from spinney.api.roles import NAMESPACE
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.bare import bare_server, kubeconfig_of_role
from stack_kit.spinney import SPINNEY

GRAPHS, SETS = "nvidia.com/v1beta1/dynamographdeployments", "grove.io/v1alpha1/podcliquesets"


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with bare_server(request.param, tmp_path) as found:
        yield found


def test_it_leads_renders_tells_and_stops(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    election = f"leaderElection: {{enabled: true, resourceNamespace: {NAMESPACE}}}\n"
    probes, metrics = free_ports(2)
    ports = f"server: {{healthProbes: {{port: {probes}}}, metrics: {{port: {metrics}}}}}\n"
    config.write_text(configuration({"zone": "example.com/zone"}) + election + ports)
    kubeconfig = kubeconfig_of_role(server, "dynamo", tmp_path)
    command = [*SPINNEY, "run", "dynamo", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    space = Space(server, "default")
    log = tmp_path / "dynamo.log"
    with log.open("w") as written, subprocess.Popen(command, stdout=written, stderr=written) as process:
        try:
            space.create(GRAPHS, deployment("d", component("w"), topologyConstraint={"packDomain": "zone"})).ok(201)

            def made() -> bool:
                assert process.poll() is None, log.read_text()
                return space.exists(SETS, "d")

            eventually(made, "the set is there", 60)
            assert space.get(SETS, "d").ok(200)["spec"]["template"]["topologyConstraint"] == {"packDomain": "zone"}

            def told() -> bool:
                status = space.get(GRAPHS, "d").ok(200).get("status") or {}
                found = {each["type"]: each["reason"] for each in status.get("conditions") or ()}
                return found == {
                    "Ready": "some_resources_are_not_ready",
                    "TopologyConstraintsEnforced": "TopologyConditionPending",
                    "TopologyLevelsAvailable": "TopologyConditionPending",
                }

            eventually(told, "nobody makes anything of the set", 60)
            assert Space(server, NAMESPACE).exists("leases", "spinney-dynamo")
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(120)
    assert status == 0, log.read_text()
    assert "Traceback" not in log.read_text()
