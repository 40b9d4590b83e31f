"""The Dynamo part against a cluster: leader election, and its controller while it leads."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

from spinney.api.roles.catalog import DYNAMO_LEASE
from spinney.cli.operator_settings import dynamo_settings_of
from spinney.cli.roles import Told
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.connect import connect
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.dynamo.running import FIELD_MANAGER, Dynamo
from spinney.drive.loop.election import LEASES, Election, Leadership, Terms


def create(told: Told) -> DynamoRole:
    return DynamoRole(told, connect(told.connection))


class DynamoRole:
    """One process: at most one controller of deployments at work in it."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._election = told.configuration.leader_election
        self._namespace = told.connection.namespace or "default"
        self._settings = dynamo_settings_of(told.configuration)
        self._transport = transport
        self._clock, self._dice = SystemClock(), system_dice()
        self._dynamo: Dynamo | None = None

    def trouble(self) -> str:
        """Waiting for leadership is well; a leader is ready when its views are."""
        if self._dynamo is None:
            return "" if self._election.enabled else "starting"
        return "" if self._dynamo.ready.is_set() else "views are not synced"

    def figures(self) -> dict[str, float]:
        return {"leading": float(self._dynamo is not None)}

    async def run(self) -> None:
        try:
            if self._election.enabled:
                await self._elect()
            else:
                await self._work(lambda: None)
        finally:
            await self._transport.close()

    async def _work(self, may_write: Callable[[], None]) -> None:
        self._dynamo = Dynamo(self._transport, self._clock, self._dice, self._settings, may_write=may_write)
        await self._dynamo.run()

    async def _elect(self) -> None:
        told = self._election
        lease = LEASES.ref(DYNAMO_LEASE, told.resource_namespace or self._namespace)
        terms = Terms(int(told.lease_duration_s), told.renew_deadline_s, told.retry_period_s)
        door = Door(self._transport, self._dice, field_manager=FIELD_MANAGER)
        identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        client = ApiClient(self._transport, self._dice)
        election = Election(client, door, lease, identity, self._clock, self._dice, terms=terms)

        async def lead(leadership: Leadership) -> None:
            await self._work(leadership.check)

        await election.run(lead)
