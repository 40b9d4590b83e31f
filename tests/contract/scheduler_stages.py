"""A cluster with a scheduler for many scenarios: each has a namespace of its own, and the only nodes there are.

What is looked at is looked at through HTTP, kubectl and `spinney explain`, as a user does it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cluster_kit.real_programs import programs_of
from cluster_kit.server import eventually
from cluster_kit.space import Space
from contract.grouper_kinds import collection_of
from contract.operator_stages import BLOCK, CONFIGURATION, HOST, RACK, ZONE
from spinney.core.scheduling.settings import Settings
from spinney.whatif.inputs.nodes import load_nodes
from stack_kit.stage import DEADLINE_S, Stage, is_ready, stage_on
from unit.scheduler.scheduler_world import TOPOLOGY

Json = dict[str, Any]
T = TypeVar("T")

GPU = "nvidia.com/gpu"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "scheduling.run.ai/v2/queues"
SETS = "grove.io/v1alpha1/podcliquesets"
WORKLOADS = (SETS, "deployments", "statefulsets", "jobs")
KEYS = [ZONE, BLOCK, RACK, HOST]
NODES_GONE_S = 0.5
PATIENCE = Settings(incomplete_grace_s=0.2, usage_stable_s=1.0)


@contextmanager
def scheduled(kind: str, directory: Path, controllers: tuple[str, ...] = ()) -> Iterator[Stage]:
    """A server without nodes, with operator, scheduler and the topology `tree` of four levels."""
    assets = programs_of(kind)
    with stage_on(assets, directory, "", PATIENCE, controllers) as stage:
        stage.operate(CONFIGURATION)
        stage.apply(TOPOLOGY)
        yield stage


def tree(zones: int = 1, blocks: int = 1, racks: int | list[int] = 1, hosts: int | list[int] = 2, gpus: int = 8) -> str:
    """Nodes in four levels; a list has one number for each parent."""
    return f"""
