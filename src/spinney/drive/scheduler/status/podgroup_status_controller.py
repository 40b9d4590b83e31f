"""Keeps the resource status of PodGroups (requested and allocated) in step with the pods in the caches.

Never delays placement: the status of a gang is written once its usage is stable, while the scheduler is idle. Never
fights another writer: a status is written when the usage may have changed and the status differs, not because another
writer changed it. No other status field is touched, and nothing is written for gangs of other node pools or those that
only have pods of other schedulers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_NODE_POOL
from spinney.core.scheduling.gang.priorities import Priorities, is_preemptible
from spinney.core.scheduling.gang.resource_status import resource_usage, resources_status, status_changes
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Refused, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import PODGROUPS, SchedulerCaches

STABLE_S = 10.0
"""A gang counts as stable when its usage has not changed for this long; it is written within twice this time."""

_log = structlog.get_logger(__name__)


class PodGroupStatusController:
    """`note` gangs, `run` until cancelled. `node_pool`: the pool of its gangs. `busy`: a gang has a running action.

    `confirm_writes` finds out the result of a write whose answer was lost.
    """

    def __init__(
        self,
        views: SchedulerCaches,
        priorities: Priorities,
        node_pool: str,
        busy: Callable[[Key], bool],
        door: Door,
        confirm_writes: Callable[[], Awaitable[None]],
        idle: Callable[[], Awaitable[None]],
    ) -> None:
        self._views = views
        self._priorities = priorities
        self._node_pool = node_pool
        self._busy = busy
        self._door = door
        self._confirm_writes = confirm_writes
        self._idle = idle
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
            await asyncio.sleep(STABLE_S)
            stable = [key for key in self._stable if key not in self._changed]
            self._stable, self._changed = self._changed, {}
            if not self._stable:
                self._wake.clear()
            for key in stable:
                await self._idle()
                if not await self._write_status(key):
                    self.note(key)

    async def _write_status(self, key: Key) -> bool:
        """Whether nothing is left to write."""
        group = self._views.podgroups.get(key)
        try:
            changed = self._news(key, group) if group is not None and self._is_ours(group) else None
        except Exception as error:
            self._views.podgroups.complain(key, error)
            return True
        if group is None or not changed:
            return True
        if self._busy(key) or not self._views.is_seen(self._views.podgroups, key):
            return False
        metadata = group.metadata
        given = Precondition(metadata.uid, metadata.resource_version)
        ref = PODGROUPS.ref(metadata.name, metadata.namespace)
        match await self._door.status(ref, {"resourcesStatus": changed}, given):
            case Written() | Gone():
                return True
            case Refused(status):
                _log.warning("the use of a gang was refused", gang="/".join(key), reason=status.message)
                return True
            case Unknown():
                await self._confirm_writes()
        return False

    def _is_ours(self, group: PodGroup) -> bool:
        metadata = group.metadata
        return metadata.deletion_timestamp is None and metadata.labels.get(KAI_NODE_POOL, "") == self._node_pool

    def _news(self, key: Key, group: PodGroup) -> dict[str, object]:
        priority = self._priorities.of(group.spec.priority_class_name)
        preemptible = is_preemptible(group.spec.preemptibility, priority)
        changed = status_changes(
            group.status.resources_status, resources_status(resource_usage(self._views.pods_of(key)), preemptible)
        )
        return changed if changed and not self._views.is_of_others(key) else {}
