"""The operator against a cluster: leader election, and the operator while it leads."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

from spinney.cli.roles import Told
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.connect import connect
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.election import LEASES, Election, Leadership, Terms
from spinney.drive.loop.operator.configured import concurrency_of, settings_of
from spinney.drive.loop.operator.running import FIELD_MANAGER, Operator


def create(told: Told) -> OperatorRole:
    return OperatorRole(told, connect(told.connection))


class OperatorRole:
    """One operator process: at most one operator at work in it."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._configuration = told.configuration
        self._namespace = told.connection.namespace or "default"
        self._transport = transport
        self._clock, self._dice = SystemClock(), system_dice()
        self._operator: Operator | None = None

    def trouble(self) -> str:
        """Waiting for leadership is well; a leader is ready when its views are."""
        if self._operator is None:
            return "" if self._configuration.leader_election.enabled else "starting"
        troubles = "; ".join(self._operator.caches.troubles)
        if self._operator.ready.is_set():
            return troubles
        return f"views are not synced: {troubles}" if troubles else "views are not synced"

    def figures(self) -> dict[str, float]:
        return {"leading": float(self._operator is not None)}

    async def run(self) -> None:
        try:
            if self._configuration.leader_election.enabled:
                await self._elect()
            else:
                await self._operate(lambda: None)
        finally:
            await self._transport.close()

    async def _operate(self, may_write: Callable[[], None]) -> None:
        settings = settings_of(self._configuration)
        workers = concurrency_of(self._configuration)
        self._operator = Operator(
            self._transport, self._clock, self._dice, settings, concurrency=workers, may_write=may_write
        )
        await self._operator.run()

    async def _elect(self) -> None:
        told = self._configuration.leader_election
        lease = LEASES.ref(told.resource_name, told.resource_namespace or self._namespace)
        terms = Terms(int(told.lease_duration_s), told.renew_deadline_s, told.retry_period_s)
        door = Door(self._transport, self._dice, field_manager=FIELD_MANAGER)
        client = ApiClient(self._transport, self._dice)
        identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        election = Election(client, door, lease, identity, self._clock, self._dice, terms=terms)

        async def lead(leadership: Leadership) -> None:
            await self._operate(leadership.check)

        await election.run(lead)
