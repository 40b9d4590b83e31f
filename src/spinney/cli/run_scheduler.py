"""Scheduler and pod-grouper against a cluster: leader election, and both while they lead.

The epoch of the leadership is in every plan; it never falls below what is found in plans, also where the lease is new.
"""

from __future__ import annotations

import asyncio

from spinney.api.meta import PartialObject
from spinney.api.roles.catalog import SCHEDULER_LEASE
from spinney.cli.leading import MayWrite, while_leading
from spinney.cli.roles import Told
from spinney.core.grouping.settings import GrouperSettings
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import NotFound
from spinney.drive.client.transport import Transport
from spinney.drive.client.unreadable import Unreadable
from spinney.drive.client.unreadable import figures as unreadable_figures
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.grouper.running import Grouper
from spinney.drive.loop.scheduler.recording import epoch_of
from spinney.drive.loop.scheduler.running import FIELD_MANAGER, Scheduler
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.views import PODGROUPS


def create(told: Told) -> SchedulerRole:
    return SchedulerRole(told, told.connect())


class SchedulerRole:
    """One scheduler process: at most one scheduler, with its pod-grouper, at work in it."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._told = told
        self._settings: Settings = told.scheduler
        self._transport = transport
        self._clock, self._dice = SystemClock(), system_dice()
        self._client = ApiClient(transport, self._dice)
        self._scheduler: Scheduler | None = None
        self._unreadable: list[Unreadable] = []

    def trouble(self) -> str:
        """Waiting for leadership is well; a leader is ready when its views are."""
        if self._scheduler is None:
            return "" if self._told.configuration.leader_election.enabled else "starting"
        if not self._scheduler.ready.is_set():
            return "views are not synced"
        return "; ".join(self._scheduler.caches.troubles)

    def figures(self) -> dict[str, float]:
        return {"leading": float(self._scheduler is not None), **unreadable_figures(*self._unreadable)}

    def page(self) -> str:
        """What a leader has to tell; nothing while somebody else leads."""
        return self._scheduler.metrics.page() if self._scheduler is not None else ""

    async def run(self) -> None:
        pool = self._settings.node_pool
        lease = f"{SCHEDULER_LEASE}-{pool}" if pool else SCHEDULER_LEASE
        await while_leading(
            self._told, self._transport, lease, FIELD_MANAGER, self._schedule, highest_epoch=self._highest_epoch
        )

    async def _schedule(self, epoch: int, may_write: MayWrite) -> None:
        names = GrouperSettings(scheduler_names=self._settings.names)
        self._scheduler = Scheduler(
            self._transport, self._clock, self._dice, self._settings, epoch=epoch, may_write=may_write
        )
        grouper = Grouper(self._transport, self._clock, self._dice, names, may_write=may_write)
        self._unreadable = [self._scheduler.unreadable, grouper.caches.unreadable]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scheduler.run(), name="scheduler")
            group.create_task(grouper.run(), name="pod-grouper")

    async def _highest_epoch(self) -> int:
        """The newest epoch that any plan was made in, if there is anything to make plans for."""
        try:
            found = await self._client.list(Selection(PODGROUPS), PartialObject)
        except NotFound:
            return 0
        return max((epoch_of(each.metadata) for each in found.items), default=0)
