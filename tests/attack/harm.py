"""What must hold after every attack: other tenants unharmed, rules kept, every role alive, pages whole."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from attack.installation import Installation
from attack.tenants import (
    BOUND_WITHIN_S,
    BYSTANDER,
    CLIQUES,
    GANGS,
    GROUPS,
    SETS,
    TAINTED,
    VICTIMS,
    fresh_name,
    without_namespace,
)
from cluster_kit.server import eventually
from cluster_kit.space import Space
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]
SCRIPT = "<script>alert(1)</script>"
PAGES = ("/", "/gangs")
_GPUS = 8
_OWNERS = (SETS, CLIQUES, GANGS, "jobs", GROUPS)


@dataclass(frozen=True)
class Before:
    """How the cluster was before anybody attacked it."""

    pods: dict[str, Json]
    """Of the victims, by name: what they are and where, whose they are, and in which gang."""
    owners: dict[str, Json]
    """Of the victims, by collection and name: the objects above the pods, with what is said of them."""
    pids: dict[str, int]
    lease: tuple[str, int]


def look(found: Installation) -> Before:
    victims = Space(found.server, VICTIMS)
    return Before(_standing(victims), _owners(victims), found.pids(), found.lease())


def _standing(space: Space) -> dict[str, Json]:
    """Pods that nobody is ending, by name."""
    pods = [each for each in space.list("pods")["items"] if "deletionTimestamp" not in each["metadata"]]
    kept = ("uid", "ownerReferences", "labels", "annotations")
    return {
        each["metadata"]["name"]: _part(each["metadata"], kept) | {"node": each["spec"].get("nodeName", "")}
        for each in pods
    }


def _owners(space: Space) -> dict[str, Json]:
    """Records of our roles on them may come and go; what users read of them may not change."""
    kept = ("uid", "generation", "deletionTimestamp", "ownerReferences", "labels")
    return {
        f"{collection}/{each['metadata']['name']}": _part(each["metadata"], kept) | _part(each, ("spec", "status"))
        for collection in _OWNERS
        for each in space.list(collection)["items"]
    }


def _part(found: Json, keys: tuple[str, ...]) -> Json:
    return {key: found[key] for key in keys if key in found}


def check_unharmed(found: Installation, before: Before, pages: tuple[str, ...] = PAGES) -> None:
    """A newcomer is served first: whatever the attack sets off has had its time when the rest is looked at."""
    found.bind_s.append(serve_newcomer(found))
    victims = Space(found.server, VICTIMS)
    harmed = _changed(before.pods, _standing(victims)) | _changed(before.owners, _owners(victims))
    assert not harmed, f"what is another tenant's was ended, moved or changed: {harmed}"
    assert unlawful_binds(found) == []
    check_roles(found, before)
    for page in pages:
        check_page(found, page)


def _changed(before: dict[str, Json], now: dict[str, Json]) -> dict[str, str]:
    """What was and what is, by name and field, where they differ."""
    names = before.keys() | now.keys()
    fields = {(name, key) for name in names for key in before.get(name, {}).keys() | now.get(name, {}).keys()}
    pairs = {(name, key): (before.get(name, {}).get(key), now.get(name, {}).get(key)) for name, key in fields}
    return {f"{name}.{key}": f"{old} became {new}" for (name, key), (old, new) in sorted(pairs.items()) if old != new}


def check_roles(found: Installation, before: Before) -> None:
    troubles = found.troubles()
    assert not troubles, troubles
    assert found.pids() == before.pids, "a role was restarted"
    assert found.lease() == before.lease, "the leader was brought down"


def check_page(found: Installation, page: str) -> None:
    status, text = found.page(page)
    assert status == 200, (page, status, text[:500])
    assert SCRIPT not in text, f"{page} is scripted"


def serve_newcomer(found: Installation) -> float:
    """A gang of another tenant is submitted now; how long it took to be bound, in seconds."""
    space, name = Space(found.server, BYSTANDER), fresh_name("newcomer")
    began = time.monotonic()
    space.create(GROUPS, without_namespace(podgroup(name, 2))).ok(201)
    for number in range(2):
        space.create("pods", without_namespace(pod(f"{name}-{number}", name, 1))).ok(201)

    def bound() -> bool:
        return all(space.get("pods", f"{name}-{number}").ok(200)["spec"].get("nodeName") for number in range(2))

    eventually(bound, "a gang of another tenant is bound", BOUND_WITHIN_S)
    taken = time.monotonic() - began
    for number in range(2):
        space.delete("pods", f"{name}-{number}", gracePeriodSeconds=0)
    space.delete(GROUPS, name)
    return taken


def unlawful_binds(found: Installation) -> list[str]:
    """Pods of our scheduler where a selector, a taint or the capacity of the node forbids them.

    Who names a node itself is bound by nobody; what such pods hold is counted, but is not the scheduler's doing.
    """
    nodes = {each["metadata"]["name"]: each for each in found.cluster.list("nodes")["items"]}
    wrong: list[str] = []
    held: Counter[str] = Counter()
    for each in found.cluster.list("pods")["items"]:
        spec, name = each["spec"], f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        if not spec.get("nodeName") or (each["metadata"].get("labels") or {}).get(PINNED):
            continue
        labels = nodes[spec["nodeName"]]["metadata"]["labels"]
        held[spec["nodeName"]] += _gpus(spec)
        if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
            wrong.append(f"{name} on {spec['nodeName']} against its selector")
        if spec["nodeName"] == TAINTED and not any(
            each.get("key") == "example.com/closed" or not each.get("key")
            for each in spec.get("tolerations") or ()
            if each.get("effect") in (None, "", "NoSchedule")
        ):
            wrong.append(f"{name} on {TAINTED} against its taint")
    wrong += [f"{node} holds {amount} of {_GPUS} GPUs" for node, amount in held.items() if amount > _GPUS]
    return wrong


PINNED = "example.com/pinned"
"""The label of pods whose creator has named their node."""


def _gpus(spec: Json) -> int:
    requests = [each.get("resources", {}).get("requests", {}).get(GPU, "0") for each in spec["containers"]]
    return sum(int(each) for each in requests if each.isdigit())
