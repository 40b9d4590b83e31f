"""Fields of pods and groups beside requests and names: bounds, times, orders and sizes; and rare ways to write."""

from __future__ import annotations

from typing import Any

import pytest

from attack.harm import PINNED, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import FREE, GROUPS, SETS, Attempt, grouped, make, owned
from attack.test_amounts import LONG, waits
from attack.test_records import REFUSED
from cluster_kit.server import Reply, eventually
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def lone(at: Attempt, name: str, **spec: Any) -> Reply:
    """A pod in a group of its own."""
    at.create(GROUPS, podgroup(name)).ok(201)
    return at.create("pods", pod(name, name, 0, **spec))


def _larger_than(value: str) -> Json:
    return {"matchExpressions": [{"key": "example.com/size", "operator": "Gt", "values": [value]}]}


@table.refused(422, "must be no more than 63")
def _(at: Attempt) -> Reply:
    """A node affinity by a bound of 5,000 digits."""
    return lone(at, "bound", affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_larger_than(LONG)]}}})


@table.harmless()
def _(at: Attempt) -> Reply:
    """A node affinity by a bound of 63 digits, required and preferred."""
    term = _larger_than("9" * 63)
    affinity = {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}, _PREFERRED: [{"weight": 100, "preference": term}]}
    }
    return lone(at, "bound", affinity=affinity)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A preference by a bound of 5,000 digits."""
    affinity = {"nodeAffinity": {_PREFERRED: [{"weight": 100, "preference": _larger_than(LONG)}]}}
    reply = lone(at, "choosy", affinity=affinity)
    eventually(lambda: at.admin.get("pods", "choosy").ok(200)["spec"].get("nodeName"), "it is bound all the same", 20)
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """Tolerations of 2^63-1 seconds, and of less than none."""
    seconds = (2**63 - 1, -(2**63))
    tolerations = [
        {"key": f"example.com/k{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}
        for each, number in enumerate(seconds)
    ]
    return lone(at, "tolerant", tolerations=tolerations)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A grace period of 2^63-1 seconds on a pod that has begun to end."""
    reply = lone(at, "graceful", nodeName=FREE[0], terminationGracePeriodSeconds=2**63 - 1)
    at.admin.patch("pods", "graceful", {"metadata": {"labels": {PINNED: "yes"}}}).ok(200)
    at.send("DELETE", at.home.path("pods", "graceful"))
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """Spread constraints with the largest numbers."""
    spread = [
        {
            "maxSkew": 2**31 - 1,
            "minDomains": 2**31 - 1,
            "topologyKey": f"example.com/k{each}",
            "whenUnsatisfiable": "DoNotSchedule",
        }
        for each in range(100)
    ]
    return lone(at, "spread", topologySpreadConstraints=spread)


@table.harmless()
def _(at: Attempt) -> Reply:
    """Three hundred sidecars that ask for everything one after the other."""
    asks = {"resources": {"requests": {"cpu": "9e15", "memory": "9e18"}}}
    sidecars = [{"name": f"s{each}", "image": "i", "restartPolicy": "Always", **asks} for each in range(300)]
    reply = lone(at, "sidecars", initContainers=sidecars)
    waits(at, "sidecars")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A request of 5,000 digits for the pod as a whole."""
    reply = lone(at, "whole", resources={"requests": {"memory": LONG}, "limits": {"memory": LONG}})
    waits(at, "whole")
    return reply


@table.harmless("/gangs/attacker/product")
def _(at: Attempt) -> Reply:
    """Groups of 2^31-1 members of 2^63-1 GPUs each, in a thousand parts."""
    parts = [{"name": f"s{each}", "minMember": 2**31 - 1} for each in range(1000)]
    at.create(GROUPS, podgroup("product", 2**31 - 1, subGroups=parts)).ok(201)
    pods = [pod(f"product-{each}", "product", 2**63 - 1, subgroup=f"s{each}") for each in range(20)]
    return make(at.home, pods)[-1]


@table.harmless()
def _(at: Attempt) -> Reply:
    """An index among siblings of 5,000 digits, and in other digits."""
    at.create(GROUPS, podgroup("indexed", 2)).ok(201)
    pods = [pod(f"indexed-{each}", "indexed", 1) for each in range(2)]
    for made, index in zip(pods, (LONG, "\u0663"), strict=True):
        made["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = index
    return make(at.home, pods)[-1]


@table.harmless()
def _(at: Attempt) -> Reply:
    """An owner whose name has 253 characters."""
    made = grouped(pod("child", "", 1))
    return at.create("pods", owned(made, "ReplicaSet", "apps/v1", "a" * 253, "0" * 36))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Owners of kinds that are none, with paths in their versions."""
    versions = ("a/b", "../../v1", "apps/v1/namespaces/victims", "batch/v999")
    pods = [
        owned(grouped(pod(f"child-{each}", "", 1)), "Job/../Secret", version, "serving-0", "0" * 36)
        for each, version in enumerate(versions)
    ]
    return [at.create("pods", each) for each in pods][-1]


