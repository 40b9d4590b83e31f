"""Numbers that kube-apiserver accepts and no machine has: requests, counts, ports, names of resources."""

from __future__ import annotations

from typing import Any

import pytest

from attack.harm import PINNED, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import FREE, FULL, GROUPS, SETS, Attempt, make
from cluster_kit.server import Reply, eventually
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()
LONG = "9" * 5000


def asking(name: str, amounts: Json, group: str = "", **spec: Any) -> Json:
    """A pod that asks for these amounts. With a node it is labelled: nobody schedules it."""
    made = pod(name, group or name, 0, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    if "nodeName" in spec:
        made["metadata"]["labels"] = {PINNED: "yes"}
    return made


def waits(at: Attempt, name: str) -> Json:
    """The pod is told why it waits."""

    def told() -> Json:
        found: Json = at.admin.get("pods", name).ok(200)
        assert not found["spec"].get("nodeName"), f"{name} is bound"
        conditions = {each["type"]: each for each in found["status"].get("conditions") or ()}
        assert conditions["PodScheduled"]["status"] == "False"
        return found

    return eventually(told, f"{name} is told why it waits", 20)


@table.harmless(f"/nodes/{FREE[0]}")
def _(at: Attempt) -> Reply:
    """A memory request of 5,000 digits on a pod that names its node."""
    return at.create("pods", asking("pinned", {"memory": LONG}, nodeName=FREE[0]))


@table.harmless("/gangs/attacker/huge")
def _(at: Attempt) -> Reply:
    """A memory request of 5,000 digits on a pod for the scheduler."""
    at.create(GROUPS, podgroup("huge")).ok(201)
    reply = at.create("pods", asking("huge", {"memory": LONG}))
    waits(at, "huge")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A memory request of 5,000 digits after the point."""
    at.create(GROUPS, podgroup("tiny")).ok(201)
    return at.create("pods", asking("tiny", {"memory": f"1.{LONG}"}))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A memory request of 1e400."""
    at.create(GROUPS, podgroup("steep")).ok(201)
    return at.create("pods", asking("steep", {"memory": "1e400"}))


@table.refused(422, "must be greater than or equal to 0")
def _(at: Attempt) -> Reply:
    """A negative memory request."""
    return at.create("pods", asking("debt", {"memory": "-64Gi"}))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Forty pods of 2^63-1 GPUs and as much memory each, whose sum is beyond 64 bits."""
    at.create(GROUPS, podgroup("sum", 40)).ok(201)
    replies = make(
        at.home, [asking(f"sum-{number}", {GPU: str(2**63 - 1), "memory": "9e18"}, "sum") for number in range(40)]
    )
    waits(at, "sum-0")
    return replies[-1]


@table.harmless(f"/nodes/{FREE[0]}")
def _(at: Attempt) -> Reply:
    """Pods of 2^63-1 GPUs that name a node with room."""
    pods = [asking(f"most-{number}", {GPU: str(2**63 - 1)}, nodeName=FREE[0]) for number in range(3)]
    return make(at.home, pods)[-1]


@table.harmless(f"/nodes/{FULL[0]}")
def _(at: Attempt) -> Reply:
    """Pods that name a node which is full."""
    return make(at.home, [asking(f"squat-{number}", {GPU: "8"}, nodeName=FULL[0]) for number in range(4)])[-1]


@table.harmless()
def _(at: Attempt) -> Reply:
    """Twenty pods with 200 resources each that no node has and no other pod asks for."""
    at.create(GROUPS, podgroup("kinds", 20)).ok(201)

    def amounts(number: int) -> Json:
        return {f"example.com/r{number}-{kind}": "1" for kind in range(200)}

    replies = make(at.home, [asking(f"kinds-{number}", amounts(number), "kinds") for number in range(20)])
    waits(at, "kinds-0")
    return replies[-1]


@table.harmless("/gangs/attacker/many")
def _(at: Attempt) -> Reply:
    """A PodGroup of 2^31-1 members."""
    at.create(GROUPS, podgroup("many", 2**31 - 1)).ok(201)
    return at.create("pods", pod("many-0", "many", 1))


@table.refused(422, "minMember")
def _(at: Attempt) -> Reply:
    """A PodGroup of 2^31 members."""
    return at.create(GROUPS, podgroup("more", 2**31))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod with 1,000 host ports."""
    at.create(GROUPS, podgroup("ports")).ok(201)
    made = pod("ports", "ports", 0)
    ports = [{"containerPort": port, "hostPort": port} for port in range(10_000, 11_000)]
    made["spec"]["containers"][0]["ports"] = ports
    return at.create("pods", made)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A pod with 500 containers."""
    at.create(GROUPS, podgroup("crowd")).ok(201)
    made = pod("crowd", "crowd", 0)
    made["spec"]["containers"] = [{"name": f"c{number}", "image": "i"} for number in range(500)]
    return at.create("pods", made)


@table.refused(422, "replicas")
def _(at: Attempt) -> Reply:
    """A PodCliqueSet of 10^9 replicas."""
    return at.create(SETS, {**podcliqueset("legion", [clique("a")], replicas=10**9)})


@table.refused(422, "replicas")
def _(at: Attempt) -> Reply:
    """A PodCliqueSet whose clique has 2^31-1 replicas."""
    return at.create(SETS, podcliqueset("mob", [clique("a", replicas=2**31 - 1)]))


@pytest.mark.parametrize("row", table.parameters())
def test_amounts_are_bounded(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