levels:
- {{name: zone, label: {ZONE}, count: {zones}}}
- {{name: block, label: {BLOCK}, count: {blocks}}}
- {{name: rack, label: {RACK}, count: {racks}}}
- {{name: host, short: n, count: {hosts}}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: {gpus}}}
"""


class Hall:
    """The nodes of one scenario and its namespace; `close` takes them away."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self.stage, self.server, self.namespace = stage, stage.server, namespace
        self.space, self.cluster = Space(stage.server, namespace), Space(stage.server, "")
        self._others: list[Space] = []
        self._create_namespace(namespace)

    def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.server.http("POST", "/api/v1/namespaces", body).ok(201)

    def another(self, name: str) -> Space:
        """One more namespace."""
        self._create_namespace(name)
        self._others.append(Space(self.server, name))
        return self._others[-1]

    # What there is

    def build(self, *descriptions: str) -> None:
        for description in descriptions:
            many(lambda node: self.cluster.create("nodes", node).ok(201), load_nodes(description))

    def make(self, *manifests: Json) -> list[Json]:
        """In this order, unless there are very many."""
        return many(self._make, manifests)

    def _make(self, manifest: Json) -> Json:
        collection = collection_of(manifest)
        space = self.cluster if manifest["kind"] in ("ClusterTopology", "Queue", "Topology") else self.space
        body = {**manifest, "metadata": {**manifest["metadata"]}}
        body["metadata"].pop("namespace", None)
        made: Json = space.create(collection, body).ok(201)
        return {**made, "apiVersion": body["apiVersion"], "kind": body["kind"]}

    def kubectl(self, *arguments: str, input: str = "") -> str:
        done = self.server.kubectl("-n", self.namespace, *arguments, input=input or None)
        return done.stdout

    def apply(self, manifest: Json) -> None:
        """With kubectl, into the namespace of the scenario whatever it says."""
        metadata = {**manifest["metadata"], "namespace": self.namespace}
        self.kubectl("apply", "-f", "-", input=json.dumps({**manifest, "metadata": metadata}))

    def explain(self, name: str) -> Json:
        """What `spinney explain` says for programs."""
        command = [sys.executable, "-m", "spinney.cli.main", "explain", f"{self.namespace}/{name}", "-o", "json"]
        options = ["--kubeconfig", str(self.server.kubeconfig)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=180, check=True)
        told: Json = json.loads(done.stdout)
        return told

    # What is seen

    def pods(self, prefix: str = "", space: Space | None = None) -> list[Json]:
        found = (space or self.space).list("pods")["items"]
        return [each for each in found if each["metadata"]["name"].startswith(prefix)]

    def bound(self, prefix: str = "", space: Space | None = None) -> dict[str, str]:
        """Nodes of the pods that have one, by name."""
        found = self.pods(prefix, space)
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found if each["spec"].get("nodeName")}

    def running(self, prefix: str, count: int, deadline_s: float = DEADLINE_S) -> dict[str, str]:
        """Nodes of exactly so many pods once all of them have started; a short one may have ended."""

        def check() -> dict[str, str]:
            pods = self.pods(prefix)
            waiting = [each for each in pods if not _has_started(each)]
            assert (len(pods), waiting[:2]) == (count, [])
            return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}

        found: dict[str, str] = eventually(check, f"{count} pods {prefix}* run", deadline_s)
        return found

    def domains(self, nodes: Iterable[str], level: str = RACK, keys: Sequence[str] = KEYS) -> Counter[str]:
        """How many of these nodes are in each domain of a level."""
        labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in self.cluster.list("nodes")["items"]}
        path = keys[: list(keys).index(level) + 1]
        return Counter("/".join(labels[node][key] for key in path) for node in nodes)

    def group(self, name: str) -> Json:
        found: Json = self.space.get(GROUPS, name).ok(200)
        return found

    def said(self, name: str) -> str:
        """What a group says about not being scheduled; empty if nothing."""
        conditions = (self.group(name).get("status") or {}).get("schedulingConditions") or []
        return str(conditions[-1]["message"]) if conditions else ""

    def says(self, name: str, *fragments: str) -> str:
        """Wait until it says this."""

        def check() -> str:
            found = self.said(name)
            assert found and all(fragment in found for fragment in fragments), found
            return found

        found: str = self.eventually(check, f"{name} says {fragments}")
        return found

    def explanation(self, name: str) -> Json:
        found: Json = json.loads(self.group(name)["metadata"]["annotations"]["spinney.dev/explanation"])
        return found

    def explains(self, name: str, *fragments: str) -> Json:
        """Wait until the record of its group, which `spinney explain` reads, has these words."""

        def check() -> Json:
            found = self.explanation(name)
            assert all(fragment in " ".join(found["lines"]) for fragment in fragments), found
            return found

        found: Json = self.eventually(check, f"{name} explains {fragments}")
        return found

    def is_quiet(self, name: str) -> None:
        """What was said is taken back."""
        self.eventually(lambda: not self.said(name), f"{name} has nothing to say")

    def events(self, kind: str, name: str, reason: str = "") -> list[str]:
        selector = f"involvedObject.kind={kind},involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        return [each["message"] for each in self.space.list("events", fieldSelector=selector)["items"]]

    def condition(self, pod: str) -> Json:
        """PodScheduled of a pod."""
        found = self.space.get("pods", pod).ok(200)["status"].get("conditions") or []
        return next((each for each in found if each["type"] == "PodScheduled"), {})

    def tells(self, pod: str, *fragments: str) -> str:
        """Wait until PodScheduled of a pod says this."""

        def check() -> str:
            message: str = self.condition(pod).get("message", "")
            assert message and all(fragment in message for fragment in fragments), message
            return message

        found: str = self.eventually(check, f"{pod} tells {fragments}")
        return found

    def eventually(self, check: Any, what: str, deadline_s: float = DEADLINE_S) -> Any:
        return eventually(check, what, deadline_s)

    # What goes

    def remove(self, collection: str, *names: str, space: Space | None = None) -> None:
        chosen = space or self.space
        many(lambda name: chosen.delete(collection, name, {"gracePeriodSeconds": 0}).ok(200, 202, 404), names)

    def lose(self, *nodes: str) -> None:
        """The nodes are gone, and their pods with them."""
        pods = [name for name, node in self.bound().items() if node in nodes]
        for node in nodes:
            self.cluster.delete("nodes", node).ok(200)
        self.remove("pods", *pods)

    def close(self) -> None:
        for collection in WORKLOADS:
            self.remove(collection, *self.space.names(collection))
        for space in (self.space, *self._others):
            self._clear(space)
        self.cluster.clean()
        self.remove("nodes", *self.cluster.names("nodes"), space=self.cluster)
        # The scheduler's view may lawfully be older than this: pods of the next scenario were bound to nodes that
        # are gone, and nothing tells from outside when it has seen it.
        time.sleep(NODES_GONE_S)

    def _clear(self, space: Space) -> None:
        def check() -> bool:
            for pod in space.list("pods")["items"]:
                if pod["metadata"].get("finalizers"):
                    space.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
            self.remove("pods", *space.names("pods"), space=space)
            space.delete(GROUPS)
            return not space.names("pods") and not space.names(GROUPS)

        eventually(check, f"{space.namespace} is empty", DEADLINE_S)


def many(do: Callable[[T], Any], items: Sequence[T]) -> list[Any]:
    """One after the other, or, where there are many, some at a time."""
    if len(items) < 64:
        return [do(each) for each in items]
    with ThreadPoolExecutor(max_workers=6) as pool:
        return list(pool.map(do, items))


def _has_started(pod: Json) -> bool:
    return is_ready(pod) or pod["status"].get("phase") == "Succeeded"
