"""`spinney up --real --kubelet`: nodes that run containers, beside simulated ones and alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_kit.real_programs import node_programs
from spinney.sim.kubernetes.node.images import write_busybox
from stack_kit.spinney import Spinney

pytestmark = pytest.mark.node

Up = Callable[..., Spinney]

NODES = """\
name: simulated
levels: [{name: host, count: 2}]
capacity: {cpu: 8, memory: 32Gi, pods: 20}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: spinney.dev/kubelet, operator: WHERE}]}]
      containers: [{name: main, image: "localhost/mine:1", command: [sh, -c, "echo from NAME; sleep 1"]}]
"""


def test_a_gang_runs_in_containers_of_a_given_image_and_another_one_on_simulated_nodes(up: Up, tmp_path: Path) -> None:
    node_programs()
    write_busybox(tmp_path / "mine.tar", Path("/bin/busybox"), ("localhost/mine:1",))
    (tmp_path / "nodes.yaml").write_text(NODES)
    jobs = (
        JOB.replace("NAME", "real").replace("WHERE", "Exists"),
        JOB.replace("NAME", "sim").replace("WHERE", "DoesNotExist"),
    )
    (tmp_path / "jobs.yaml").write_text("---\n".join(jobs))
    files = ("--nodes", str(tmp_path / "nodes.yaml"), "-f", str(tmp_path / "jobs.yaml"))
    running = up("--real", "--kubelet", "1", "--image", str(tmp_path / "mine.tar"), *files).ready()
    for name in ("real", "sim"):
        running.kubectl("wait", "--for=condition=Complete", f"job/{name}", "--timeout=150s")
    assert running.kubectl("logs", "-l", "job-name=real").split() == ["from", "real"] * 2
    places = {pod["metadata"]["labels"]["job-name"]: pod["spec"]["nodeName"] for pod in running.get("pods")["items"]}
    assert places["real"] == "kubelet-0"
    assert places["sim"].startswith("simulated")
    assert len(running.get("nodes")["items"]) == 3
    status, _ = running.stop()
    assert (status, running.faults) == (0, [])
