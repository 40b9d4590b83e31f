"""Owners of another namespace, claimed by uid: whose pods these are is never asked of whoever claims it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from attack.harm import Before, check_unharmed
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import (
    CLIQUE,
    CLIQUES,
    DECODING,
    GROUPS,
    MANAGED,
    SETS,
    TRAINING,
    VICTIMS,
    Attempt,
    create_job,
    fresh_name,
    grouped,
    make,
    owned,
    pod_of_job,
)
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
Claim = Callable[[str], Json]
"""A pod of that name which claims an owner."""
pytestmark = MARKS
table = Table()
_SIZE = 4
_MEMORY_S = 1.3
"""Longer than the pod-grouper remembers what it has read of an owner."""
_PAUSE_S = 0.05


@contextmanager
def claiming(at: Attempt, claim: Claim) -> Iterator[None]:
    """One pod after the other claims it, meanwhile and for a while before."""
    ended, sent, refused = threading.Event(), threading.Semaphore(0), []

    def send() -> None:
        while not ended.wait(_PAUSE_S):
            reply = at.create("pods", claim(fresh_name("claimant")))
            refused.extend([reply.message] if reply.status != 201 else [])
            sent.release()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        for _ in range(10):
            assert sent.acquire(timeout=20)
        yield
    finally:
        ended.set()
        thread.join(30)
    assert not refused, refused[:3]


def uid_of(at: Attempt, collection: str, name: str) -> str:
    """Of an object of the victims; an attacker may know it from a log."""
    return str(Space(at.home.server, VICTIMS).get(collection, name).ok(200)["metadata"]["uid"])


# Jobs. The victims start another one while the attacker is at it, and its pods come one after the other.


@dataclass
class Growing:
    """A Job of the victims, and its pods as they are made."""

    space: Space
    name: str
    uid: str
    pods: list[str] = field(default_factory=list)

    @property
    def group(self) -> str:
        """The PodGroup that the pod-grouper makes for it."""
        return f"pg-{self.name}-{self.uid}"

    def grow(self) -> None:
        made = pod_of_job(f"{self.name}-{len(self.pods)}", self.name, self.uid, 1)
        self.space.create("pods", made).ok(201)
        self.pods.append(made["metadata"]["name"])

    def look(self) -> list[Json]:
        return [self.space.get("pods", each).ok(200) for each in self.pods]

    def all_grouped(self) -> bool:
        """Nothing but the whole gang's PodGroup will do."""
        groups = [each["metadata"].get("annotations", {}).get("pod-group-name") for each in self.look()]
        assert set(groups) <= {None, self.group}, f"pods of {self.name} were put into {groups}"
        return None not in groups

    def nodes(self) -> list[str]:
        return [each["spec"]["nodeName"] for each in self.look() if each["spec"].get("nodeName")]


@contextmanager
def growing(at: Attempt) -> Iterator[Growing]:
    """What it leaves goes, whichever groups its pods were put into."""
    space, name = Space(at.home.server, VICTIMS), fresh_name("later")
    found = Growing(space, name, create_job(space, name, _SIZE))
    try:
        yield found
    finally:
        space.delete("jobs", name, propagationPolicy="Background").ok(200)
        for each in found.pods:
            space.delete("pods", each, gracePeriodSeconds=0)

        def is_gone() -> bool:
            groups = [each for each in space.names(GROUPS) if each.startswith(f"pg-{name}-")]
            for each in groups:
                space.delete(GROUPS, each)
            return not groups

        eventually(is_gone, f"the PodGroups of {name} are gone", 30)


def grows_undisturbed(at: Attempt, found: Growing, claim: Claim) -> Reply:
    """No pod is placed before the last is there, whatever others claim; then all are, as one gang."""
    with claiming(at, claim):
        for number in range(_SIZE):
            assert found.nodes() == [], f"{found.name} was placed with {number} of {_SIZE} pods"
            found.grow()
            eventually(found.all_grouped, f"the pods of {found.name} are grouped", 20)
            time.sleep(_MEMORY_S)
        eventually(lambda: len(found.nodes()) == _SIZE, f"{found.name} is bound", 30)
    group = found.space.get(GROUPS, found.group).ok(200)
    assert group["spec"]["minMember"] == _SIZE
    assert [each["uid"] for each in group["metadata"]["ownerReferences"]] == [found.uid]
    return at.create("pods", claim(fresh_name("claimant")))


