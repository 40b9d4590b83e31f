"""The work of a role that only one process may do at a time: while it leads, or at once where nobody is elected.

A leadership that is lost ends its work, not the process: it stands by again, with nothing of the lost term left.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.operator_configuration.model import LeaderElection
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive.apply.door import Door
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.kubeconfig import connect
from spinney.drive.client.http.retries import RetryPolicy
from spinney.drive.client.http.transport import Transport
from spinney.drive.election.leader_election import (
    LEASES,
    Candidacy,
    Elect,
    Election,
    Leadership,
    LeadershipLost,
    LeaseSettings,
    RenewalLoop,
)
from spinney.drive.election.lease_thread import LoopThread, loop_thread

Work = Callable[[Elect], Awaitable[None]]
"""Asks to be elected when it is prepared, and writes nothing before. Without an election it is elected at once."""

QUICK = LeaseSettings(duration_s=5, renew_deadline_s=4.0, retry_s=1.25)
"""Nothing goes on while no process leads: a killed leader is replaced within the duration, for four requests in five
seconds at rest.
"""
STEADY_S = 60.0
"""A term that lasted so long was no failure to lead."""
_AGAIN = Backoff(base_s=0.5, cap_s=15.0)
_CONNECTIONS = 2

_log = structlog.get_logger(__name__)


class Candidate:
    """One role of this process in its election."""

    def __init__(
        self,
        role_config: RoleConfig,
        lease: str,
        field_manager: str,
        *,
        transport: Transport | None = None,
    ) -> None:
        self._config = role_config
        self._enabled = role_config.configuration.leader_election.enabled
        self._clock, self._dice = SystemClock(), system_dice()
        self._transport = transport or connect(
            role_config.lease_connection or role_config.connection, connections=_CONNECTIONS
        )
        self._thread: LoopThread | None = None
        self._changes = {"leading": 0, "standby": 0}
        self._leadership: Leadership | None = None
        self._election = self._election_for(lease, field_manager)

    @property
    def leads(self) -> bool:
        return self._leadership is not None and self._leadership.holds()

    def trouble(self) -> str:
        """Why nobody leads; empty while somebody does."""
        return self._election.trouble() if self._enabled else ""

    def figures(self) -> dict[str, float]:
        changes = {f'leadership_changes_total{{to="{to}"}}': float(count) for to, count in self._changes.items()}
        return {"leading": float(self.leads), **changes}

    async def run(self, work: Work, transport: Transport) -> None:
        """Until the work ends; its transport is closed then."""
        try:
            if not self._enabled:
                await work(self._at_once)
                return
            async with loop_thread("lease", self._transport.close) as self._thread:
                await self._run_elections(work)
        finally:
            await transport.close()

    async def _run_elections(self, work: Work) -> None:
        lost = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self._election.campaign(lambda elect: work(self._counted(elect)))
                return
            except LeadershipLost as error:
                self._changes["standby"] += 1
                lost = 0 if self._clock.monotonic() - began > STEADY_S else lost + 1
                _log.warning("leadership lost, standing by again", reason=str(error), lost_in_a_row=lost)
            await asyncio.sleep(_AGAIN.delay_s(lost, self._dice))

    def _counted(self, elect: Elect) -> Elect:
        async def counted() -> Leadership:
            self._leadership = await elect()
            self._changes["leading"] += 1
            return self._leadership

        return counted

    async def _at_once(self) -> Leadership:
        self._leadership = Leadership(0, self._clock, math.inf)
        return self._leadership

    def _election_for(self, lease: str, field_manager: str) -> Election:
        """Its calls are short: a server that does not answer is asked again before the lease is over."""
        election = self._config.configuration.leader_election
        lease_settings = _terms_of(election) if election.gives_durations else QUICK
        retry_policy = RetryPolicy(
            attempts=1, timeout_s=max(lease_settings.renew_deadline_s / 2, lease_settings.retry_s)
        )
        heartbeat = self._config.heartbeat
        return Election(
            ApiClient(self._transport, self._dice, retry_policy=retry_policy),
            Door(self._transport, self._dice, field_manager=field_manager, retry_policy=retry_policy),
            Candidacy(
                LEASES.ref(lease, election.resource_namespace or self._config.connection.namespace or "default"),
                f"{socket.gethostname()}-{secrets.token_hex(4)}",
                lease_settings,
                watches=True,
            ),
            self._clock,
            self._dice,
            RenewalLoop(self._in_thread, heartbeat.stuck if heartbeat is not None else lambda: ""),
        )

    async def _in_thread(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._thread is not None
        return await self._thread.run(work)


def _terms_of(election: LeaderElection) -> LeaseSettings:
    return LeaseSettings(math.ceil(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