@table.harmless("/gangs/attacker/stuffed")
def _(at: Attempt) -> Reply:
    """A group with so many annotations that no plan can be recorded beside them."""
    at.create(GROUPS, podgroup("stuffed", annotations={"example.com/a": "a" * 261_900})).ok(201)
    reply = at.create("pods", pod("stuffed-0", "stuffed", 1))
    waits(at, "stuffed-0")
    return reply


@table.harmless("/gangs/attacker/swollen")
def _(at: Attempt) -> Reply:
    """A pod with so many annotations that none can be added when it is bound, beside one without."""
    at.create(GROUPS, podgroup("swollen", 2)).ok(201)
    pods = [pod(f"swollen-{each}", "swollen", 1) for each in range(2)]
    pods[1]["metadata"]["annotations"]["example.com/a"] = "a" * 261_950
    reply = make(at.home, pods)[-1]

    def all_or_nothing() -> bool:
        found = [at.admin.get("pods", f"swollen-{each}").ok(200) for each in range(2)]
        told = any(one["type"] == "PodScheduled" for one in found[1]["status"].get("conditions") or ())
        return len({bool(each["spec"].get("nodeName")) for each in found}) == 1 and told

    eventually(all_or_nothing, "both are bound, or neither", 60)
    return reply


@table.refused(422, "terminationDelay")
def _(at: Attempt) -> Reply:
    """A delay of 5,000 digits."""
    made = podcliqueset("slow", [clique("a")])
    made["spec"]["template"]["terminationDelay"] = f"{LONG}h"
    return at.create(SETS, made)


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """A plan by a JSON patch."""
    at.create(GROUPS, podgroup("patched", annotations={"example.com/a": "b"})).ok(201)
    patch = [{"op": "add", "path": "/metadata/annotations/spinney.dev~1plan", "value": "{}"}]
    return at.patch(GROUPS, "patched", patch, kind="json")


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """A rank by a strategic merge patch."""
    at.create("pods", pod("patched", "none", 0)).ok(201)
    return at.patch("pods", "patched", {"metadata": {"annotations": {"spinney.dev/rank": "0"}}}, kind="strategic")


@table.refused(403, REFUSED)
def _(at: Attempt) -> Reply:
    """A plan moved from another key by a JSON patch."""
    at.create(GROUPS, podgroup("moved", annotations={"example.com/a": "{}"})).ok(201)
    key = "/metadata/annotations/example.com~1a"
    patch = [{"op": "move", "from": key, "path": "/metadata/annotations/spinney.dev~1plan"}]
    return at.patch(GROUPS, "moved", patch, kind="json")


@table.harmless()
def _(at: Attempt) -> Reply:
    """All own groups at once deleted while they are placed."""
    for number in range(5):
        at.create(GROUPS, podgroup(f"gone-{number}", 2)).ok(201)
    make(at.home, [pod(f"gone-{number}-{each}", f"gone-{number}", 1) for number in range(5) for each in range(2)])
    for number in range(5):
        at.send("DELETE", at.home.path(GROUPS, f"gone-{number}"))
    return at.create(GROUPS, podgroup("gone-0", 2))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A hundred resources whose names are as long as names may be."""
    name = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 50}/{'e' * 60}"
    made = pod("named", "named", 0)
    at.create(GROUPS, podgroup("named")).ok(201)
    amounts = {f"{name}-{each:02}": "1" for each in range(100)}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return at.create("pods", made)


@pytest.mark.parametrize("row", table.parameters())
def test_fields_of_any_value_harm_nobody_else(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
