"""The Dynamo part against a cluster: leader election, and its controller while it leads."""

from __future__ import annotations

from spinney.api.roles.catalog import DYNAMO_LEASE
from spinney.cli.leading import MayWrite, while_leading
from spinney.cli.operator_settings import dynamo_settings_of
from spinney.cli.roles import Told
from spinney.drive.client.transport import Transport
from spinney.drive.client.unreadable import figures as unreadable_figures
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.dynamo.running import FIELD_MANAGER, Dynamo


def create(told: Told) -> DynamoRole:
    return DynamoRole(told, told.connect())


class DynamoRole:
    """One process: at most one controller of deployments at work in it."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._told = told
        self._settings = dynamo_settings_of(told.configuration)
        self._transport = transport
        self._dynamo: Dynamo | None = None

    def trouble(self) -> str:
        """Waiting for leadership is well; a leader is ready when its views are."""
        if self._dynamo is None:
            return "" if self._told.configuration.leader_election.enabled else "starting"
        return "" if self._dynamo.ready.is_set() else "views are not synced"

    def figures(self) -> dict[str, float]:
        unreadable = [self._dynamo.unreadable] if self._dynamo is not None else []
        return {"leading": float(self._dynamo is not None), **unreadable_figures(*unreadable)}

    async def run(self) -> None:
        await while_leading(self._told, self._transport, DYNAMO_LEASE, FIELD_MANAGER, self._work)

    async def _work(self, epoch: int, may_write: MayWrite) -> None:
        clock, dice = SystemClock(), system_dice()
        self._dynamo = Dynamo(self._transport, clock, dice, self._settings, may_write=may_write)
        await self._dynamo.run()
