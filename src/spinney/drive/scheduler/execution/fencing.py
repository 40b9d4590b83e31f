"""Fencing by a new leader: its first writes change the version of every PodGroup that the old leader may still plan.

So a record that the old leader has in flight conflicts, whichever PodGroup it is for. Nothing is planned before that is
done. What this excludes and what not: docs/decisions/0010-fencing.md.
"""

from __future__ import annotations

import asyncio

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import FENCED
from spinney.drive.apply.outcome import RetryLater, Stale, Unknown
from spinney.drive.apply.write import Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.scheduler.caches import PODGROUPS, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter

_AT_A_TIME = 64
_BACKOFF = Backoff(base_s=0.05, cap_s=5.0)


async def fence(api_writer: ApiWriter, views: SchedulerCaches, epoch: int) -> None:
    """Return once no plan of an older epoch can be recorded any more. The caches were listed in this epoch."""
    slots = asyncio.Semaphore(_AT_A_TIME)
    async with asyncio.TaskGroup() as tasks:
        for group in list(views.podgroups):
            if _may_be_planned(views.pods_of((group.metadata.namespace, group.metadata.name))):
                tasks.create_task(_touch(api_writer, views, slots, group, epoch))


def _may_be_planned(pods: list[Pod]) -> bool:
    """False where all pods have a node: the plan that placed them has changed the PodGroup's version."""
    return not pods or any(not pod.spec.node_name for pod in pods)


async def _touch(
    api_writer: ApiWriter, views: SchedulerCaches, slots: asyncio.Semaphore, group: PodGroup, epoch: int
) -> None:
    """A PodGroup that already has a newer version needs no patch once that version is seen: it may carry a plan."""
    metadata, attempt = group.metadata, 0
    patch = {"metadata": {"annotations": {FENCED: str(epoch)}}}
    given = Precondition(metadata.uid, metadata.resource_version)
    while True:
        async with slots:
            outcome = await api_writer.door.merge_patch(PODGROUPS.ref(metadata.name, metadata.namespace), patch, given)
        match outcome:
            case Stale():
                views.podgroups.expectations.unsure((metadata.namespace, metadata.name))
                await api_writer.confirm_writes()
                if not _is_as_listed(views, group):
                    return
            case Unknown():
                await api_writer.confirm_writes()
            case RetryLater():
                pass
            case _:
                return
        await asyncio.sleep(_BACKOFF.delay_s(attempt, api_writer.dice))
        attempt += 1


def _is_as_listed(views: SchedulerCaches, group: PodGroup) -> bool:
    """Whether the PodGroup still is the one that was to be patched: then the reported conflict was wrong."""
    found = views.podgroups.get((group.metadata.namespace, group.metadata.name))
    version = (group.metadata.uid, group.metadata.resource_version)
    return found is not None and (found.metadata.uid, found.metadata.resource_version) == version