def claim_of_job(found: Growing, kind: str, version: str, **annotations: str) -> Claim:
    """It asks for no GPU: the victims' gang must find room in any case."""
    return lambda name: owned(grouped(pod(name, "", 0), **annotations), kind, version, found.name, found.uid)


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's Job under a kind that nobody serves, while it grows."""
    with growing(at) as found:
        return grows_undisturbed(at, found, claim_of_job(found, "Nosuch", "nosuch/v1"))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's Job under a version that nobody serves, while it grows."""
    with growing(at) as found:
        return grows_undisturbed(at, found, claim_of_job(found, "Job", "batch/v9"))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's Job by its kind, name and uid, while it grows."""
    with growing(at) as found:
        reply = grows_undisturbed(at, found, claim_of_job(found, "Job", "batch/v1"))
        assert_in_no_group_of(at, found.group)
        return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's Job and its PodGroup, while it grows."""
    with growing(at) as found:
        claim = claim_of_job(found, "Job", "batch/v1", **{"pod-group-name": found.group})
        return grows_undisturbed(at, found, claim)


@table.harmless()
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's Job that runs, with a PodGroup of its own by the name of that Job's."""
    uid = uid_of(at, "jobs", TRAINING)
    group = f"pg-{TRAINING}-{uid}"
    top = f"name: {TRAINING}\nuid: {uid}\ngroup: batch\nversion: v1\nkind: Job\n"
    made = podgroup(group, 8, annotations={"kai.scheduler/top-owner-metadata": top})
    at.create(GROUPS, owned(made, "Nosuch", "nosuch/v1", TRAINING, uid)).ok(201)
    pods = [pod_of_job(f"posing-{number}", TRAINING, uid, 1) for number in range(8)]
    return make(at.home, pods)[-1]


def test_who_claims_another_tenants_job_learns_nothing_of_it(attempt: Attempt, before: Before) -> None:
    """A PodGroup inherits from its owner: one by the name of the Job's would show its annotations."""
    version = attempt.home.list(GROUPS)["metadata"]["resourceVersion"]
    with growing(attempt) as found:
        with claiming(attempt, claim_of_job(found, "Job", "batch/v1")):
            for _ in range(_SIZE):
                found.grow()
                time.sleep(_MEMORY_S / 2)
        with attempt.home.watch(GROUPS, resourceVersion=version, timeoutSeconds=1) as watch:
            seen = [each["object"] for each in watch.rest()]
        assert [each["metadata"]["name"] for each in seen if found.uid in str(each)] == []
        assert_in_no_group_of(attempt, found.group)
    check_unharmed(attempt.found, before)


def assert_in_no_group_of(at: Attempt, group: str) -> None:
    assert group not in at.admin.names(GROUPS)
    named = [each["metadata"].get("annotations", {}).get("pod-group-name") for each in at.admin.list("pods")["items"]]
    assert group not in named


# Sets. The operator replaces and removes pods of a PodClique until their number is right.


def _let_count(victims: Space, turn: int) -> None:
    """The operator has a reason to count the pods of the victims' PodClique: something is said of each."""
    said = {"status": {"conditions": [{"type": "example.com/turn", "status": "True", "message": str(turn)}]}}
    for name in victims.names("pods", labelSelector=f"grove.io/podclique={CLIQUE}"):
        victims.patch("pods", name, said, "strategic", sub="status").ok(200)


def _claims_clique(at: Attempt, kind: str, version: str, **labels: str) -> Reply:
    """The garbage collector ends such pods, and others follow them."""
    uid = uid_of(at, CLIQUES, CLIQUE)

    def claim(name: str) -> Json:
        made = owned(grouped(pod(name, "", 0)), kind, version, CLIQUE, uid)
        made["metadata"]["labels"] = MANAGED | labels
        return made

    victims = Space(at.home.server, VICTIMS)
    with claiming(at, claim):
        for turn in range(6):
            _let_count(victims, turn)
            time.sleep(0.5)
    return at.create("pods", claim(fresh_name("claimant")))


@table.harmless(f"/gangs/{VICTIMS}/{DECODING}-0")
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's PodClique by its kind, name and uid, with all of its labels."""
    return _claims_clique(at, "PodClique", "grove.io/v1alpha1")


@table.harmless(f"/gangs/{VICTIMS}/{DECODING}-0")
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's PodClique under a kind that nobody serves, with an older template's hash."""
    return _claims_clique(at, "Nosuch", "nosuch/v1", **{"grove.io/pod-template-hash": "0"})


@table.harmless(f"/gangs/{VICTIMS}/{DECODING}-0")
def _(at: Attempt) -> Reply:
    """Pods that claim another tenant's PodCliqueSet, with all of its labels."""
    uid = uid_of(at, SETS, DECODING)
    pods = [
        owned(grouped(pod(f"of-set-{each}", "", 0)), "PodCliqueSet", "grove.io/v1alpha1", DECODING, uid)
        for each in range(8)
    ]
    for each in pods:
        each["metadata"]["labels"] = dict(MANAGED)
    return make(at.home, pods)[-1]


@pytest.mark.parametrize("row", table.parameters())
def test_claims_of_owners_change_no_gang_of_another_tenant(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
