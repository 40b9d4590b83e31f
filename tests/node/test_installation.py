"""The chart on real nodes: the image of `deploy/Containerfile`, every role in a pod, and gangs of real containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.real_programs import helm_program
from cluster_kit.server import eventually
from node.image import REPOSITORY, ROOT, TAG, built_image
from spinney.sim.kubernetes.assets import StartFailed
from spinney.sim.kubernetes.node.cluster import BUSYBOX_IMAGE, Cluster
from spinney.version import VERSION

pytestmark = pytest.mark.node

Json = dict[str, Any]
CHART = ROOT / "deploy" / "chart"
NAMESPACE = "spinney-system"
ROLES = ("dashboard", "dynamo", "operator", "scheduler", "webhook")
PATIENCE = "--timeout=180s"
PATIENCE_S = 180.0
WAITS_FOR_A_FILE = {"exec": {"command": ["cat", "/tmp/ready"]}}


def container(**more: Any) -> Json:
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}}
    return {"name": "main", "image": BUSYBOX_IMAGE, "resources": resources, **more}


def clique(name: str, replicas: int, main: Json, **more: Any) -> Json:
    pod = {"terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"name": name, "spec": {"roleName": name, "replicas": replicas, "podSpec": pod, **more}}


def podcliqueset(name: str, *cliques: Json, **more: Any) -> Json:
    template = {"cliques": list(cliques), **more}
    spec = {"replicas": 1, "template": template}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


class Installation:
    """A cluster with a release of the chart."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.kubectl = cluster.kubectl
        kinds = {f"HELM_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environ = os.environ | kinds | {"KUBECONFIG": str(cluster.plane.kubeconfig)}

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self._environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def helm(self, *words: str) -> str:
        return self.run(str(helm_program()), *words)

    def spinney(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "spinney.cli.main", *words)

    def apply(self, *objects: Json) -> None:
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def pods(self, *words: str) -> list[Json]:
        found: list[Json] = self.get("pods", *words)["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def ready(self, selector: str, count: int) -> list[Json]:
        """So many pods, all of them Ready."""

        def look() -> list[Json]:
            found = self.pods("-l", selector)
            assert len(found) == count, f"{selector}: {len(found)} pods"
            return found if all(map(is_ready, found)) else []

        found: list[Json] = eventually(look, f"{count} Ready pods of {selector}", PATIENCE_S)
        return found

    def await_roles(self) -> None:
        self.kubectl("-n", NAMESPACE, "rollout", "status", "deploy", PATIENCE)


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def of_set(name: str) -> str:
    return f"app.kubernetes.io/part-of={name}"


def of_clique(name: str) -> str:
    return f"grove.io/podclique={name}"


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """One replica of each role, in a namespace that enforces `restricted`."""
    archive = tmp_path_factory.mktemp("image") / "spinney.tar"
    built_image(archive)
    cluster.import_image(archive)
    archive.unlink()
    found = Installation(cluster, tmp_path_factory.mktemp("helm"))
    found.kubectl("create", "namespace", NAMESPACE)
    found.kubectl("label", "namespace", NAMESPACE, "default", "pod-security.kubernetes.io/enforce=baseline")
    found.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    values = [f"image.repository={REPOSITORY}", f"image.tag={TAG}", *(f"roles.{role}.replicas=1" for role in ROLES)]
    told = [word for value in values for word in ("--set", value)]
    found.helm("install", "spinney", str(CHART), "-n", NAMESPACE, "--wait", PATIENCE, *told)
    return found


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
    installed.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec})
    installed.kubectl("wait", "--for=condition=Complete", "job/train", PATIENCE)
    assert installed.kubectl("logs", "-l", "job-name=train").count("from train-") == 3


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


def test_b9_nothing_is_left_when_it_is_uninstalled(installed: Installation) -> None:
    installed.kubectl("delete", "podcliquesets,jobs", "--all", PATIENCE)
    eventually(lambda: not installed.get("pods", "-n", "default")["items"], "no pod", PATIENCE_S)
    installed.spinney("uninstall")
    installed.helm("uninstall", "spinney", "-n", NAMESPACE, "--wait", PATIENCE)
    kinds = installed.kubectl("get", "crds", "-o", "name").split()
    installed.kubectl("delete", *kinds, PATIENCE)
    installed.kubectl("delete", "namespace", NAMESPACE, PATIENCE)
    everywhere = "crds,validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings"
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings,priorityclasses"
    left = installed.kubectl("get", f"{everywhere},{policies}", "-o", "name").split()
    assert [name for name in left if any(word in name for word in ("spinney", "grove", "kai", "dynamo"))] == []
    for machine in installed.cluster.machines:
        assert "spinney" not in machine.run("ctr", "-n", "k8s.io", "containers", "ls")
