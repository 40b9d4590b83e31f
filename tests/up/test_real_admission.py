"""The rules of the operator through kubectl: `spinney up --real` says and stores exactly what `spinney up` does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from stack_kit.spinney import Spinney

pytestmark = pytest.mark.real

Up = Callable[..., Spinney]
Json = dict[str, Any]


def workload(name: str, **template: Any) -> Json:
    spec = {"replicas": 0, "template": {"cliques": [clique("w")], **template}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


def clique(name: str, **spec: Any) -> Json:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "c", "image": "i"}]}, **spec}}


def topology(name: str, *domains: str) -> Json:
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    metadata = {"name": name}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def packed(domain: str) -> Json:
    return {"topologyConstraint": {"packDomain": domain}}


STEPS: dict[str, Json] = {
    "levels out of order": topology("mine", "host", "rack", "zone"),
    "defaults": workload("plain"),
    "the label of the default topology": workload("rack", **packed("rack")),
    "the label of a named topology": workload("named", clusterTopologyName="mine", **packed("zone")),
    "a domain that is not there": workload("wrong", **packed("numa")),
    "a topology that is not there": workload("wrong", clusterTopologyName="nowhere", **packed("zone")),
    "a name without a constraint": workload("wrong", clusterTopologyName="mine"),
    "too many at least": workload("wrong", cliques=[clique("w", replicas=1, minAvailable=2)]),
    "several mistakes": workload("wrong", cliques=[clique("w", minAvailable=3), clique("w")], terminationDelay="0s"),
    "a constraint that is changed": workload("rack", **packed("host")),
    "a constraint that is removed": workload("rack"),
    "the reserved name": topology("grove-topology", "zone"),
}


def told(stack: Spinney, manifest: Json) -> tuple[str, str]:
    """What kubectl says about a manifest, and what is stored then."""
    command = stack.kubectl_command("apply", "-f", "-")
    done = subprocess.run(
        command, input=yaml.safe_dump(manifest), capture_output=True, text=True, timeout=180, check=False
    )
    said = done.stdout + "".join(sorted(done.stderr.splitlines(keepends=True)))
    plural, name = manifest["kind"], manifest["metadata"]["name"]
    return said, stack.kubectl("get", plural, name, "-o", "jsonpath={.metadata.labels} {.spec}", check=False)


def test_both_servers_say_and_store_the_same(up: Up) -> None:
    embedded, real = up().ready(), up("--real").ready()
    answers = {name: (told(embedded, step), told(real, step)) for name, step in STEPS.items()}
    assert {name: one for name, (one, other) in answers.items() if one != other} == {}
    said = {name: one[0] for name, (one, _) in answers.items()}
    assert [name for name, text in said.items() if "is invalid" in text] == list(STEPS)[4:-1]
    assert "is reserved for the default ClusterTopology" in said["the reserved name"]
    assert "Traceback" not in embedded.stderr + real.stderr


def test_the_operator_has_its_own_name_and_rights(up: Up) -> None:
    """Whoever may not do something is told so, on both servers: nobody runs with an administrator's rights."""
    for stack in (up().ready(), up("--real").ready()):
        user = "--as=system:serviceaccount:spinney-system:operator"
        assert stack.kubectl("auth", "can-i", "create", "podcliques", user).strip() == "yes"
        for verb, resource in (
            ("list", "secrets"),
            ("get", "secrets"),
            ("delete", "nodes"),
            ("create", "podcliquesets"),
        ):
            assert stack.kubectl("auth", "can-i", verb, resource, user, check=False).strip() == "no"
        managers = [
            each["manager"]
            for each in stack.get("--show-managed-fields", "clustertopology", "grove-topology")["metadata"][
                "managedFields"
            ]
        ]
        assert "grove-operator" in managers
