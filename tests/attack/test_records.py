"""Records that only our roles write, sent by a tenant: each key, by every verb that can carry it, is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attack.forging import own_gang
from attack.harm import Before, check_unharmed
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import GROUPS, SETS, VICTIMS, Attempt, without_namespace
from cluster_kit.objects import job
from cluster_kit.server import PATCH_TYPES, Reply, eventually
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()
REFUSED = "may not set, change or remove it"
VALUES = {
    "plan": '{"v":1,"epoch":1,"state":"bind","uids":"","names":[],"node":"","rank":""}',
    "epoch": "4000000000",
    "plan-signature": f"v1 - 1 {'0' * 64}",
    "fenced": "4000000000",
    "explanation": '{"version": 1, "state": "bound"}',
    "placement-score": "0.1234",
    "members": "default=1000",
    "consolidate": "1000",
    "mirrored": "spinney.dev/plan",
    "tied-to": f"{VICTIMS}/serving-0,kubernetes.io/hostname",
    "not-known-yet": "x",
}
ON_PODS = {"rank": "0", "domain": "z/full", "segment": "0", "zone": "node-0", "released": "1", "node-keys": "a,b"}
VERBS = ("create", "merge patch", "apply", "update")


def write(at: Attempt, verb: str, collection: str, made: Json, annotations: Json) -> Reply:
    """The annotations on a new object, or on one that is there and else stays as it is."""
    name = made["metadata"]["name"]
    bare = without_namespace(made)
    if verb == "create":
        return at.create(collection, _with(bare, annotations))
    found = at.create(collection, bare).ok(201)
    if verb == "merge patch":
        return at.patch(collection, name, {"metadata": {"annotations": annotations}})
    if verb == "apply":
        head = {key: made[key] for key in ("apiVersion", "kind")}
        applied = {**head, "metadata": {"name": name, "annotations": annotations}}
        headers, query = {"Content-Type": PATCH_TYPES["apply"]}, {"fieldManager": "tenant", "force": "true"}
        return at.send("PATCH", at.home.path(collection, name), applied, headers=headers, query=query)
    return _updated(at, collection, found, annotations)


def _updated(at: Attempt, collection: str, found: Json, annotations: Json) -> Reply:
    """Whoever was quicker is read again: the scheduler writes to it as well."""
    while True:
        reply = at.replace(collection, _with(found, annotations))
        if reply.status != 409:
            return reply
        found = at.home.get(collection, found["metadata"]["name"]).ok(200)


def _with(made: Json, annotations: Json) -> Json:
    metadata = made["metadata"]
    return {**made, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


@pytest.mark.parametrize("verb", VERBS)
def test_every_record_on_a_podgroup_is_refused(verb: str, attempt: Attempt, before: Before) -> None:
    for key, value in VALUES.items():
        made = podgroup(f"forged-{key}")
        reply = write(attempt, verb, GROUPS, made, {f"spinney.dev/{key}": value})
        reply.refused(403, None, f"spinney.dev/{key}", REFUSED)
    check_unharmed(attempt.found, before)


@pytest.mark.parametrize("verb", VERBS)
def test_every_record_on_a_pod_is_refused(verb: str, attempt: Attempt, before: Before) -> None:
    for key, value in ON_PODS.items():
        made = pod(f"forged-{key}", "none", 0)
        reply = write(attempt, verb, "pods", made, {f"spinney.dev/{key}": value})
        reply.refused(403, None, f"spinney.dev/{key}", REFUSED)
    check_unharmed(attempt.found, before)


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """Labels under our prefix."""
    made = podgroup("labelled")
    made["metadata"]["labels"] = {"spinney.dev/plan": "x"}
    return at.create(GROUPS, made)


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """The epoch of an own gang, taken away after it was placed."""
    own_gang(at, "placed")
    patch = {"metadata": {"annotations": {"spinney.dev/epoch": None, "spinney.dev/placement-score": None}}}
    return at.patch(GROUPS, "placed", patch)


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """A plan among changes of the specification."""
    at.create(GROUPS, podgroup("both")).ok(201)
    return at.patch(GROUPS, "both", {"spec": {"minMember": 2}, "metadata": {"annotations": {"spinney.dev/plan": "{}"}}})


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """A plan of 250 KiB."""
    return at.create(GROUPS, podgroup("garbage", annotations={"spinney.dev/plan": "x" * 250_000}))


@table.refused(422, "is written by roles of Spinney only")
def _(at: Attempt) -> Reply:
    """A rank in the template of a PodCliqueSet."""
    return at.create(SETS, podcliqueset("ranked", [clique("a", annotations={"spinney.dev/rank": "0"})]))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan on a PodCliqueSet, for the operator to pass on."""
    annotations = {f"spinney.dev/{key}": value for key, value in VALUES.items()}
    made = podcliqueset("laundry", [clique("a")], metadata={"annotations": annotations})
    reply = at.create(SETS, made)
    eventually(lambda: at.admin.names(GROUPS), "the operator makes a PodGroup", 20)
    assert _forged(at) == {}
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """Records on a Job, for the pod-grouper to pass on."""
    body = job("laundry")
    body["metadata"]["annotations"] = {f"spinney.dev/{key}": value for key, value in VALUES.items()}
    uid = at.create("jobs", body).ok(201)["metadata"]["uid"]
    made = pod("laundry-0", "", 1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "laundry", "uid": uid, "controller": True}
    made["metadata"] = {"name": "laundry-0", "ownerReferences": [owner]}
    reply = at.create("pods", made)
    eventually(lambda: at.admin.names(GROUPS), "the pod-grouper makes a PodGroup", 20)
    assert _forged(at) == {}
    return reply


def _forged(at: Attempt) -> Json:
    """Which of the forged values have come through to a PodGroup."""
    found: Json = {}
    for group in at.admin.list(GROUPS)["items"]:
        annotations = group["metadata"].get("annotations") or {}
        found |= {key: value for key, value in annotations.items() if value in set(VALUES.values())}
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("row", table.parameters())
def test_records_are_written_by_our_roles_only(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
