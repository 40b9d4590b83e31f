"""Keeps the status of queues, and the resource status of PodGroups, in step with the pods in the caches.

Never delays placement: changes are only noted, and written at intervals while the scheduler is idle; the status of a
gang once its usage is stable. Never fights another writer: a status is written when the usage may have changed and the
status differs, not because another writer changed it. Reservations do not count. Nothing is written for gangs of other
node pools or those that only have pods of other schedulers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import DEFAULT_QUEUE, KAI_NODE_POOL
from spinney.api.placement.problem import Amounts
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.gang.priorities import is_preemptible
from spinney.core.scheduling.queues.status import (
    EMPTY,
    EXTENSIONS,
    Tally,
    podgroup_status_changes,
    queue_status_changes,
    resource_usage,
    resources_status,
    statuses,
    tally,
)
from spinney.core.scheduling.queues.tree import QueueFigures, Queues
from spinney.drive.apply.outcome import Gone, Refused, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import PODGROUPS, QUEUES, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter


class PodGroupStatusController:
    """`note` gangs, `run` until cancelled. `node_pool`: the pool of its gangs. `busy`: a gang has a running action.

    `confirm_writes` finds out the result of a write whose answer was lost.
    """

    def __init__(self, session: Session, api_writer: ApiWriter, views: SchedulerCaches) -> None:
        self._session = session
        self._api_writer = api_writer
        self._views = views
        self._changed: dict[Key, None] = {}
        self._stable: dict[Key, None] = {}
        self._wake = asyncio.Event()

    def note(self, key: Key) -> None:
        """The usage of a gang's pods may have changed."""
        self._changed[key] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._session.settings.usage_stable_s)
            stable = [key for key in self._stable if key not in self._changed]
            self._stable, self._changed = self._changed, {}
            if not self._stable:
                self._wake.clear()
            for key in stable:
                await self._api_writer.quiet()
                if not await self._write_status(key):
                    self.note(key)

    async def _write_status(self, key: Key) -> bool:
        """Whether nothing is left to write."""
        group = self._views.podgroups.get(key)
        try:
            changed = self._changes(key, group) if group is not None and self._is_ours(group) else None
        except Exception as error:
            self._views.podgroups.complain(key, error)
            return True
        if group is None or not changed:
            return True
        if self._is_busy(key) or not self._views.is_seen(self._views.podgroups, key):
            return False
        metadata = group.metadata
        given = Precondition(metadata.uid, metadata.resource_version)
        ref = PODGROUPS.ref(metadata.name, metadata.namespace)
        match await self._api_writer.door.status(ref, {"resourcesStatus": changed}, given):
            case Written() | Gone():
                return True
            case Refused(status):
                structlog.get_logger(__name__).warning(
                    "the use of a gang was refused", gang="/".join(key), reason=status.message
                )
                return True
            case Unknown():
                await self._api_writer.confirm_writes()
        return False

    def _is_busy(self, key: Key) -> bool:
        entry = self._session.scheduling_queue.entries.get(key)
        return entry is not None and entry.busy

    def _is_ours(self, group: PodGroup) -> bool:
        metadata = group.metadata
        return (
            metadata.deletion_timestamp is None
            and metadata.labels.get(KAI_NODE_POOL, "") == self._session.settings.node_pool
        )

    def _changes(self, key: Key, group: PodGroup) -> dict[str, object]:
        priority = self._session.priorities.of(group.spec.priority_class_name)
        preemptible = is_preemptible(group.spec.preemptibility, priority)
        changed = podgroup_status_changes(
            group.status.resources_status, resources_status(resource_usage(self._views.pods_of(key)), preemptible)
        )
        return changed if changed and not self._views.is_of_others(key) else {}


STATUS_INTERVAL_S = 1.0
_YIELD_EVERY = 64

_log = structlog.get_logger(__name__)


