"""What a tenant's rights alone refuse: other namespaces, subresources, the scheduler's own objects."""

from __future__ import annotations

import pytest

from attack.harm import Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import FREE, GROUPS, QUEUES, VICTIMS, Attempt
from cluster_kit.objects import binding, eviction, lease
from cluster_kit.server import Reply
from cluster_kit.space import Space
from spinney.api.roles import NAMESPACE
from unit.scheduler.scheduler_world import pod, podgroup

pytestmark = MARKS
table = Table()
FORBIDDEN = "is forbidden: User"


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """A pod in another tenant's namespace."""
    return at.create("pods", pod("intruder", "serving-0", 1), VICTIMS)


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """A plan on another tenant's PodGroup."""
    path = Space(at.home.server, VICTIMS).path(GROUPS, "serving-0")
    body = {"metadata": {"annotations": {"spinney.dev/plan": "{}"}}}
    return at.send("PATCH", path, body, headers={"Content-Type": "application/merge-patch+json"})


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The deletion of another tenant's pod."""
    return at.send("DELETE", Space(at.home.server, VICTIMS).path("pods", "serving-0-0"))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The eviction of another tenant's pod."""
    path = Space(at.home.server, VICTIMS).path("pods", "serving-0-0", "eviction")
    return at.send("POST", path, eviction("serving-0-0"))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """A binding of an own pod, past the scheduler."""
    at.create("pods", pod("mine", "none", 1)).ok(201)
    return at.send("POST", at.home.path("pods", "mine", "binding"), binding("mine", FREE[0]))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The scheduler's Lease, taken over."""
    path = Space(at.home.server, NAMESPACE).path("leases", "spinney-scheduler")
    body = {"spec": {"holderIdentity": "mallory", "leaseTransitions": 2_000_000_000}}
    return at.send("PATCH", path, body, headers={"Content-Type": "application/merge-patch+json"})


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """A Lease of the scheduler's name in the own namespace."""
    return at.create("leases", lease("spinney-scheduler"))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The Secrets of the roles, listed."""
    return at.send("GET", Space(at.home.server, NAMESPACE).path("secrets"))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """A queue with more quota."""
    body = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "mine"}, "spec": {}}
    return at.send("POST", Space(at.home.server, "").path(QUEUES), body)


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The webhook's configuration, deleted."""
    return at.send("DELETE", Space(at.home.server, "").path("validatingwebhookconfigurations", "spinney"))


@table.refused(403, FORBIDDEN)
def _(at: Attempt) -> Reply:
    """The status of an own PodGroup."""
    at.create(GROUPS, podgroup("mine")).ok(201)
    return at.patch(GROUPS, "mine", {"status": {"phase": "Running"}}, sub="status")


@pytest.mark.parametrize("row", table.parameters())
def test_rights_refuse(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
