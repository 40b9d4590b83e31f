"""Counts what queues held lately, where shares remember that, and keeps it in the status of the queues.

A scheduler that takes over goes on with what is recorded; time without a scheduler does not count. It begins anew where
the server's definition of a Queue has no such field, and in a node pool: what is recorded is that of nodes without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.queues.past_use import PastUse, read, recorded
from spinney.core.scheduling.queues.tree import NOTHING
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import QUEUES, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter

RECORD_S = 60.0
"""How often it is recorded."""
_LOOK_S = 5.0


class PastUseController:
    """`run` until cancelled. `wake` begins a cycle: shares have changed."""

    def __init__(
        self, session: Session, api_writer: ApiWriter, views: SchedulerCaches, wake: Callable[[], None]
    ) -> None:
        self._session = session
        self._api_writer = api_writer
        self._views = views
        self._wake = wake
        self._is_recorded = not session.settings.node_pool
        self._recorded_s = 0.0

    async def run(self) -> None:
        while True:
            past_use = self._session.settings.past_use
            if past_use is None:
                await asyncio.sleep(_LOOK_S)
                continue
            self._take_over()
            await self._count(past_use)

    def _take_over(self) -> None:
        queues = self._session.queue_accounting.queues
        known = self._views.queues if self._is_recorded else ()
        found = {each.metadata.name: read(each.status.past_use) for each in known if each.status.past_use}
        queues.adopt(queues.policy, found)
        self._wake()

    async def _count(self, past_use: PastUse) -> None:
        """As long as it is to be counted in this way."""
        clock, session = self._session.clock, self._session
        before_s = clock.monotonic()
        while session.settings.past_use == past_use:
            await asyncio.sleep(past_use.step_s)
            now_s = clock.monotonic()
            session.queue_accounting.remember(past_use, now_s - before_s, session.cluster.capacity)
            before_s = now_s
            self._wake()
            if self._is_recorded and now_s - self._recorded_s >= RECORD_S:
                self._recorded_s = now_s
                await self._record()

    async def _record(self) -> None:
        past = self._session.queue_accounting.queues.past
        for queue in list(self._views.queues):
            metadata = queue.metadata
            average = past.get(metadata.name, NOTHING)
            wanted = recorded(average)
            if read(wanted) == read(queue.status.past_use):
                continue
            await self._api_writer.quiet()
            given = Precondition(metadata.uid, "")
            await self._api_writer.door.status(QUEUES.ref(metadata.name), {"pastUse": wanted}, given)
