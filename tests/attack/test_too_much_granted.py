"""A tenant whose administrator has granted too much: status, PodGangs, PodCliques. What is left is still harmless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from attack.forging import own_gang
from attack.harm import SCRIPT, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import CLIQUES, GANGS, GROUPS, SETS, VICTIMS, Attempt, make, rights, too_many_rights
from attack.test_amounts import LONG
from attack.test_names import grouped, owned
from cluster_kit.objects import job
from cluster_kit.server import PATCH_TYPES, Reply, eventually
from cluster_kit.space import Space
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()


@pytest.fixture
def granted(attempt: Attempt) -> Iterator[Attempt]:
    """The rights are there when the first right is; they go afterwards."""
    change = {"rules": [*rights(), *too_many_rights()]}
    attempt.admin.patch("roles", "tenant", change).ok(200)
    eventually(lambda: attempt.home.get(GANGS).status == 200, "the rights are known", 20)
    yield attempt
    attempt.admin.patch("roles", "tenant", {"rules": rights()}).ok(200)
    eventually(lambda: attempt.home.get(GANGS).status == 403, "the rights are gone", 20)


@table.refused(403, "may not write it")
def _(at: Attempt) -> Reply:
    """A status that says a gang is scheduled, with a script."""
    at.create(GROUPS, podgroup("told")).ok(201)
    condition = {"type": "Scheduled", "status": "True", "message": SCRIPT, "transitionID": "9" * 128}
    return at.patch(GROUPS, "told", {"status": {"schedulingConditions": [condition]}}, sub="status")


def _gang(name: str, **metadata: Any) -> Json:
    references = [{"namespace": VICTIMS, "name": f"serving-0-{number}"} for number in range(8)]
    parts = [{"name": "serving-0", "minReplicas": 1, "podReferences": references}]
    head = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": name, **metadata}}
    return {**head, "spec": {"podgroups": parts}}


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodGang of another tenant's pods."""
    return at.create(GANGS, _gang("serving-0"))


@table.refused(403, "may not set, change or remove it")
def _(at: Attempt) -> Reply:
    """A PodGang that is tied to another tenant's."""
    tie = {"spinney.dev/tied-to": f"{VICTIMS}/serving-0,kubernetes.io/hostname"}
    return at.create(GANGS, _gang("tied", annotations=tie))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodClique of 100,000 pods with the labels of another tenant's set."""
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "serving"}
    spec = {"replicas": 100_000, "minAvailable": 1, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}
    return at.create(CLIQUES, {**head, "metadata": {"name": "serving-0-a", "labels": labels}, "spec": spec})


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that say of themselves that they are over, while they are not."""
    own_gang(at, "over", 2)
    reply = at.patch("pods", "over-0", {"status": {"phase": "Succeeded"}}, sub="status")
    at.patch("pods", "over-1", {"status": {"phase": "Failed", "message": SCRIPT}}, sub="status").ok(200)
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod that says of itself that a node is nominated for it."""
    at.create("pods", pod("nominated", "none", 8)).ok(201)
    full = Space(at.home.server, VICTIMS).get("pods", "serving-0-0").ok(200)["spec"]["nodeName"]
    return at.patch("pods", "nominated", {"status": {"nominatedNodeName": full}}, sub="status")


@table.refused(403, "may not set, change or remove it")
def _(at: Attempt) -> Reply:
    """A rank by way of the status of a pod."""
    at.create("pods", pod("ranked", "none", 1)).ok(201)
    return at.patch("pods", "ranked", {"metadata": {"annotations": {"spinney.dev/rank": "0"}}}, sub="status")


@table.refused(403, "may not write it")
def _(at: Attempt) -> Reply:
    """A status by server-side apply, with a plan beside it."""
    made = podgroup("applied")
    at.create(GROUPS, made).ok(201)
    head = {key: made[key] for key in ("apiVersion", "kind")}
    metadata = {"name": "applied", "annotations": {"spinney.dev/plan": "{}"}}
    headers, query = {"Content-Type": PATCH_TYPES["apply"]}, {"fieldManager": "tenant", "force": "true"}
    body = {**head, "metadata": metadata, "status": {"phase": "Running"}}
    return at.send("PATCH", at.home.path(GROUPS, "applied", "status"), body, headers=headers, query=query)


