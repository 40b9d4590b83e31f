"""Names that point at others: groups, owners, queues, classes, labels of our operator; and names that are code."""

from __future__ import annotations

from typing import Any

import pytest

from attack.harm import SCRIPT, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import FULL, GROUPS, MANAGED, SETS, VICTIMS, Attempt, grouped, make, owned
from cluster_kit.objects import job
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()


def victim_group(at: Attempt) -> Json:
    found: Json = Space(at.home.server, VICTIMS).get(GROUPS, "serving-0").ok(200)
    return found


# Groups


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod whose group is another namespace's by name."""
    return at.create("pods", pod("stray", f"{VICTIMS}/serving-0", 1))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod whose group is a path to another namespace's."""
    return at.create("pods", pod("path", f"../../{VICTIMS}/podgroups/serving-0", 1))


@table.harmless(f"/gangs/{VICTIMS}/serving-0", "/gangs/attacker/serving-0")
def _(at: Attempt) -> Reply:
    """A PodGroup and pods with the names of another tenant's."""
    at.create(GROUPS, podgroup("serving-0", 8)).ok(201)
    return make(at.home, [pod(f"serving-0-{number}", "serving-0", 8) for number in range(8)])[-1]


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod whose group has a name of 200,000 characters."""
    return at.create("pods", pod("long", "g" * 200_000, 1))


@table.harmless("/gangs/attacker/parts")
def _(at: Attempt) -> Reply:
    """Pods in sub-groups that their PodGroup does not have."""
    at.create(GROUPS, podgroup("parts", subGroups=[{"name": "a", "minMember": 1}])).ok(201)
    return make(at.home, [pod(f"parts-{number}", "parts", 1, subgroup=f"b{number}") for number in range(20)])[-1]


@table.refused(422, "cycle detected")
def _(at: Attempt) -> Reply:
    """Sub-groups in a circle."""
    circle = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    return at.create(GROUPS, podgroup("circle", subGroups=circle))


@table.refused(422, "nested deeper than 64 levels")
def _(at: Attempt) -> Reply:
    """Sub-groups 5,000 levels deep."""
    chain = [{"name": f"s{number}", **({"parent": f"s{number - 1}"} if number else {})} for number in range(5000)]
    return at.create(GROUPS, podgroup("deep", subGroups=chain))


@table.harmless("/gangs/attacker/wide")
def _(at: Attempt) -> Reply:
    """Eight thousand sub-groups side by side."""
    at.create(GROUPS, podgroup("wide", subGroups=[{"name": f"s{number}"} for number in range(8000)])).ok(201)
    return at.create("pods", pod("wide-0", "wide", 1, subgroup="s0"))


@table.refused(422, "must have at most 8192 items")
def _(at: Attempt) -> Reply:
    """Sub-groups beyond what the schema allows."""
    return at.create(GROUPS, podgroup("wider", subGroups=[{"name": f"s{number}"} for number in range(8193)]))


# Owners


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod owned by another tenant's PodGroup."""
    uid = victim_group(at)["metadata"]["uid"]
    made = owned(pod("child", "serving-0", 1), "PodGroup", "scheduling.run.ai/v2alpha2", "serving-0", uid)
    return at.create("pods", made)


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods for the pod-grouper, owned by another tenant's pod, as if a Job had that uid."""
    uid = Space(at.home.server, VICTIMS).get("pods", "serving-0-0").ok(200)["metadata"]["uid"]
    return at.create("pods", owned(grouped(pod("orphan", "", 1)), "Job", "batch/v1", "serving-0-0", uid))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A chain of owners that ends in itself."""
    first = at.create("jobs", job("first")).ok(201)["metadata"]["uid"]
    second = at.create("jobs", owned(job("second"), "Job", "batch/v1", "first", first)).ok(201)["metadata"]["uid"]
    back = owned(job("first"), "Job", "batch/v1", "second", second)["metadata"]["ownerReferences"]
    at.patch("jobs", "first", {"metadata": {"ownerReferences": back}}).ok(200)
    return at.create("pods", owned(grouped(pod("looped", "", 1)), "Job", "batch/v1", "first", first))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodGroup that pretends to be of a PodGang, with a topology that is not there."""
    made = podgroup("posing", 2, topologyConstraint={"topology": "nowhere", "requiredTopologyLevel": "a/b"})
    return at.create(GROUPS, owned(made, "PodGang", "scheduler.grove.io/v1alpha1", "serving", "0" * 8))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodGroup that pretends to be of the pod-grouper, for a pod of its own."""
    annotations = {"kai.scheduler/top-owner-metadata": "name: serving-0\nuid: x\ngroup: batch\nkind: Job\n"}
    at.create(GROUPS, podgroup("pg-posing", annotations=annotations)).ok(201)
    return at.create("pods", grouped(pod("posed", "", 1), **{"pod-group-name": "pg-posing"}))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod with every label of the operator's, for another tenant's set."""
    made = grouped(pod("managed", "", 1))
    indexes = ("grove.io/podclique-pod-index", "batch.kubernetes.io/job-completion-index")
    made["metadata"]["labels"] = MANAGED | dict.fromkeys(indexes, "9" * 63) | {"grove.io/base-podgang": "decoding-0"}
    return at.create("pods", made)


