"""A release of the chart on real nodes, and what tests do with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from cluster_kit.real_programs import helm_program
from cluster_kit.server import eventually
from node.image import REPOSITORY, ROOT, TAG
from spinney.sim.kubernetes.node.cluster import BUSYBOX_IMAGE, Cluster

Json = dict[str, Any]
CHART = ROOT / "deploy" / "chart"
NAMESPACE = "spinney-system"
ROLES = ("dashboard", "dynamo", "operator", "scheduler", "webhook")
PATIENCE = "--timeout=180s"
PATIENCE_S = 180.0


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

    def install(self) -> None:
        kubectl, enforce = self.kubectl, "pod-security.kubernetes.io/enforce=restricted"
        kubectl("create", "namespace", NAMESPACE)
        kubectl("label", "namespace", NAMESPACE, enforce)
        values = [f"image.repository={REPOSITORY}", f"image.tag={TAG}", *(f"roles.{role}.replicas=1" for role in ROLES)]
        told = [word for value in values for word in ("--set", value)]
        self.helm("install", "spinney", str(CHART), "-n", NAMESPACE, "--wait", PATIENCE, *told)

    def await_roles(self) -> None:
        self.kubectl("-n", NAMESPACE, "rollout", "status", "deploy", PATIENCE)


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def of_set(name: str) -> str:
    return f"app.kubernetes.io/part-of={name}"


def of_clique(name: str) -> str:
    return f"grove.io/podclique={name}"
