"""`spinney run webhook` as a process, behind shipped configurations and policies, with the authorizer on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from cluster_kit.admission import SETS
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import NAMESPACE
from spinney.cli.wiring.install_manifests import SERVICE, policy_objects, webhook_objects
from spinney.sim.kubernetes.processes import Program, free_ports
from stack_kit.bare import kubeconfig_of_role
from stack_kit.spinney import SPINNEY

Json = dict[str, Any]
REGISTRATION = "admissionregistration.k8s.io/v1"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
PROTECTED: Json = {"authorizer": {"enabled": True}}


OF_A_SET = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "judged"}
"""Labels of what the operator made for the set of `create_set`: the authorizer looks at every change of it."""


def create_set(space: Space) -> None:
    spec = {"replicas": 1, "minAvailable": 1, "roleName": "w", "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    template = {"cliques": [{"name": "w", "spec": spec}]}
    body = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "judged"}}
    space.create(SETS, {**body, "spec": {"replicas": 1, "template": template}}).ok(201)


def of_a_set(obj: Json) -> Json:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **OF_A_SET}}}


class Judging:
    """The webhook at work."""

    def __init__(self, program: Program, metrics: int) -> None:
        self._program = program
        self._metrics = metrics

    def answered(self) -> float:
        """How many reviews it has answered."""
        page = urllib3.request("GET", f"http://127.0.0.1:{self._metrics}/metrics", retries=False, timeout=5)
        lines = [line for line in page.data.decode().splitlines() if line.startswith("spinney_calls_total")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @property
    def log(self) -> str:
        return self._program.log.read_text()


@contextmanager
def judged(server: Server, directory: Path) -> Iterator[Judging]:
    """The webhook has the rights of its role; nobody routes Services here, so that it is called by a URL."""
    webhook, probes, metrics = free_ports(3)
    _install(server, webhook)
    config = directory / "webhook.json"
    ports = {"healthProbes": {"port": probes}, "metrics": {"port": metrics}, "webhooks": {"port": webhook}}
    config.write_text(json.dumps({**PROTECTED, "server": ports}))
    words = ["run", "webhook", "--kubeconfig", str(kubeconfig_of_role(server, "webhook", directory))]
    words += ["--config", str(config), "--service", f"{NAMESPACE}/{SERVICE}"]
    program = Program("webhook", [*SPINNEY, *words], directory / "webhook.log")
    try:
        eventually(lambda: _is_judged(server), "the webhook is asked", 60)
        yield Judging(program, metrics)
    finally:
        program.stop()


def _install(server: Server, port: int) -> None:
    configuration = load_configuration(json.dumps(PROTECTED))
    for obj in webhook_objects(NAMESPACE, configuration):
        for hook in obj.get("webhooks", ()):
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
        space = Space(server, obj["metadata"].get("namespace", ""))
        space.apply(f"{obj['kind'].lower()}s", obj, force="true").ok(200, 201)
    if server.http("GET", f"/apis/{REGISTRATION}/validatingadmissionpolicies").status == 200:
        for obj in policy_objects(NAMESPACE, configuration):
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
                obj["kind"], f"{obj['kind'].lower()}s"
            )
            Space(server, "").apply(f"{REGISTRATION}/{plural}", obj, force="true").ok(200, 201)


def _is_judged(server: Server) -> bool:
    """A PodGroup that cannot work is refused by the rules; nothing is stored."""
    twice = {"minMember": 1, "subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "probe"}}
    return Space(server, "default").create(GROUPS, {**group, "spec": twice}, dryRun="All").status == 422
