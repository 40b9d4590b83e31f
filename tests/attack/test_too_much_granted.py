"""A tenant whose administrator has granted too much: status, PodGangs, PodCliques. What is left is still harmless."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from attack.forging import own_gang
from attack.harm import SCRIPT, Before, check_unharmed
from attack.installation import TENANT
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import (
    CLIQUE,
    CLIQUES,
    DECODING,
    GANGS,
    GROUPS,
    MANAGED,
    QUEUES,
    SCALED,
    SETS,
    VICTIMS,
    Attempt,
    grouped,
    make,
    owned,
    right_to_queues,
    rights,
    too_many_rights,
)
from attack.test_amounts import LONG
from cluster_kit.objects import job
from cluster_kit.server import PATCH_TYPES, Reply, eventually
from cluster_kit.space import Space
from unit.operator.operator_world import clique, group, podcliqueset
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()
_POD = {"apiVersion": "v1", "kind": "Pod"}


@pytest.fixture
def granted(attempt: Attempt) -> Iterator[Attempt]:
    """The rights are there when the first right of each role is; they go afterwards."""
    change = {"rules": [*rights(), *too_many_rights()]}
    attempt.admin.patch("roles", "tenant", change).ok(200)
    cluster = Space(attempt.home.server, "")
    with right_to_queues(cluster):
        eventually(lambda: attempt.home.get(GANGS).status == 200, "the rights are known", 20)
        eventually(lambda: cluster.as_user(TENANT).get(QUEUES).status == 200, "the right to queues is known", 20)
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
    """A PodGang with the name, the owner and the labels of another tenant's."""
    uid = Space(at.home.server, VICTIMS).get(SETS, DECODING).ok(200)["metadata"]["uid"]
    made = _gang(f"{DECODING}-0", labels=MANAGED)
    return at.create(GANGS, owned(made, "PodCliqueSet", "grove.io/v1alpha1", DECODING, uid))


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
    """A PodClique of 100,000 pods with the name, the owner and the labels of another tenant's."""
    spec = {"replicas": 100_000, "minAvailable": 1, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}
    uid = Space(at.home.server, VICTIMS).get(SETS, DECODING).ok(200)["metadata"]["uid"]
    made = {**head, "metadata": {"name": CLIQUE, "labels": MANAGED}, "spec": spec}
    return at.create(CLIQUES, owned(made, "PodCliqueSet", "grove.io/v1alpha1", DECODING, uid))


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
    labels = MANAGED | dict.fromkeys(indexes, "9" * 63) | {"grove.io/podcliquescalinggroup": CLIQUE}
    spec = {"replicas": 1, "minAvailable": 1, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}
    return at.create(CLIQUES, {**head, "metadata": {"name": f"{CLIQUE}-0-b", "labels": labels}, "spec": spec})


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


# Marks by way of the subresources that change the specification of a pod

_FORGED = {"spinney.dev/rank": "7", "spinney.dev/released": "1", "pod-group-name": "debugging"}
_DEBUGGER = {"name": "debug", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
CHANGES: dict[str, Json] = {
    "resize": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    "ephemeralcontainers": {"ephemeralContainers": [_DEBUGGER]},
}
"""What each is for: where nothing is to be written nothing is."""


def _marked(found: Json, sub: str) -> Json:
    """The pod as its subresource may change it, and as it may not."""
    made = copy.deepcopy(found)
    if sub == "resize":
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    else:
        made["spec"] |= CHANGES[sub]
    for mark in ("annotations", "labels"):
        made["metadata"][mark] = {**made["metadata"].get(mark, {}), **_FORGED}
    return made


def _through(at: Attempt, sub: str, way: str) -> Reply:
    found = at.admin.get("pods", "marked-0").ok(200)
    whole, metadata = _marked(found, sub), {"annotations": _FORGED, "labels": _FORGED}
    if way == "update":
        return at.replace("pods", whole, sub)
    query = {"query": {"fieldManager": "tenant", "force": "true"}} if way == "apply" else {}
    bodies: dict[str, Any] = {
        "merge": {"metadata": metadata, "spec": whole["spec"]},
        "strategic": {"metadata": metadata, "spec": CHANGES[sub]},
        "json": [{"op": "replace", "path": f"/{part}", "value": whole[part]} for part in ("metadata", "spec")],
        "apply": {**_POD, "metadata": {"name": "marked-0", **metadata}, "spec": CHANGES[sub]},
    }
    return at.patch("pods", "marked-0", bodies[way], kind=way, sub=sub, **query)


@pytest.mark.parametrize("way", [*PATCH_TYPES, "update"])
@pytest.mark.parametrize("sub", CHANGES)
def test_a_subresource_of_a_pod_carries_no_mark(sub: str, way: str, granted: Attempt, before: Before) -> None:
    """The API server drops what the subresource is not for before admission is asked."""
    granted.create(GROUPS, podgroup("marked")).ok(201)
    made = pod("marked-0", "marked", 1)
    made["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1", "cpu": "1"}}
    granted.create("pods", made).ok(201)

    def bound() -> Json:
        found: Json = granted.admin.get("pods", "marked-0").ok(200)
        assert found["spec"].get("nodeName")
        return found

    first = eventually(bound, "marked-0 is bound", 20)
    _through(granted, sub, way).ok(200)
    now = granted.admin.get("pods", "marked-0").ok(200)
    assert now["spec"] != first["spec"], "nothing was changed"
    assert _marks(now) == _marks(first)
    check_unharmed(granted.found, before)