@table.harmless("/gangs/attacker/ancient")
def _(at: Attempt) -> Reply:
    """Times before the first year and after the last."""
    own_gang(at, "ancient", 2)
    times = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    for number, time in enumerate(times):
        state = {"terminated": {"exitCode": 1, "startedAt": time, "finishedAt": time}}
        statuses = [
            {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 2**31 - 1, "state": state}
        ]
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": time, "lastProbeTime": time}]
        status = {"phase": "Running", "startTime": time, "containerStatuses": statuses, "conditions": conditions}
        reply = at.patch("pods", f"ancient-{number}", {"status": status}, kind="strategic", sub="status")
    make(at.home, [pod("ancient-2", "ancient", 1)])
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """Ten thousand conditions of a pod."""
    at.create("pods", pod("talkative", "none", 1)).ok(201)
    conditions = [{"type": f"example.com/c{number}", "status": "True"} for number in range(10_000)]
    return at.patch("pods", "talkative", {"status": {"conditions": conditions}}, sub="status")


@table.refused(422, "replicas")
def _(at: Attempt) -> Reply:
    """A set scaled to 2^31-1 replicas by its scale."""
    at.create(SETS, podcliqueset("grown", [clique("a")])).ok(201)
    return at.patch(SETS, "grown", {"spec": {"replicas": 2**31 - 1}}, sub="scale")


@table.harmless()
def _(at: Attempt) -> Reply:
    """A set scaled by its scale to as many replicas as its schema allows."""
    at.create(SETS, podcliqueset("grown", [clique("a", replicas=100)])).ok(201)
    return at.patch(SETS, "grown", {"spec": {"replicas": 100_000}}, sub="scale")


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodClique of another tenant's labels with indexes of 63 digits."""
    indexes = ("grove.io/podcliqueset-replica-index", "grove.io/podcliquescalinggroup-replica-index")
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "serving"}
    labels |= dict.fromkeys(indexes, "9" * 63) | {"grove.io/podcliquescalinggroup": "serving-0-a"}
    spec = {"replicas": 1, "minAvailable": 1, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}
    return at.create(CLIQUES, {**head, "metadata": {"name": "serving-0-a-0-b", "labels": labels}, "spec": spec})


@table.harmless()
def _(at: Attempt) -> Reply:
    """A bound pod resized to 2^63-1 CPUs in place."""
    own_gang(at, "resized")
    amounts = {"cpu": str(2**63 - 1), GPU: "1"}
    change = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
    at.patch("pods", "resized-0", {"spec": {"containers": change}}, kind="strategic", sub="resize")
    return at.admin.get("pods", "resized-0")


@table.harmless()
def _(at: Attempt) -> Reply:
    """Two hundred ephemeral containers in a pod."""
    own_gang(at, "debugged")
    added = [{"name": f"debug-{number}", "image": SCRIPT} for number in range(200)]
    body = {"spec": {"ephemeralContainers": added}}
    return at.patch("pods", "debugged-0", body, kind="strategic", sub="ephemeralcontainers")


@table.harmless()
def _(at: Attempt) -> Reply:
    """A Job whose failed indexes have 5,000 digits."""
    annotations = {"kai.scheduler/topology": "grove-topology"}
    body = job("failing", completionMode="Indexed", completions=4, parallelism=4, backoffLimitPerIndex=1)
    body["metadata"]["annotations"] = annotations
    uid = at.create("jobs", body).ok(201)["metadata"]["uid"]
    reply = at.patch("jobs", "failing", {"status": {"failedIndexes": LONG, "startTime": None}}, sub="status")
    at.create("pods", owned(grouped(pod("failing-0", "", 1)), "Job", "batch/v1", "failing", uid)).ok(201)
    return reply if reply.status < 300 else at.admin.get("jobs", "failing")


@pytest.mark.parametrize("row", table.parameters())
def test_what_should_not_have_been_granted_is_refused_or_harmless(row: Row, granted: Attempt, before: Before) -> None:
    carry_out(row, granted, before)
