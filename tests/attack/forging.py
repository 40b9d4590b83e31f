"""Plans as a tenant would forge them, and real ones caught while they were there."""

from __future__ import annotations

import threading
from typing import Any

from attack.tenants import GROUPS, VICTIMS, Attempt, make
from cluster_kit.server import eventually
from cluster_kit.space import Space
from spinney.core.scheduling.plan import Assignment, Move, Plan, encode
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
PLAN, EPOCH, SIGNATURE = "spinney.dev/plan", "spinney.dev/epoch", "spinney.dev/plan-signature"
RECORD = (PLAN, EPOCH, SIGNATURE)


def waiting_gang(at: Attempt, name: str, count: int = 1, gpus: int = 1, **spec: Any) -> list[str]:
    """A gang of the attacker's that waits for a pod of its own; the uids of those that are there."""
    at.create(GROUPS, podgroup(name, count + 1)).ok(201)
    replies = make(at.home, [pod(f"{name}-{number}", name, gpus, **spec) for number in range(count)])
    return [reply.body["metadata"]["uid"] for reply in replies]


def own_gang(at: Attempt, name: str, count: int = 1) -> Json:
    """A gang of the attacker's that was placed; its PodGroup."""
    at.create(GROUPS, podgroup(name, count)).ok(201)
    make(at.home, [pod(f"{name}-{number}", name, 1) for number in range(count)])

    def placed() -> Json:
        found: Json = at.admin.get(GROUPS, name).ok(200)
        bound = [at.admin.get("pods", f"{name}-{number}").ok(200)["spec"].get("nodeName") for number in range(count)]
        assert all(bound)
        assert PLAN not in found["metadata"]["annotations"]
        return found

    return eventually(placed, f"{name} is placed", 30)


def victim_uids(at: Attempt) -> list[str]:
    """Of every pod of the other tenant."""
    return [each["metadata"]["uid"] for each in Space(at.home.server, VICTIMS).list("pods")["items"]]


def to_bind(uids: list[str], node: str, epoch: int = 1) -> str:
    return encode(Plan(epoch, "bind", tuple(Assignment(uid, node, rank) for rank, uid in enumerate(uids))))


def to_wait(uids: list[str], node: str, victims: list[str], moved: list[str], target: str, epoch: int = 1) -> str:
    assignments = tuple(Assignment(uid, node, rank) for rank, uid in enumerate(uids))
    shifts = tuple(Move(uid, target) for uid in moved)
    return encode(Plan(epoch, "wait", assignments, victims=tuple(victims), moves=shifts))


def record(plan: str, epoch: str = "1") -> Json:
    """As one would write it who has no key."""
    return {PLAN: plan, EPOCH: epoch, SIGNATURE: f"v1 - 1 {'0' * 64}"}


class Caught:
    """The records of own gangs, seen by a tenant who watches its PodGroups."""

    def __init__(self, at: Attempt) -> None:
        self.records: dict[str, Json] = {}
        version = at.home.list(GROUPS)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, args=(at, version), daemon=True)
        self._thread.start()

    def _follow(self, at: Attempt, version: str) -> None:
        """Until the watch ends, or nobody waits for a record any more."""
        with at.home.watch(GROUPS, resourceVersion=version, timeoutSeconds=60) as watch:
            while not self.records:
                metadata = watch.next()["object"]["metadata"]
                annotations = metadata.get("annotations") or {}
                if PLAN in annotations:
                    self.records[metadata["name"]] = {key: annotations[key] for key in RECORD if key in annotations}

    def record_of(self, name: str) -> Json:
        found: Json = eventually(lambda: self.records.get(name), f"the record of {name} was seen", 30)
        return found
