"""What a real node does: containers, names, ways in; and what it leaves behind, which is nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_kit.real_programs import node_programs
from cluster_kit.server import eventually
from spinney.sim.kubernetes.node.cluster import BUSYBOX_IMAGE, Cluster
from spinney.sim.kubernetes.node.machines import GROUPS, PREFIX, hierarchies, remove_left_over

pytestmark = pytest.mark.node


def pod(name: str, *command: str, node: str) -> str:
    container = {"name": "main", "image": BUSYBOX_IMAGE, "command": list(command)}
    spec = {"containers": [container], "nodeName": node, "hostname": name, "subdomain": "web"}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    )


def test_containers_run_on_two_nodes_and_find_each_other_by_name(cluster: Cluster) -> None:
    """Through CNI, kube-proxy and cluster DNS; the API server reaches kubelets for logs and commands."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    service["spec"] = {"clusterIP": "None", "selector": {"app": "here"}, "ports": [{"port": 8080}]}
    cluster.kubectl("apply", "-f", "-", given=json.dumps(service))
    here = ("sh", "-c", "echo found > /tmp/index.html; httpd -f -p 8080 -h /tmp")
    there = ("sh", "-c", "until wget -qO- http://here.web:8080; do sleep 0.2; done; sleep 3600")
    cluster.kubectl("apply", "-f", "-", given=pod("here", *here, node="node-0"))
    cluster.kubectl("apply", "-f", "-", given=pod("there", *there, node="node-1"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/here", "pod/there", "--timeout=120s")
    eventually(lambda: "found" in cluster.kubectl("logs", "there"), deadline_s=60)
    assert cluster.kubectl("exec", "there", "--", "hostname").strip() == "there"


KILLED = """
import sys
from pathlib import Path
from spinney.sim.kubernetes.node.machines import Machine
machine = Machine("victim", Path(sys.argv[1]))
machine.start()
machine.launch("sleeper", "sleep", "3600")
print(machine.pid, flush=True)
sys.stdin.read()
"""


def test_a_machine_whose_owner_is_killed_ends_and_the_next_start_removes_its_control_groups(tmp_path: Path) -> None:
    node_programs()
    words = [sys.executable, "-c", KILLED, str(tmp_path / "victim")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        init = Path("/proc", owner.stdout.readline().strip())
        assert init.exists()
        assert os.readlink(init / "ns/net") != os.readlink("/proc/self/ns/net")
        owner.send_signal(signal.SIGKILL)
    eventually(lambda: not init.exists(), deadline_s=60)

    def left() -> list[Path]:
        return [each for hierarchy in hierarchies() for each in hierarchy.glob(f"{PREFIX}{owner.pid}-*")]

    def nothing_left() -> bool:
        remove_left_over()
        return not left()

    assert left(), f"the machine had no control groups below {GROUPS}"
    eventually(nothing_left, deadline_s=60)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