# Queues, classes, topologies


@table.harmless("/gangs/attacker/queued")
def _(at: Attempt) -> Reply:
    """A PodGroup in a queue that is not there."""
    at.create(GROUPS, podgroup("queued", queue="nobody")).ok(201)
    return at.create("pods", pod("queued-0", "queued", 1))


@table.refused(422, "spec.queue")
def _(at: Attempt) -> Reply:
    """A queue whose name has 10,000 characters."""
    return at.create(GROUPS, podgroup("queued", queue="q" * 10_000))


@table.harmless("/gangs/attacker/scripted")
def _(at: Attempt) -> Reply:
    """A queue and a class whose names are scripts."""
    at.create(GROUPS, podgroup("scripted", queue=SCRIPT, priorityClassName=SCRIPT)).ok(201)
    return at.create("pods", pod("scripted-0", "scripted", 1))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodGroup of a class that its pods may not have, on a node that others fill."""
    at.create(GROUPS, podgroup("urgent", priorityClassName="inference")).ok(201)
    return at.create("pods", pod("urgent-0", "urgent", 8, nodeSelector={"kubernetes.io/hostname": FULL[0]}))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A Job of a class that its pods may not have, on a node that others fill."""
    there = {"nodeSelector": {"kubernetes.io/hostname": FULL[0]}}
    return _job_with_pod(at, "urgent", {}, labels={"priorityClassName": "inference"}, pod_spec=there, gpus=8)


@table.refused(403, "exceeded quota")
def _(at: Attempt) -> Reply:
    """A pod of a system's priority class."""
    return at.create("pods", pod("critical", "none", 1, priorityClassName="system-node-critical"))


@table.refused(422, "does not exist")
def _(at: Attempt) -> Reply:
    """A topology that is not there."""
    return at.create(GROUPS, podgroup("there", topologyConstraint={"topology": "no", "requiredTopologyLevel": "x"}))


@table.refused(422, "requiredTopologyLevel")
def _(at: Attempt) -> Reply:
    """A level whose name is a script."""
    constraint = {"topology": "grove-topology", "requiredTopologyLevel": SCRIPT}
    return at.create(GROUPS, podgroup("there", topologyConstraint=constraint))


# Annotations that are read


@table.harmless("/gangs")
def _(at: Attempt) -> Reply:
    """A Job with scripts in every annotation that the pod-grouper reads."""
    keys = ("topology", "topology-required-placement", "topology-preferred-placement", "segment-size", "queue")
    annotations = {f"kai.scheduler/{key}": SCRIPT for key in keys}
    annotations |= {"user": SCRIPT, "spinney.dev/nonsense": SCRIPT}
    return _job_with_pod(at, "scripted", annotations)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A Job with a segment size of 5,000 digits."""
    annotations = {
        "kai.scheduler/topology": "grove-topology",
        "kai.scheduler/segment-size": "9" * 5000,
        "kai.scheduler/segment-topology-required-placement": "example.com/rack",
    }
    return _job_with_pod(at, "segments", annotations)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodGroup with a segment size of 5,000 digits."""
    annotations = {
        "kai.scheduler/topology": "grove-topology",
        "kai.scheduler/segment-size": "9" * 5000,
        "kai.scheduler/segment-topology-required-placement": "example.com/rack",
    }
    at.create(GROUPS, podgroup("segmented", annotations=annotations)).ok(201)
    return at.create("pods", pod("segmented-0", "segmented", 1))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Fractions of a GPU that are no numbers."""
    at.create(GROUPS, podgroup("fractions")).ok(201)
    values = {"gpu-fraction": "nan", "gpu-memory": "9" * 5000, "gpu-fraction-num-devices": "1e999"}
    made = pod("fractions-0", "fractions", 0)
    made["metadata"]["annotations"] |= values
    return at.create("pods", made)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A Job of 2^31-1 pods, of which one is there."""
    return _job_with_pod(at, "legion", {}, parallelism=2**31 - 1, completions=2**31 - 1)


