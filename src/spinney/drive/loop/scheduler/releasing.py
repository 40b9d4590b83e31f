"""Seats given up: the pods are touched first, so that a bind which somebody still has in hand fails by its version.

Only then does the record go. Never touches a pod that has its node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from spinney.api.builtin.pod import Pod
from spinney.api.labels import RELEASED
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Outcome, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.loop.scheduler.views import PODS


async def touch_all(door: Door, pods: Iterable[Pod], version: str) -> bool:
    """Whether every pod is another version now; `version` is that of the record given up."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_touch(door, pod, version)) for pod in pods]
    return all(isinstance(task.result(), (Written, Gone)) for task in tasks)


async def _touch(door: Door, pod: Pod, version: str) -> Outcome:
    metadata = pod.metadata
    patch = {"metadata": {"annotations": {RELEASED: version}}}
    given = Precondition(metadata.uid, metadata.resource_version)
    return await door.merge_patch(PODS.ref(metadata.name, metadata.namespace), patch, given)
