"""The operator against a cluster: leader election, and the operator while it leads."""

from __future__ import annotations

from spinney.cli.wiring.roles.leader import Candidate
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.unreadable import figures as unreadable_figures
from spinney.drive.clock import SystemClock, system_dice
from spinney.drive.election.leader_election import Elect
from spinney.drive.operator.operator import FIELD_MANAGER, Operator
from spinney.drive.operator.settings_from_config import concurrency_of, settings_of


def create(role_config: RoleConfig) -> OperatorRole:
    return OperatorRole(role_config, role_config.connect())


class OperatorRole:
    """One operator process: at most one operator at work in it."""

    def __init__(self, role_config: RoleConfig, transport: Transport, lease_transport: Transport | None = None) -> None:
        self._configuration = role_config.configuration
        self._transport = transport
        lease = role_config.configuration.leader_election.resource_name
        self._candidate = Candidate(role_config, lease, FIELD_MANAGER, transport=lease_transport)
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
