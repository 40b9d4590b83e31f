"""Gives up assignments: each pod is patched first, so that a bind still in flight fails on its resourceVersion.

The record is removed only after that. Never patches a pod that has its node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.labels import RELEASED
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.messages import failed_release
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Outcome, Refused, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import Status, words
from spinney.drive.scheduler.caches import PODS


@dataclass(frozen=True, slots=True)
class UnreserveResult:
    """`done`: every pod has a new resourceVersion."""

    done: bool
    failures: tuple[WriteFailure, ...] = ()


async def unreserve_all(door: Door, pods: Sequence[Pod], version: str, nodes: Mapping[str, str]) -> UnreserveResult:
    """`version`: that of the record given up; `nodes`: the nodes that the pods do not get, by uid."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_unreserve(door, pod, version)) for pod in pods]
    outcomes = [task.result() for task in tasks]
    found = [
        _failure(pod, nodes, outcome.status)
        for pod, outcome in zip(pods, outcomes, strict=True)
        if isinstance(outcome, Refused)
    ]
    return UnreserveResult(all(isinstance(outcome, (Written, Gone)) for outcome in outcomes), tuple(found))


def _failure(pod: Pod, nodes: Mapping[str, str], status: Status) -> WriteFailure:
    key, uid = (pod.metadata.namespace, pod.metadata.name), pod.metadata.uid
    return WriteFailure("release", failed_release(key, nodes.get(uid, ""), words(status)), status.code, key, uid)


async def _unreserve(door: Door, pod: Pod, version: str) -> Outcome:
    metadata = pod.metadata
    patch = {"metadata": {"annotations": {RELEASED: version}}}
    given = Precondition(metadata.uid, metadata.resource_version)
    return await door.merge_patch(PODS.ref(metadata.name, metadata.namespace), patch, given)
