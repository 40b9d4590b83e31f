"""A tenant whose administrator has granted too much: status, PodGangs, PodCliques. What is left is still harmless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from attack.forging import own_gang
from attack.harm import SCRIPT, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import CLIQUES, GANGS, GROUPS, VICTIMS, Attempt, rights, too_many_rights
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space
from unit.scheduler.scheduler_world import pod, podgroup

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


@pytest.mark.parametrize("row", table.parameters())
def test_what_should_not_have_been_granted_is_refused_or_harmless(row: Row, granted: Attempt, before: Before) -> None:
    carry_out(row, granted, before)
