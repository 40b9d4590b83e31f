"""`spinney up` with DynamoGraphDeployments in it, looked at with kubectl as a user does it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster_kit.real_programs import real_programs
from cluster_kit.server import eventually
from stack_kit.spinney import SPINNEY, Spinney, spinney

Json = dict[str, Any]

DEADLINE_S = 150.0
ROOT = Path(__file__).parents[2]
LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
ALPHA, BETA = (f"dynamographdeployments.{version}.nvidia.com" for version in ("v1alpha1", "v1beta1"))
_GROVE = "/apis/grove.io/v1alpha1/namespaces/default"
PATHS = {
    BETA: "/apis/nvidia.com/v1beta1/namespaces/default/dynamographdeployments",
    "podcliqueset": f"{_GROVE}/podcliquesets",
}
MADE = (
    *(f"{_GROVE}/{plural}" for plural in ("podcliquesets", "podcliques", "podcliquescalinggroups")),
    "/apis/scheduler.grove.io/v1alpha1/namespaces/default/podgangs",
    *(f"/api/v1/namespaces/default/{plural}" for plural in ("pods", "services", "configmaps", "serviceaccounts")),
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
)
"""Where everything is that a deployment brings."""
_AT_ONCE = {"tcpSocket": {"port": 8000}}


def configuration(levels: dict[str, str] | None) -> str:
    """An operator for the KAI scheduler; without levels topology is off."""
    told: Json = {"scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]}}
    if levels is not None:
        listed = [{"domain": domain, "key": key} for domain, key in levels.items()]
        told["topologyAwareScheduling"] = {"enabled": True, "levels": listed}
    return yaml.safe_dump(told)


class Graphs:
    """A running stack and its deployments."""

    def __init__(self, stack: Spinney) -> None:
        self.stack = stack

    def apply(self, manifest: Json | str) -> str:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.stack.kubectl("apply", "-f", "-", input=text)

    def refused(self, manifest: Json | str) -> str:
        """What kubectl says to a manifest that must be refused."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        command = self.stack.kubectl_command("apply", "-f", "-")
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def get(self, kind: str, name: str) -> Json:
        """As kubectl shows it; a kind that is looked at often is asked for without kubectl."""
        found: Json = self.stack.read(f"{PATHS[kind]}/{name}") if kind in PATHS else self.stack.get(kind, name)
        found["metadata"].pop("managedFields", None)
        return found

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        conditions = (self.get(BETA, name).get("status") or {}).get("conditions") or []
        found = [(one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == kind]
        return found[0] if found else ("", "", "")

    def says(self, name: str, kind: str, status: str, reason: str) -> str:
        """Wait until a condition says this; its message."""

        def check() -> bool:
            return self.condition(name, kind)[:2] == (status, reason)

        eventually(check, f"{name}: {kind} is {status}/{reason}, not {self.condition(name, kind)}", DEADLINE_S)
        return self.condition(name, kind)[2]

    def ready(self, name: str) -> Json:
        self.says(name, "Ready", "True", "all_resources_are_ready")
        return self.get(BETA, name)

    def events(self, name: str) -> list[tuple[str, str, str]]:
        chosen = f"involvedObject.kind=DynamoGraphDeployment,involvedObject.name={name}"
        found = self.stack.read("/api/v1/namespaces/default/events", fieldSelector=chosen)["items"]
        return [(one["type"], one["reason"], one["message"]) for one in found]

    def pods(self, name: str) -> list[Json]:
        label = f"nvidia.com/dynamo-graph-deployment-name={name}"
        found = self.stack.read("/api/v1/namespaces/default/pods", labelSelector=label)["items"]
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def uids(self, name: str) -> set[str]:
        return {one["metadata"]["uid"] for one in self.pods(name)}

    def domains(self, name: str, component: str, level: str) -> list[Counter[str]]:
        """How many pods each domain has, for each replica of a component."""
        nodes = {
            one["metadata"]["name"]: one["metadata"]["labels"] for one in self.stack.read("/api/v1/nodes")["items"]
        }
        keys = list(LEVELS.values())[: list(LEVELS).index(level) + 1]
        found: dict[str, Counter[str]] = {}
        for pod in self.pods(name):
            labels = pod["metadata"]["labels"]
            if labels["nvidia.com/dynamo-component"] == component:
                replica = labels.get("grove.io/podcliquescalinggroup-replica-index", "0")
                place = "/".join(nodes[pod["spec"]["nodeName"]][key] for key in keys)
                found.setdefault(replica, Counter())[place] += 1
        return [found[replica] for replica in sorted(found)]

    def gone(self, name: str) -> None:
        """Everything of a deployment is away."""

        def check() -> bool:
            left = [one for path in MADE for one in self.stack.read(path)["items"]]
            return not [one for one in left if one["metadata"]["name"].startswith(name)]

        eventually(check, f"nothing is left of {name}", DEADLINE_S)


@contextmanager
def graphs_on(kind: str, directory: Path, *arguments: str) -> Iterator[Graphs]:
    kubectl = real_programs().kubectl
    real = ["--real"] if kind == "real" else []
    with spinney(directory, *real, *arguments, kubectl=kubectl) as stack:
        yield Graphs(stack.ready())
        assert "Traceback" not in stack.stderr, stack.stderr


def component(name: str, type: str = "worker", gpus: int = 0, **more: Any) -> Json:
    """Ready as soon as it runs, so that nobody waits for the delays of real frontends."""
    main: Json = {"name": "main", "image": "example.com/serve:1.0.0", "readinessProbe": _AT_ONCE}
    if gpus:
        main["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"name": name, "type": type, "podTemplate": {"spec": {"containers": [main]}}, **more}


def deployment(name: str, *components: Json, **spec: Any) -> Json:
    metadata = {"name": name, **({"annotations": spec.pop("annotations")} if "annotations" in spec else {})}
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": metadata,
        "spec": {"components": list(components), **spec},
    }


def convert(text: str, to: str = "v1beta1") -> str:
    done = subprocess.run(
        [*SPINNEY, "convert", "-f", "-", "--to", to], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout
