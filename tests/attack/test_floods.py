"""Very many objects and very many changes of one tenant: everybody else is served, memory is bounded."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attack.harm import Before, check_roles, check_unharmed, serve_newcomer
from attack.table import MARKS
from attack.tenants import GROUPS, Attempt, without_namespace
from unit.scheduler.scheduler_world import GPU, pod, podgroup

pytestmark = MARKS
MOST_GROWTH_MIB = 300.0


def flood(at: Attempt, groups: int, members: int) -> None:
    """Gangs that fit nowhere, all different from each other."""

    def make(number: int) -> None:
        name = f"flood-{number}"
        at.home.create(GROUPS, without_namespace(podgroup(name, members + 1))).ok(201)
        for each in range(members):
            amounts = {GPU: "9", "memory": f"{number}Mi"}
            made = pod(f"{name}-{each}", name, 0)
            made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
            at.home.create("pods", without_namespace(made)).ok(201)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(groups)))


def check_flood(at: Attempt, before: Before, groups: int, members: int) -> None:
    at_first = {role.name: role.resident_mib() for role in at.found.roles.values()}
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(flood, at, groups, members)
        waited = [serve_newcomer(at.found)]
        while not coming.done():
            waited.append(serve_newcomer(at.found))
            time.sleep(0.2)
        coming.result()
    check_unharmed(at.found, before)
    grown = {role.name: role.resident_mib() - at_first[role.name] for role in at.found.roles.values()}
    print(
        f"{groups} gangs of {members} pods: {len(waited)} gangs of others bound meanwhile, the slowest in "
        f"{max(waited):.2f} s; memory grew by up to {max(grown.values()):.0f} MiB"
    )
    assert max(grown.values()) < MOST_GROWTH_MIB, grown


def test_a_flood_of_gangs_holds_up_nobody_else(attempt: Attempt, before: Before) -> None:
    check_flood(attempt, before, 100, 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_flood_of_ten_thousand_pods_holds_up_nobody_else(attempt: Attempt, before: Before) -> None:
    check_flood(attempt, before, 2000, 5)


def test_churn_holds_up_nobody_else(attempt: Attempt, before: Before) -> None:
    def churn(worker: int) -> None:
        for number in range(15):
            name = f"churn-{worker}-{number}"
            attempt.home.create(GROUPS, without_namespace(podgroup(name))).ok(201)
            attempt.home.create("pods", without_namespace(pod(f"{name}-0", name, 1))).ok(201)
            attempt.home.delete("pods", f"{name}-0", gracePeriodSeconds=0).ok(200)
            attempt.home.delete(GROUPS, name).ok(200)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, range(4)))
    check_unharmed(attempt.found, before)


def test_a_storm_of_changes_holds_up_nobody_else(attempt: Attempt, before: Before) -> None:
    attempt.home.create(GROUPS, without_namespace(podgroup("storm", 3))).ok(201)
    attempt.home.create("pods", without_namespace(pod("storm-0", "storm", 1))).ok(201)

    def change(number: int) -> None:
        spec = {"minMember": 2 + number % 50, "priorityClassName": ("train", "build")[number % 2]}
        annotations = {"example.com/turn": str(number)}
        attempt.home.patch(GROUPS, "storm", {"spec": spec, "metadata": {"annotations": annotations}}).ok(200)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, range(200)))
    check_unharmed(attempt.found, before)
    check_roles(attempt.found, before)
