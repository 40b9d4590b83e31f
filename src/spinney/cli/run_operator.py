"""The operator against a cluster: leader election, and the operator while it leads."""

from __future__ import annotations

from spinney.cli.leading import MayWrite, while_leading
from spinney.cli.roles import Told
from spinney.drive.client.transport import Transport
from spinney.drive.client.unreadable import figures as unreadable_figures
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.operator.configured import concurrency_of, settings_of
from spinney.drive.loop.operator.running import FIELD_MANAGER, Operator


def create(told: Told) -> OperatorRole:
    return OperatorRole(told, told.connect())


class OperatorRole:
    """One operator process: at most one operator at work in it."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._configuration = told.configuration
        self._told = told
        self._transport = transport
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
        unreadable = [self._operator.caches.unreadable] if self._operator is not None else []
        return {"leading": float(self._operator is not None), **unreadable_figures(*unreadable)}

    async def run(self) -> None:
        lease = self._configuration.leader_election.resource_name
        await while_leading(self._told, self._transport, lease, FIELD_MANAGER, self._operate)

    async def _operate(self, epoch: int, may_write: MayWrite) -> None:
        settings = settings_of(self._configuration)
        workers = concurrency_of(self._configuration)
        self._operator = Operator(
            self._transport, SystemClock(), system_dice(), settings, concurrency=workers, may_write=may_write
        )
        await self._operator.run()
