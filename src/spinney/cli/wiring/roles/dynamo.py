"""The Dynamo part against a cluster: leader election, and its controller while it leads."""

from __future__ import annotations

from spinney.api.roles.catalog import DYNAMO_LEASE
from spinney.cli.wiring.roles.leader import Candidate
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.unreadable import figures as unreadable_figures
from spinney.drive.clock import SystemClock, system_dice
from spinney.drive.dynamo import FIELD_MANAGER, Dynamo
from spinney.drive.election.leader_election import Elect
from spinney.whatif.inputs.operator_settings import dynamo_settings_of


def create(role_config: RoleConfig) -> DynamoRole:
    return DynamoRole(role_config, role_config.connect())


class DynamoRole:
    """One process: at most one controller of deployments at work in it."""

    def __init__(self, role_config: RoleConfig, transport: Transport, lease_transport: Transport | None = None) -> None:
        self._config = role_config
        self._settings = dynamo_settings_of(role_config.configuration)
        self._transport = transport
        self._candidate = Candidate(role_config, DYNAMO_LEASE, FIELD_MANAGER, transport=lease_transport)
        self._dynamo: Dynamo | None = None

    def trouble(self) -> str:
        """Standing by is well while somebody leads; a leader is ready when its views are."""
        if self._dynamo is None:
            return self._candidate.trouble() if self._config.configuration.leader_election.enabled else "starting"
        return "" if self._dynamo.ready.is_set() else "views are not synced"

    def figures(self) -> dict[str, float]:
        unreadable = [self._dynamo.unreadable] if self._dynamo is not None else []
        return {**self._candidate.figures(), **unreadable_figures(*unreadable)}

    async def run(self) -> None:
        await self._candidate.run(self._work, self._transport)

    async def _work(self, elect: Elect) -> None:
        clock, dice = SystemClock(), system_dice()
        leadership = await elect()
        self._dynamo = Dynamo(self._transport, clock, dice, self._settings, may_write=leadership.check)
        try:
            await self._dynamo.run()
        finally:
            self._dynamo = None
