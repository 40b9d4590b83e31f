"""The work of a role that only one process may do at a time: while it leads, or at once where nobody is elected."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable

from spinney.cli.roles import Told
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.election import LEASES, Election, Leadership, Terms

MayWrite = Callable[[], None]
Work = Callable[[int, MayWrite], Awaitable[None]]
"""Is given the epoch of its leadership, 0 without an election, and what to ask before each write."""


async def _from_nothing() -> int:
    """No record of this role has an epoch."""
    return 0


async def while_leading(
    told: Told,
    transport: Transport,
    lease: str,
    field_manager: str,
    work: Work,
    *,
    highest_epoch: Callable[[], Awaitable[int]] = _from_nothing,
) -> None:
    """Until the work or the leadership ends; the transport is closed then. Epochs begin above the highest one found."""
    election = told.configuration.leader_election
    try:
        if not election.enabled:
            await work(0, lambda: None)
            return
        clock, dice = SystemClock(), system_dice()
        floor = await highest_epoch()
        candidate = Election(
            ApiClient(transport, dice),
            Door(transport, dice, field_manager=field_manager),
            LEASES.ref(lease, election.resource_namespace or told.connection.namespace or "default"),
            f"{socket.gethostname()}-{secrets.token_hex(4)}",
            clock,
            dice,
            terms=Terms(int(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s),
            epoch_floor=lambda: floor,
        )

        async def lead(leadership: Leadership) -> None:
            await work(leadership.epoch, leadership.check)

        await candidate.run(lead)
    finally:
        await transport.close()
