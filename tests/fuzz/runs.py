"""Runs of the fuzz: objects of one kind by the hundred, beside a small cluster in which they mean something."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.objects import BASES, Json, Source
from fuzz.roles import Roles

BATCH = 200
SLOWEST_S = 0.1
"""No single object may take longer to decode, fold and review."""


def furnish(roles: Roles) -> None:
    """A node, a topology, a queue and a gang that hostile objects may meet."""
    for plural in ("nodes", "topologies", "queues", "podgroups", "priorityclasses", "podcliquesets", "podgangs"):
        base = BASES[plural]
        name = {"nodes": "n", "topologies": "tree", "queues": "default-queue", "podgroups": "g"}.get(plural, "set")
        metadata = {**base["metadata"], "name": name, "annotations": {}}
        if plural in ("podgroups", "podcliquesets", "podgangs"):
            metadata["namespace"] = "ns"
        roles.feed(plural, {**base, "metadata": metadata})


async def survive(roles: Roles, plural: str, objects: Iterable[Json], thought: int = 10) -> int:
    """Feed, think, forget, in batches; how many there were."""
    count = 0
    batch: list[Json] = []
    for found in objects:
        count += 1
        roles.feed(plural, found)
        roles.review(plural, found)
        batch.append(found)
        if len(batch) == BATCH:
            await _end(roles, plural, batch, thought)
    await _end(roles, plural, batch, thought)
    return count


async def _end(roles: Roles, plural: str, batch: list[Json], thought: int) -> None:
    await roles.think(thought)
    for found in batch:
        roles.feed(plural, found, "DELETED")
    await roles.think(0)
    batch.clear()


def generated(plural: str, seed: int, count: int) -> Iterable[Json]:
    return Source(plural, seed).objects(count)
