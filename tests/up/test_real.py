"""`spinney up --real`: the same stack on a real control plane."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_kit.server import eventually
from spinney.sim.kubernetes import control_plane
from spinney.sim.kubernetes.assets import find_or_build_assets
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.spinney import Spinney

pytestmark = pytest.mark.real

Up = Callable[..., Spinney]

EXAMPLES = Path(__file__).parents[2] / "examples"
STOPPED_WITHIN_S = 30.0
QUICK_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: quick}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: "example.com/quick:1", command: [sleep, "1"]}
"""


STORED = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 5Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: stored}
spec:
  containers: [{name: main, image: "example.com/stored:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: weights}}]
"""


def smoke(running: Spinney) -> None:
    assert len(running.get("nodes")["items"]) == 16
    running.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=150s")
    running.kubectl("run", "one", "--image=example.com/one:1")
    running.kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=150s")
    running.kubectl("wait", "--for=condition=Complete", "job/quick", "--timeout=150s")
    running.kubectl("create", "deployment", "web", "--image=example.com/web:1", "--replicas=2")
    running.kubectl("rollout", "status", "deployment/web", "--timeout=150s")
    running.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/weights", "--timeout=150s")
    running.kubectl("wait", "--for=condition=Ready", "pod/stored", "--timeout=150s")


@pytest.mark.parametrize("how", [(), ("--real",)], ids=["embedded", "real"])
def test_a_job_completes_claims_are_bound_and_pods_become_ready(up: Up, tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "job.yaml").write_text(f"{QUICK_JOB}---\n{STORED}")
    running = up(*how, "-f", str(tmp_path / "job.yaml"), "-f", str(EXAMPLES / "topology.yaml")).ready()
    smoke(running)
    status, seconds = running.stop(signal.SIGINT)
    print(f"stop after {seconds:.1f} s")
    assert (status, running.faults) == (0, [])
    assert seconds < STOPPED_WITHIN_S


def test_a_restart_with_a_data_directory_finds_its_state(up: Up, tmp_path: Path) -> None:
    arguments = ("--real", "--data-dir", str(tmp_path / "state"))
    before = up(*arguments).ready()
    before.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    before.kubectl("create", "serviceaccount", "robot")
    before.kubectl(
        "create", "clusterrolebinding", "robot", "--clusterrole=cluster-admin", "--serviceaccount=default:robot"
    )
    token = before.kubectl("create", "token", "robot").strip()
    kept = before.get("configmap", "kept")
    status, said = up(*arguments).refused()
    assert (status, said.count("\n")) == (2, 1), said
    assert before.get("configmap", "kept") == kept, "the first stack is unharmed by the refused second one"
    before.kill()

    after = up(*arguments).ready()
    assert after.get("configmap", "kept") == kept
    eventually(lambda: len(after.get("nodes")["items"]) == 16, "the nodes are there")
    assert after.http("GET", "/api/v1/namespaces/default/configmaps", token=token)[0] == 200


def test_a_taken_port_is_named(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, said = up("--real", "--port", str(port)).refused()
    assert (status, said) == (3, f"spinney up: cannot listen on 127.0.0.1:{port}: Address already in use\n")


@pytest.mark.parametrize("which", [0, 2], ids=["etcd", "kube-apiserver"])
def test_a_port_that_is_taken_in_the_last_moment_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = free_ports(3)
        ports[which] = taken.getsockname()[1]
        answers = [ports]
        monkeypatch.setattr(control_plane, "free_ports", lambda count: answers.pop() if answers else free_ports(count))
        with control_plane.ControlPlane(control_plane.Settings(find_or_build_assets(), tmp_path, ())) as plane:
            assert plane.url.rpartition(":")[2] not in map(str, ports)
            assert plane.ended() is None
    assert not answers


def test_both_versions_of_converted_kinds_are_served(up: Up) -> None:
    running = up("--real").ready()
    served = json.loads(running.kubectl("get", "--raw", "/apis/nvidia.com"))["versions"]
    assert [one["version"] for one in served] == ["v1beta1", "v1alpha1"]


def test_it_ends_when_its_control_plane_does(up: Up) -> None:
    running = up("--real").ready()
    children = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(running.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    keeper = next(int(line.split()[0]) for line in children.stdout.splitlines() if "/etcd" in line)
    os.kill(keeper, signal.SIGKILL)
    assert running.process.wait(90) == 3
    assert running.stderr.splitlines()[-1] == "spinney up: etcd ended by itself"
