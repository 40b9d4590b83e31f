"""Scheduler and pod-grouper against a cluster: views are kept while standing by, and both work while they lead.

The epoch of the leadership, counted on its Lease alone, is in every plan. Plans are signed with a key from a Secret,
which is looked for before anything else: without one nothing is scheduled.
"""

from __future__ import annotations

import asyncio

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.roles.catalog import SCHEDULER_LEASE
from spinney.cli.wiring.roles.leader import Candidate
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.informers.unreadable import figures as unreadable_figures
from spinney.drive.election.leader_election import Elect, Leadership
from spinney.drive.grouper.grouper import Grouper
from spinney.drive.roles import record_keys
from spinney.drive.scheduler.scheduler import FIELD_MANAGER, Scheduler


def create(role_config: RoleConfig) -> SchedulerRole:
    return SchedulerRole(role_config, role_config.connect())


class SchedulerRole:
    """One scheduler process: at most one scheduler, with its pod-grouper, at work in it."""

    def __init__(self, role_config: RoleConfig, transport: Transport, lease_transport: Transport | None = None) -> None:
        self._settings: Settings = role_config.scheduler
        election = role_config.configuration.leader_election
        self._namespace = election.resource_namespace or role_config.connection.namespace or "default"
        self._transport = transport
        self._clock, self._dice = SystemClock(), system_dice()
        pool = self._settings.node_pool
        lease = f"{SCHEDULER_LEASE}-{pool}" if pool else SCHEDULER_LEASE
        self._candidate = Candidate(role_config, lease, FIELD_MANAGER, transport=lease_transport)
        self._scheduler: Scheduler | None = None
        self._unreadable: list[Unreadable] = []

    def trouble(self) -> str:
        """Standing by is well with synced views while somebody leads; a leader is ready when it decides."""
        scheduler = self._scheduler
        if scheduler is None:
            return "starting"
        if not scheduler.ready.is_set():
            is_candidate = scheduler.prepared.is_set() and not self._candidate.leads
            return self._candidate.trouble() if is_candidate else "views are not synced"
        return "; ".join(scheduler.caches.troubles)

    def figures(self) -> dict[str, float]:
        return {**self._candidate.figures(), **unreadable_figures(*self._unreadable)}

    def page(self) -> str:
        """What a leader has to tell; nothing while somebody else leads."""
        leads = self._scheduler is not None and self._candidate.leads
        return self._scheduler.metrics.page() if self._scheduler is not None and leads else ""

    async def run(self) -> None:
        await self._candidate.run(self._schedule, self._transport)

    async def _schedule(self, elect: Elect) -> None:
        await self._record_keys()
        elected: asyncio.Future[Leadership] = asyncio.get_running_loop().create_future()

        async def elect_both() -> Leadership:
            elected.set_result(await elect())
            return await elected

        self._scheduler = Scheduler(
            self._transport,
            self._clock,
            self._dice,
            self._settings,
            record_keys=self._record_keys,
            leads=elect_both,
        )
        self._unreadable = [self._scheduler.unreadable]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._scheduler.run(), name="scheduler")
                group.create_task(self._group_pods(elected), name="pod-grouper")
        finally:
            self._scheduler, self._unreadable = None, []

    async def _group_pods(self, elected: asyncio.Future[Leadership]) -> None:
        leadership = await elected
        names = GrouperSettings(scheduler_names=self._settings.names)
        grouper = Grouper(self._transport, self._clock, self._dice, names, may_write=leadership.check)
        self._unreadable.append(grouper.caches.unreadable)
        await grouper.run()

    async def _record_keys(self) -> tuple[bytes, ...]:
        """As they are now, beside the Lease."""
        return await record_keys(self._transport, self._namespace, self._dice)
