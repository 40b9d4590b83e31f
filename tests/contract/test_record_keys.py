"""The key of records, on both servers with RBAC: made by the first leader, found by the next, lost unharmed."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_kit.loops import running
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.role_stages import DEADLINE_S, ELECTION, NODES, attended, configured
from kube_apimachinery.system_clock import SystemClock
from spinney.api.meta import ObjectMeta
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_LEASE, SCHEDULER_RECORDS
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.cli.wiring.roles.scheduler import SchedulerRole
from spinney.core.scheduling.plan import Assignment, Plan, encode
from spinney.core.scheduling.plan_records import Mark, Term, sign
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.sim.stack import Parts
from stack_kit.bare import kubeconfig_of_role
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
SECRET: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SCHEDULER_RECORDS}}


@asynccontextmanager
async def at_work(server: Server, scheduler: Path) -> AsyncIterator[None]:
    connection = find_connection(SystemClock(), kubeconfig=scheduler)
    role = SchedulerRole(RoleConfig(configured(**ELECTION), connection), connect(connection), connect(connection))
    async with attended(server, Parts(NODES, controllers=()), role.run()):
        yield


def key_of(server: Server) -> bytes:
    """The key, once it is there."""

    def found() -> bytes:
        data = Space(server, NAMESPACE).get("secrets", SCHEDULER_RECORDS).ok(200).get("data") or {}
        return b64decode(data["key"])

    return eventually(found, "there is a key", DEADLINE_S)


def submit(server: Server, name: str) -> Json:
    """A gang of one pod; the pod."""
    space = Space(server, "default")
    space.create(GROUPS, podgroup(name, 1)).ok(201)
    made = pod(f"{name}-0", name)
    made["spec"]["containers"][0].pop("resources", None)
    return space.create("pods", made).ok(201)


def leave_plan(server: Server, key: bytes, name: str, node: str) -> None:
    """A gang with a plan that the last leader has recorded and not begun with."""
    uid = submit(server, name)["metadata"]["uid"]
    lease = Space(server, NAMESPACE).get("coordination.k8s.io/v1/leases", SCHEDULER_LEASE).ok(200)
    term = Term(lease["metadata"]["uid"], lease["spec"]["leaseTransitions"])
    group = Space(server, "default").get(GROUPS, name).ok(200)["metadata"]
    plan = encode(Plan(term.epoch, "bind", (Assignment(uid, node),)))
    signed = sign(key, msgspec.convert(group, ObjectMeta), Mark(term, 1), plan)
    Space(server, "default").patch(GROUPS, name, {"metadata": {"annotations": signed}}).ok(200)


def node_of(server: Server, name: str) -> str:
    def bound() -> str:
        found: str = Space(server, "default").get("pods", f"{name}-0").ok(200)["spec"]["nodeName"]
        return found

    return eventually(bound, f"{name} is bound", DEADLINE_S)


def rejected(server: Server) -> list[str]:
    events = Space(server, "default").list("events")["items"]
    return [each["involvedObject"]["name"] for each in events if each["reason"] == "RecordRejected"]


def test_inv2_the_next_leader_finds_the_key_and_takes_the_plan_over(role_server: Server, tmp_path: Path) -> None:
    scheduler = kubeconfig_of_role(role_server, "scheduler", tmp_path)
    with running(at_work(role_server, scheduler)):
        key = key_of(role_server)
        submit(role_server, "first")
        usual = node_of(role_server, "first")
    assert len(key) == 32
    nodes = [each["metadata"]["name"] for each in Space(role_server, "").list("nodes")["items"]]
    other = sorted(set(nodes) - {usual})[-1]
    leave_plan(role_server, key, "planned", other)
    with running(at_work(role_server, scheduler)):
        assert node_of(role_server, "planned") == other
    assert key_of(role_server) == key
    assert rejected(role_server) == []


@pytest.mark.parametrize("damage", [None, b64encode(b"short").decode()], ids=["emptied", "too short"])
def test_a_key_that_was_lost_costs_the_plans_signed_with_it_and_no_more(
    role_server: Server, tmp_path: Path, damage: str | None
) -> None:
    scheduler = kubeconfig_of_role(role_server, "scheduler", tmp_path)
    with running(at_work(role_server, scheduler)):
        submit(role_server, "before")
        node_of(role_server, "before")
        key = key_of(role_server)
    Space(role_server, NAMESPACE).patch("secrets", SCHEDULER_RECORDS, {"data": {"key": damage}}).ok(200)
    node = Space(role_server, "").list("nodes")["items"][-1]["metadata"]["name"]
    leave_plan(role_server, key, "planned", node)
    with running(at_work(role_server, scheduler)):
        node_of(role_server, "planned")
        eventually(lambda: "planned" in rejected(role_server), "it is told", DEADLINE_S)
    assert len(key_of(role_server)) == 32
    assert key_of(role_server) != key


def test_a_secret_that_is_deleted_does_not_stop_a_leader_and_is_filled_when_it_is_installed_again(
    role_server: Server, tmp_path: Path
) -> None:
    scheduler, own = kubeconfig_of_role(role_server, "scheduler", tmp_path), Space(role_server, NAMESPACE)
    with running(at_work(role_server, scheduler)):
        submit(role_server, "before")
        node_of(role_server, "before")
        key = key_of(role_server)
        own.delete("secrets", SCHEDULER_RECORDS).ok(200)
        submit(role_server, "meanwhile")
        node_of(role_server, "meanwhile")
    own.create("secrets", SECRET).ok(201)
    with running(at_work(role_server, scheduler)):
        submit(role_server, "afterwards")
        node_of(role_server, "afterwards")
        assert key_of(role_server) != key
