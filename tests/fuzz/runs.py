"""Runs of the fuzz: objects of one kind by the hundred, beside a small cluster in which they mean something.

Each object is added or becomes of a valid one, is changed into another one, and is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fuzz.objects import BASES, BATCH, Json, Source, as_version_of, valid
from fuzz.roles import Roles

SLOWEST_S = 1.0
"""Of processor time, which a busy machine doubles: no single object, of up to a megabyte, may take longer to decode and
fold, or to review in place of another. Usual are some milliseconds; what grew with the square of a size took minutes.
"""
_NAMES = {"nodes": "n", "topologies": "tree", "queues": "default-queue", "podgroups": "g", "clustertopologies": "grove"}
_NAMESPACED = ("podgroups", "podcliquesets", "podgangs")


def furnish(roles: Roles, plural: str = "") -> None:
    """A node, a topology, a queue and a gang that hostile objects may meet; pods for PodGroups."""
    furniture = ("nodes", "topologies", "clustertopologies", "queues", "priorityclasses", *_NAMESPACED)
    for each in furniture:
        base = BASES[each]
        annotations: dict[str, str] = {}
        metadata = {**base["metadata"], "name": _NAMES.get(each, "set"), "annotations": annotations}
        if each in _NAMESPACED:
            metadata["namespace"] = "ns"
        roles.feed(each, {**base, "metadata": metadata})
    for number in range(BATCH if plural == "podgroups" else 0):
        roles.feed("pods", _waiting(number))


async def survive(
    roles: Roles, plural: str, objects: Iterable[Json], thought: int = 10, base: Json | None = None
) -> int:
    """Feed, think, change, think, forget, in batches; how many there were."""
    count = 0
    before = base or valid(plural)
    origin = before
    batch: list[Json] = []
    for found in objects:
        count += 1
        if count % 2:
            roles.feed(plural, as_version_of(origin, found))
        roles.feed(plural, found, "MODIFIED" if count % 2 else "ADDED")
        roles.review(plural, found, (origin, before))
        before = found
        batch.append(found)
        if len(batch) == BATCH:
            await _end(roles, plural, batch, thought)
    await _end(roles, plural, batch, thought)
    return count


async def _end(roles: Roles, plural: str, batch: list[Json], thought: int) -> None:
    await roles.think(thought)
    for found, other in zip(batch, [*batch[1:], *batch[:1]], strict=True):
        roles.feed(plural, as_version_of(other, found), "MODIFIED")
    await roles.think(thought)
    for found in batch:
        roles.feed(plural, found, "DELETED")
    await roles.think(0)
    batch.clear()


def generated(plural: str, seed: int, count: int) -> Iterable[Json]:
    return Source(plural, seed).objects(count)


def _waiting(number: int) -> Json:
    """A pod that waits in the PodGroup of that number."""
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    annotations = {"pod-group-name": f"podgroups-{number}"}
    metadata = {"name": f"w-{number}", "namespace": "ns", "annotations": annotations}
    metadata["labels"] = {"kai.scheduler/subgroup-name": "workers"}
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