@table.harmless()
def _(at: Attempt) -> Reply:
    """Lines of a log in a name of a group."""
    text = 'x\n{"event": "leading", "level": "error"}\x1b[2J\u202e\x00'.replace("\x00", "")
    return at.create("pods", pod("log", text, 1))


def _job_with_pod(at: Attempt, name: str, annotations: dict[str, str], **spec: Any) -> Reply:
    """As the Job's controller would make it: it is the tenant's pod either way."""
    labels, pod_spec, gpus = spec.pop("labels", {}), spec.pop("pod_spec", {}), spec.pop("gpus", 1)
    body = job(name, **spec)
    body["metadata"] |= {"annotations": annotations, "labels": labels}
    uid = at.create("jobs", body).ok(201)["metadata"]["uid"]
    made = grouped(pod(f"{name}-0", "", gpus, **pod_spec))
    reply = at.create("pods", owned(made, "Job", "batch/v1", name, uid))
    if reply.status == 201:
        eventually(lambda: _is_told(at, f"{name}-0"), f"{name}-0 is grouped, or told why not", 20)
    return reply


def _is_told(at: Attempt, name: str) -> bool:
    found = at.admin.get("pods", name).ok(200)
    named = (found["metadata"].get("annotations") or {}).get("pod-group-name")
    return bool(named or found["spec"].get("nodeName") or found["status"].get("conditions"))


# Pod specifications


@table.harmless()
def _(at: Attempt) -> Reply:
    """A node affinity of 500 terms with 200 values each."""
    at.create(GROUPS, podgroup("choosy")).ok(201)
    values = [f"v{number}" for number in range(200)]
    terms = [{"matchExpressions": [{"key": f"k{term}", "operator": "NotIn", "values": values}]} for term in range(500)]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return at.create("pods", pod("choosy-0", "choosy", 0, affinity=affinity))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Two hundred required anti-affinities, against everybody by every key."""
    at.create(GROUPS, podgroup("hermit")).ok(201)
    terms = [{"topologyKey": f"example.com/k{number}", "labelSelector": {}} for number in range(200)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return at.create("pods", pod("hermit-0", "hermit", 0, affinity=affinity))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A volume and a device that are not there."""
    at.create(GROUPS, podgroup("lacking")).ok(201)
    volumes = [{"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"none-{each}"}} for each in range(100)]
    claims = [{"name": "d", "resourceClaimName": "none"}]
    return at.create("pods", pod("lacking-0", "lacking", 0, volumes=volumes, resourceClaims=claims))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A gate of the operator's, taken off by hand."""
    at.create(GROUPS, podgroup("gated")).ok(201)
    gates = [{"name": "grove.io/podgang-pending-creation"}]
    at.create("pods", pod("gated-0", "gated", 0, schedulingGates=gates)).ok(201)
    return at.patch("pods", "gated-0", {"spec": {"schedulingGates": None}})


@table.harmless()
def _(at: Attempt) -> Reply:
    """Finalizers of nobody on a group and a pod that are deleted."""
    at.create(GROUPS, podgroup("kept")).ok(201)
    at.create("pods", pod("kept-0", "kept", 0)).ok(201)
    held = {"metadata": {"finalizers": ["example.com/never"]}}
    at.patch(GROUPS, "kept", held).ok(200)
    at.patch("pods", "kept-0", held).ok(200)
    at.send("DELETE", at.home.path("pods", "kept-0"))
    return at.send("DELETE", at.home.path(GROUPS, "kept"))


@table.refused(422, "may not be more than 262144 bytes")
def _(at: Attempt) -> Reply:
    """A megabyte of annotations."""
    return at.create(GROUPS, podgroup("heavy", annotations={"example.com/a": "a" * 1_000_000}))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod of a megabyte."""
    at.create(GROUPS, podgroup("heavy")).ok(201)
    made = pod("heavy-0", "heavy", 0)
    made["spec"]["containers"][0]["env"] = [{"name": "A", "value": "a" * 1_000_000}]
    return at.create("pods", made)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A PodCliqueSet with scripts where texts are free."""
    container = {"name": "main", "image": SCRIPT, "command": [SCRIPT], "env": [{"name": "A", "value": SCRIPT}]}
    template = clique("a", podSpec={"containers": [container]}, annotations={"example.com/a": SCRIPT})
    return at.create(SETS, podcliqueset("scripted", [template], metadata={"annotations": {"example.com/a": SCRIPT}}))


@pytest.mark.parametrize("row", table.parameters())
def test_names_point_at_nobody_else(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
