"""The operator against a cluster: leader election, and the operator while it leads."""

from __future__ import annotations

from spinney.cli.leading import Candidate
from spinney.cli.roles import Told
from spinney.drive.client.transport import Transport
from spinney.drive.client.unreadable import figures as unreadable_figures
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.election import Elect
from spinney.drive.loop.operator.configured import concurrency_of, settings_of
from spinney.drive.loop.operator.running import FIELD_MANAGER, Operator


def create(told: Told) -> OperatorRole:
    return OperatorRole(told, told.connect())


class OperatorRole:
    """One operator process: at most one operator at work in it."""

    def __init__(self, told: Told, transport: Transport, lease_transport: Transport | None = None) -> None:
        self._configuration = told.configuration
        self._transport = transport
        lease = told.configuration.leader_election.resource_name
        self._candidate = Candidate(told, lease, FIELD_MANAGER, transport=lease_transport)
        self._operator: Operator | None = None

    def trouble(self) -> str:
        """Standing by is well while somebody leads; a leader is ready when its views are."""
        if self._operator is None:
            return self._candidate.trouble() if self._configuration.leader_election.enabled else "starting"
        troubles = "; ".join(self._operator.caches.troubles)
        if self._operator.ready.is_set():
            return troubles
        return f"views are not synced: {troubles}" if troubles else "views are not synced"

    def figures(self) -> dict[str, float]:
        unreadable = [self._operator.caches.unreadable] if self._operator is not None else []
        return {**self._candidate.figures(), **unreadable_figures(*unreadable)}

    async def run(self) -> None:
        await self._candidate.run(self._operate, self._transport)

    async def _operate(self, elect: Elect) -> None:
        settings = settings_of(self._configuration)
        workers = concurrency_of(self._configuration)
        leadership = await elect()
        self._operator = Operator(
            self._transport, SystemClock(), system_dice(), settings, concurrency=workers, may_write=leadership.check
        )
        try:
            await self._operator.run()
        finally:
            self._operator = None
