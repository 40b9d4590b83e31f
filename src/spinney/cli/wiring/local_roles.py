"""Everything that stands on an API server in `spinney up` and `spinney demo`: nodes, controllers and our roles.

Never starts or stops the server.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import NAMESPACE
from spinney.cli.wiring.api_servers import ApiServer
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.clock import SystemClock, system_dice
from spinney.drive.operator.settings_from_config import settings_of
from spinney.drive.scheduler.execution.signing_keys import find_record_keys
from spinney.drive.scheduler.scheduler import FIELD_MANAGER
from spinney.sim.controllers.manager import ALL
from spinney.sim.kubernetes.assets import StartFailed
from spinney.sim.stack import Parts, Stack
from spinney.whatif.inputs.operator_settings import dynamo_settings_of

_CHECK_INTERVAL_S = 0.5


@asynccontextmanager
async def running_roles(
    api: ApiServer,
    nodes: Sequence[dict[str, Any]],
    configuration: OperatorConfiguration,
    controllers: Sequence[str] = ALL,
) -> AsyncIterator[Stack]:
    """From the moment everybody is at work until the block ends. A server that ends by itself ends the block."""
    roles = {role: api.as_role(role) for role in ("operator", "scheduler", "dynamo")}
    parts = Parts(
        nodes=nodes,
        controllers=controllers,
        operator=settings_of(configuration),
        scheduler=SchedulerSettings(names=frozenset({SCHEDULER_KAI, SCHEDULER_DEFAULT})),
        record_keys=await _record_keys(roles["scheduler"]),
        dynamo=dynamo_settings_of(configuration),
    )
    stack = Stack(api.transport, SystemClock(), system_dice(), parts, **roles)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(stack.run(), name="stack"),
            group.create_task(_watch_over(api), name="server"),
        ]
        for ready in (stack.registered, stack.operating, stack.scheduling, stack.deploying):
            await ready.wait()
        yield stack
        for task in tasks:
            task.cancel()


async def _record_keys(transport: Transport) -> tuple[bytes, ...]:
    """As a scheduler in a cluster finds them; kept with everything else that the server has."""
    dice = system_dice()
    door = Door(transport, dice, field_manager=FIELD_MANAGER)
    return await find_record_keys(ApiClient(transport, dice), door, NAMESPACE, dice, secrets.token_bytes)


async def _watch_over(api: ApiServer) -> None:
    while (ended := api.ended()) is None:  # noqa: ASYNC110 - a process tells nobody that it ended
        await asyncio.sleep(_CHECK_INTERVAL_S)
    raise StartFailed(f"{ended} ended by itself")
