"""The chart on real nodes: the image of `deploy/Containerfile`, every role in a pod, and gangs of real containers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from cluster_kit.server import eventually
from node.installation import (
    NAMESPACE,
    PATIENCE,
    PATIENCE_S,
    ROLES,
    Installation,
    Json,
    clique,
    container,
    of_clique,
    of_set,
    podcliqueset,
)
from spinney.sim.kubernetes.assets import StartFailed
from spinney.version import VERSION

pytestmark = pytest.mark.node

WAITS_FOR_A_FILE = {"exec": {"command": ["cat", "/tmp/ready"]}}


def test_b9_every_role_runs_from_our_image_without_a_restart(installed: Installation) -> None:
    pods = installed.pods("-n", NAMESPACE)
    assert {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in pods} == {f"spinney-{r}" for r in ROLES}
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0), pod["metadata"]["name"]
    name = pods[0]["metadata"]["name"]
    assert VERSION in installed.kubectl("-n", NAMESPACE, "exec", name, "--", "spinney", "--version")


def test_b9_a_clique_really_waits_in_its_init_container_until_its_parent_is_ready(installed: Installation) -> None:
    installed.apply(
        podcliqueset(
            "ordered",
            clique("first", 1, container(readinessProbe={**WAITS_FOR_A_FILE, "periodSeconds": 1})),
            clique("second", 2, container(), startsAfter=["first"]),
            cliqueStartupType="CliqueStartupTypeExplicit",
        )
    )
    seconds = of_clique("ordered-0-second")

    def waiting() -> bool:
        statuses = [
            status for pod in installed.pods("-l", seconds) for status in pod["status"]["initContainerStatuses"]
        ]
        return len(statuses) == 2 and all("running" in status["state"] for status in statuses)

    eventually(waiting, "two pods in their init container", PATIENCE_S)
    (first,) = installed.pods("-l", of_clique("ordered-0-first"))
    installed.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{first['metadata']['name']}", PATIENCE)
    installed.kubectl("exec", first["metadata"]["name"], "--", "touch", "/tmp/ready")
    for pod in installed.ready(seconds, 2):
        assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_b9_the_pods_of_a_job_run_as_a_gang_to_its_end(installed: Installation) -> None:
    pod: Json = {"schedulerName": "kai-scheduler", "restartPolicy": "Never"}
    pod["containers"] = [container(command=["sh", "-c", "echo from $(hostname)"])]
    spec = {"parallelism": 3, "completions": 3, "template": {"spec": pod}}
    installed.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "whole"}, "spec": spec})
    installed.kubectl("wait", "--for=condition=Complete", "job/whole", PATIENCE)
    assert installed.kubectl("logs", "-l", "job-name=whole").count("from whole-") == 3


def test_b9_a_set_is_scaled_and_updated_on_real_nodes(installed: Installation) -> None:
    installed.apply(podcliqueset("living", clique("w", 2, container())))
    installed.ready(of_set("living"), 2)
    installed.kubectl("scale", "podcliqueset/living", "--replicas=2")
    installed.ready(of_set("living"), 4)
    installed.apply(podcliqueset("living", clique("w", 2, container(env=[{"name": "STEP", "value": "2"}]))))
    installed.kubectl("scale", "podcliqueset/living", "--replicas=2")

    def updated() -> bool:
        pods = installed.ready(of_set("living"), 4)
        return all({"name": "STEP", "value": "2"} in pod["spec"]["containers"][0].get("env", []) for pod in pods)

    eventually(updated, "all pods of the new template", PATIENCE_S)


def restarts(installed: Installation) -> dict[str, int]:
    statuses = [(p["metadata"]["name"], p["status"]["containerStatuses"][0]) for p in installed.pods("-n", NAMESPACE)]
    return {name: status["restartCount"] for name, status in statuses if status["ready"]}


def test_r9_every_role_is_killed_at_once_and_the_next_gang_starts_all_the_same(installed: Installation) -> None:
    before = restarts(installed)
    for machine in installed.cluster.machines:
        with suppress(StartFailed):  # none runs there
            machine.run("pkill", "-9", "-f", "spinney run")
    eventually(lambda: all(restarts(installed).get(n, 0) > before[n] for n in before), "restarts", PATIENCE_S)
    installed.apply(podcliqueset("after-kill", clique("w", 3, container())))
    installed.ready(of_set("after-kill"), 3)


def test_b9_a_drained_node_is_left_by_gangs_and_roles_and_used_again(installed: Installation) -> None:
    installed.apply(podcliqueset("moving", clique("w", 4, container())))
    installed.ready(of_set("moving"), 4)
    installed.kubectl("drain", "node-1", "--ignore-daemonsets", "--delete-emptydir-data", "--force", PATIENCE)
    installed.await_roles()
    pods = installed.ready(of_set("moving"), 4)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0"}
    installed.kubectl("uncordon", "node-1")
