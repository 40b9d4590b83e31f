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

from spinney.api.operator_configuration.model import LeaderElection
from spinney.cli.roles import Told
from spinney.drive.apply.door import Door
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.call import Patience
from spinney.drive.client.connect import connect
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.election import LEASES, Elect, Election, Leadership, LeadershipLost, Terms
from spinney.drive.loop.lease_thread import LoopThread, loop_thread

Work = Callable[[Elect], Awaitable[None]]
"""Asks to be elected when it is prepared, and writes nothing before. Without an election it is elected at once."""

STEADY_S = 60.0
"""A term that lasted so long was no failure to lead."""
_AGAIN = Backoff(base_s=0.5, cap_s=15.0)
_CONNECTIONS = 2

_log = structlog.get_logger(__name__)


class Candidate:
    """One role of this process in its election. `otherwise`: the durations where the configuration gives none."""

    def __init__(
        self,
        told: Told,
        lease: str,
        field_manager: str,
        *,
        otherwise: Terms | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._told = told
        self._enabled = told.configuration.leader_election.enabled
        self._clock, self._dice = SystemClock(), system_dice()
        self._transport = transport or connect(told.lease_connection or told.connection, connections=_CONNECTIONS)
        self._thread: LoopThread | None = None
        self._changes = {"leading": 0, "standby": 0}
        self._leadership: Leadership | None = None
        self._election = self._stands_for(lease, field_manager, otherwise or Terms())

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
                await self._stand_again_and_again(work)
        finally:
            await transport.close()

    async def _stand_again_and_again(self, work: Work) -> None:
        lost = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self._election.stand(lambda elect: work(self._counted(elect)))
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

    def _stands_for(self, lease: str, field_manager: str, otherwise: Terms) -> Election:
        """Its calls are short: a server that does not answer is asked again before the lease is over."""
        election = self._told.configuration.leader_election
        terms = _terms_of(election) if election.gives_durations else otherwise
        patience = Patience(attempts=1, timeout_s=max(terms.renew_deadline_s / 2, terms.retry_s))
        return Election(
            ApiClient(self._transport, self._dice, patience=patience),
            Door(self._transport, self._dice, field_manager=field_manager, patience=patience),
            LEASES.ref(lease, election.resource_namespace or self._told.connection.namespace or "default"),
            f"{socket.gethostname()}-{secrets.token_hex(4)}",
            self._clock,
            self._dice,
            terms=terms,
            watches=True,
            stuck=self._told.heartbeat.stuck if self._told.heartbeat is not None else lambda: "",
            place=self._in_thread,
        )

    async def _in_thread(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._thread is not None
        return await self._thread.run(work)


def _terms_of(election: LeaderElection) -> Terms:
    return Terms(math.ceil(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
