"""Binds that a rule of the cluster refuses in one namespace, on both servers: told as the reason, others unharmed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_kit.space import Space
from cluster_kit.webhook import Webhooks, WebhookServer, deny, rule
from contract.scheduler_stages import Hall, tree
from unit.scheduler.scheduler_world import podgroup, pods

Json = dict[str, Any]
REGISTRATION = "admissionregistration.k8s.io/v1"
POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/validatingadmissionpolicybindings"
NO = "the department is over its budget"


@contextmanager
def refusing_binds(hall: Hall, directory: Path) -> Iterator[None]:
    """In the namespace of the hall: by a policy where the server has policies, else by a webhook."""
    if hall.server.http("GET", f"/apis/{POLICIES}").status == 200:
        with _policy(hall):
            yield
    else:
        with _webhook(hall, directory):
            yield


@contextmanager
def _webhook(hall: Hall, directory: Path) -> Iterator[None]:
    server = WebhookServer(directory)
    server.start()
    hooks = Webhooks(server, hall.space, hall.cluster, hall.namespace)
    name = hooks.validating({"judge": deny(NO), "rules": [rule("pods/binding")]})
    yield
    hall.cluster.delete("validatingwebhookconfigurations", name).ok(200)
    server.stop()


@contextmanager
def _policy(hall: Hall) -> Iterator[None]:
    name, inside = hall.namespace, {"matchLabels": {"kubernetes.io/metadata.name": hall.namespace}}
    policy = {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule("pods/binding"), "apiGroups": [""]}]},
            "validations": [{"expression": "false", "message": NO, "reason": "Forbidden"}],
        },
    }
    binding = {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": inside}},
    }
    hall.cluster.create(POLICIES, policy).ok(201)
    hall.cluster.create(BINDINGS, binding).ok(201)
    hall.make(*pods("probe", 1, schedulerName="nobody"))
    hall.eventually(lambda: _is_refused(hall), "the policy is used")
    hall.remove("pods", "probe-0")
    yield
    hall.cluster.delete(BINDINGS, name).ok(200)
    hall.cluster.delete(POLICIES, name).ok(200)


def _is_refused(hall: Hall) -> bool:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "probe-0"}, "target": {"name": "nowhere"}}
    return hall.space.create("pods", body, name="probe-0", sub="binding", dryRun="All").status == 403


def test_a_refused_bind_is_why_a_gang_waits_and_nobody_else_is_harmed(hall: Hall, tmp_path: Path) -> None:
    hall.build(tree())
    other = hall.another(f"{hall.namespace}-b")
    with refusing_binds(hall, tmp_path):
        hall.make(podgroup("a", 2), *pods("a", 2))
        told = hall.says("a", "Failed to bind pod", "to node", NO)
        hall.eventually(lambda: hall.condition("a-0").get("reason") == "BindingError", "the pod is told")
        hall.tells("a-0", NO)
        hall.eventually(lambda: hall.events("Pod", "a-0", "FailedBinding"), "an event tells it")
        (gang,) = hall.explain("a")["gangs"]
        assert (gang["state"], gang["lines"]) == ("BindingError", told.split("\n"))
        _make(other, podgroup("b", 2), *pods("b", 2))
        hall.eventually(lambda: len(hall.bound("b", other)) == 2, "the others have the room")
        assert hall.bound("a") == {}
    hall.remove("pods", "b-0", "b-1", space=other)
    hall.running("a", 2)
    hall.is_quiet("a")


def _make(space: Space, group: Json, *members: Json) -> None:
    for collection, body in [("scheduling.run.ai/v2alpha2/podgroups", group), *[("pods", each) for each in members]]:
        metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
        space.create(collection, {**body, "metadata": metadata}).ok(201)