def _marks(found: Json) -> tuple[Json, Json]:
    return found["metadata"].get("annotations", {}), found["metadata"].get("labels", {})


# Status of our kinds

STATUS_OF: dict[str, Json] = {
    SETS: {"availableReplicas": 1000, "replicas": 1000},
    CLIQUES: {"scheduledReplicas": 1000, "readyReplicas": 1000},
    SCALED: {"scheduledReplicas": 1000, "availableReplicas": 1000},
    GANGS: {"phase": "Running", "conditions": []},
    GROUPS: {"resourcesStatus": {"allocated": {GPU: "-1000"}}},
}
_OWN = {SETS: "posing", CLIQUES: "posing-0-a", SCALED: "posing-0-g", GANGS: "posing-0", GROUPS: "posing-0"}


def _forge_status(at: Attempt, space: Space, collection: str, name: str, status: Json, way: str) -> Reply:
    path = space.path(collection, name, "status")
    found = space.as_user("admin").get(collection, name).ok(200)
    if way == "update":
        return at.send("PUT", path, {**found, "status": status})
    headers = {"Content-Type": PATCH_TYPES[way]}
    if way == "json":
        return at.send("PATCH", path, [{"op": "add", "path": "/status", "value": status}], headers=headers)
    if way == "merge":
        return at.send("PATCH", path, {"status": status}, headers=headers)
    body = {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": name}, "status": status}
    return at.send("PATCH", path, body, headers=headers, query={"fieldManager": "tenant", "force": "true"})


@pytest.mark.parametrize("way", ["merge", "json", "apply", "update"])
def test_a_status_of_ours_is_refused_by_every_verb(way: str, granted: Attempt, before: Before) -> None:
    """Of a set that the tenant may have, and of all that the operator makes of it."""
    cliques = [clique("a"), clique("b")]
    granted.create(SETS, podcliqueset("posing", cliques, [group("g", ["b"])])).ok(201)
    for collection, name in _OWN.items():
        eventually(lambda of=collection, one=name: granted.admin.exists(of, one), f"{collection}/{name} is there", 20)  # type: ignore[misc]
    for collection, status in STATUS_OF.items():
        reply = _forge_status(granted, granted.home, collection, _OWN[collection], status, way)
        reply.refused(403, None, "may not write it")
    check_unharmed(granted.found, before)


@pytest.mark.parametrize("way", ["merge", "json", "apply", "update"])
def test_a_status_of_a_queue_is_refused_by_every_verb(way: str, granted: Attempt, before: Before) -> None:
    """Of the queue that all tenants share: it would say that nothing is left, or that nobody uses it."""
    cluster = Space(granted.home.server, "", TENANT)
    first = cluster.get(QUEUES, "default-queue").ok(200).get("status")
    for amount in ("1000000", "-1000000"):
        reply = _forge_status(granted, cluster, QUEUES, "default-queue", {"allocated": {GPU: amount}}, way)
        reply.refused(403, None, "may not write it")
    assert cluster.get(QUEUES, "default-queue").ok(200).get("status") == first
    check_unharmed(granted.found, before)


# Status of other kinds


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