class QueueStatusController:
    """`run` until cancelled; `note_decisions` after each cycle.

    `counted` is called with each gang whose usage may have changed, once it is counted. What our CRD adds to upstream's
    is written by the scheduler of the default node pool only, as shares are those of one pool, and no more once the
    server was seen to drop it: its CRD is upstream's.
    """

    def __init__(
        self, session: Session, api_writer: ApiWriter, views: SchedulerCaches, counted: Callable[[Key], None]
    ) -> None:
        self._session = session
        self._api_writer = api_writer
        self._views = views
        self._counted = counted
        self._changed: dict[Key, None] = {}
        self._tallies: dict[Key, tuple[str, Tally]] = {}
        self._own: dict[str, Tally] = {}
        self._refused: dict[str, str] = {}  # versions of queues whose status write was refused, by uid
        self._has_extensions = not session.settings.node_pool
        self._shared_at: tuple[Queues, int, Amounts] | None = None  # what shares were computed from
        self._wake = asyncio.Event()
        views.pods.subscribe(self._pod)
        views.podgroups.subscribe(self._podgroup)
        views.priority_classes.subscribe(lambda _: self._all())
        views.queues.subscribe(self._queue)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(STATUS_INTERVAL_S)
            await self._api_writer.quiet()
            self._wake.clear()
            await self._add_up()
            for name, wanted in sorted(statuses(self._views.queues, self._own, self._figures()).items()):
                queue = self._views.queues.get(("", name))
                if queue is not None:
                    await self._write_status(queue, wanted)

    def note_decisions(self) -> None:
        """Shares may be others than before."""
        if self._has_extensions and self._shared_at != self._shares_are_of():
            self._wake.set()

    def _shares_are_of(self) -> tuple[Queues, int, Amounts]:
        queues = self._session.queue_accounting.queues
        return queues, queues.version, self._session.cluster.capacity

    def _figures(self) -> dict[str, QueueFigures]:
        if not self._has_extensions:
            return {}
        self._shared_at = self._shares_are_of()
        return self._session.queue_figures()

    # Changes

    def _pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _counts_alike(old, new):
            return
        for pod in (old, new):
            if pod is not None and pod.spec.scheduler_name in self._session.settings.names:
                self._note(group_of(pod))

    def _podgroup(self, change: Change[PodGroup]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.spec != new.spec:
            self._note(change.key)

    def _queue(self, change: Change[Queue]) -> None:
        self._wake.set()

    def _all(self) -> None:
        self._changed.update(dict.fromkeys(self._views.podgroups.keys()))
        self._wake.set()

    def _note(self, key: Key) -> None:
        self._changed[key] = None
        self._wake.set()

    # Status writes

    async def _add_up(self) -> None:
        changed, self._changed = self._changed, {}
        for number, key in enumerate(changed, 1):
            try:
                self._count(key)
            except Exception as error:
                self._views.podgroups.complain(key, error)
            self._counted(key)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _count(self, key: Key) -> None:
        queue, before = self._tallies.pop(key, ("", EMPTY))
        group = self._views.podgroups.get(key)
        if queue:
            self._own[queue] = self._own[queue].minus(before)
            if self._own[queue] == EMPTY:
                del self._own[queue]
        if group is None:
            return
        priority = self._session.priorities.of(group.spec.priority_class_name)
        found = tally(resource_usage(self._views.pods_of(key)), is_preemptible(group.spec.preemptibility, priority))
        if found != EMPTY:
            queue = group.spec.queue or DEFAULT_QUEUE
            self._tallies[key] = (queue, found)
            self._own[queue] = self._own.get(queue, EMPTY).plus(found)

    async def _write_status(self, queue: Queue, wanted: dict[str, Any]) -> None:
        """Write the fields that differ; a write that fails is retried in the next round."""
        metadata = queue.metadata
        changed = queue_status_changes(queue.status, wanted)
        if not changed or self._refused.get(metadata.uid) == metadata.resource_version:
            return
        if not self._views.is_seen(self._views.queues, ("", metadata.name)):
            self._wake.set()
            return
        given = Precondition(metadata.uid, metadata.resource_version)
        match await self._api_writer.door.status(QUEUES.ref(metadata.name), changed, given):
            case Written() as answer:
                self._refused.pop(metadata.uid, None)
                added = changed.keys() & set(EXTENSIONS)
                self._has_extensions &= added <= answer.object.get("status", {}).keys()
            case Gone():
                self._refused.pop(metadata.uid, None)
            case Refused(status):
                self._refused[metadata.uid] = metadata.resource_version
                _log.warning("the status of a queue was refused", queue=metadata.name, reason=status.message)
            case Unknown():
                self._wake.set()
                await self._api_writer.confirm_writes()
            case _:
                self._wake.set()


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether nothing differs that a queue is charged for."""
    return old.spec == new.spec and old.status.phase == new.status.phase and group_of(old) == group_of(new)
