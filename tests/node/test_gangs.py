"""Gangs whose containers really run, and find each other by name; and kube-scheduler's pods beside them."""

from __future__ import annotations

import pytest

from cluster_kit.server import eventually
from node.installation import (
    PATIENCE,
    PATIENCE_S,
    Installation,
    Json,
    clique,
    container,
    is_ready,
    of_set,
    podcliqueset,
)

pytestmark = pytest.mark.node

GPU = "example.com/gpu"
RANKS = 4
RENDEZVOUS = f"""
httpd -p 8080 -h /tmp
if [ "$JOB_COMPLETION_INDEX" != 0 ]; then
  touch /tmp/here
  until wget -qO- http://train-0.train:8080/go; do sleep 0.2; done
  exit 0
fi
for rank in 1 {" ".join(str(rank) for rank in range(2, RANKS))}; do
  until wget -qO- http://train-$rank.train:8080/here; do sleep 0.2; done
  echo "rank $rank is there"
done
touch /tmp/go
for rank in 1 {" ".join(str(rank) for rank in range(2, RANKS))}; do
  while wget -qO- http://train-$rank.train:8080/here; do sleep 0.2; done
done
"""
"""Nobody ends before everybody was there: what training does, and what half a gang never gets through."""


def test_b9_ranks_of_a_training_job_meet_by_name_and_end_together(installed: Installation) -> None:
    service: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train"}}
    service["spec"] = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": "train"}}
    pod: Json = {
        "terminationGracePeriodSeconds": 1,
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "subdomain": "train",
    }
    pod["containers"] = [container(command=["sh", "-c", RENDEZVOUS])]
    spec = {"completionMode": "Indexed", "parallelism": RANKS, "completions": RANKS, "template": {"spec": pod}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    installed.apply(service, job)
    installed.kubectl("wait", "--for=condition=Complete", "job/train", PATIENCE)
    first = "job-name=train,batch.kubernetes.io/job-completion-index=0"
    said = installed.kubectl("logs", "-l", first, "--tail=-1").splitlines()
    assert [line for line in said if line.startswith("rank")] == [f"rank {rank} is there" for rank in range(1, RANKS)]


def component(name: str, kind: str, replicas: int, port: int) -> Json:
    serve = f"echo ok > /tmp/health; echo ok > /tmp/live; httpd -f -p {port} -h /tmp"
    main = container(command=["sh", "-c", serve], args=[])
    return {
        "name": name,
        "type": kind,
        "replicas": replicas,
        "podTemplate": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}},
    }


def test_b9_a_disaggregated_graph_becomes_ready_by_the_probes_of_its_containers(installed: Installation) -> None:
    components = [
        component("Frontend", "frontend", 1, 8000),
        component("Prefill", "prefill", 2, 9090),
        component("Decode", "decode", 1, 9090),
    ]
    graph: Json = {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "graph"}}
    installed.apply({**graph, "spec": {"backendFramework": "vllm", "components": components}})
    installed.kubectl("wait", "--for=condition=Ready", "dynamographdeployment/graph", PATIENCE)
    assert len(installed.ready(of_set("graph"), 4)) == 4
    installed.kubectl("delete", "dynamographdeployment/graph", PATIENCE)


def with_gpu(count: str, **more: object) -> Json:
    return container(**more) | {"resources": {"limits": {GPU: count, "memory": "64Mi", "cpu": "10m"}}}


def test_k8_a_critical_pod_of_kube_scheduler_gets_the_room_that_it_preempts_for(installed: Installation) -> None:
    """Its nominated node is left to it, though the pod that it evicted is made anew at once."""
    for node in ("node-0", "node-1"):
        capacity = f'{{"status": {{"capacity": {{"{GPU}": "4"}}}}}}'
        installed.kubectl("patch", "node", node, "--subresource=status", "-p", capacity)
    installed.apply(podcliqueset("greedy", clique("w", 8, with_gpu("1"), minAvailable=1)))
    installed.ready(of_set("greedy"), 8)
    critical: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "critical"}}
    critical["spec"] = {
        "terminationGracePeriodSeconds": 1,
        "priorityClassName": "system-cluster-critical",
        "containers": [with_gpu("2")],
    }
    installed.apply(critical)
    installed.kubectl("wait", "--for=condition=Ready", "pod/critical", PATIENCE)
    preempted = installed.get("events", "--field-selector=reason=Preempted")["items"]
    assert len(preempted) == 2, [each["involvedObject"]["name"] for each in preempted]

    def refilled() -> bool:
        pods = installed.pods("-l", of_set("greedy"))
        return len(pods) == 8 and sum(map(is_ready, pods)) == 6

    eventually(refilled, "six pods run and two wait", PATIENCE_S)
    installed.kubectl("delete", "pod/critical", PATIENCE)
    installed.ready(of_set("greedy"), 8)
    installed.kubectl("delete", "podcliqueset/greedy", PATIENCE)
