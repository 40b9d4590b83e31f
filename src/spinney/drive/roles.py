"""The roles of an installation in one process, each with a transport, and so an identity, of its own.

For processes that run all of them without an election, such as `spinney up` and simulated worlds. Never starts or stops
an API server.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from kube_apimachinery.clock import Clock, Dice
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.settings import Settings as OperatorSettings
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.dynamo import Dynamo
from spinney.drive.grouper.grouper import Grouper
from spinney.drive.operator.operator import Operator
from spinney.drive.scheduler.execution.signing_keys import find_record_keys
from spinney.drive.scheduler.scheduler import FIELD_MANAGER, Scheduler


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """What each role is given; None: it does not run. The pod-grouper runs with the scheduler.

    `record_keys`: what the scheduler signs its plans with.
    """

    operator: OperatorSettings | None = None
    scheduler: SchedulerSettings | None = None
    record_keys: Sequence[bytes] = ()
    dynamo: DynamoSettings | None = None


@dataclass(frozen=True, slots=True)
class RoleTransports:
    """Ways to the API server. The pod-grouper goes in as the scheduler."""

    operator: Transport
    scheduler: Transport
    dynamo: Transport


class Roles:
    """Build it, then `start` it. `operating`, `scheduling` and `deploying` are set when operator, scheduler and Dynamo
    part have synced their caches, or do not run.
    """

    def __init__(self, transports: RoleTransports, clock: Clock, dice: Dice, settings: RoleSettings) -> None:
        self.operator: Operator | None = None
        self.scheduler: Scheduler | None = None
        self.grouper: Grouper | None = None
        self.dynamo: Dynamo | None = None
        if settings.operator is not None:
            self.operator = Operator(transports.operator, clock, dice, settings.operator)
        if settings.scheduler is not None:
            inward, keys = transports.scheduler, settings.record_keys
            self.scheduler = Scheduler(inward, clock, dice, settings.scheduler, record_keys=keys)
            self.grouper = Grouper(inward, clock, dice, GrouperSettings(scheduler_names=settings.scheduler.names))
        if settings.dynamo is not None:
            self.dynamo = Dynamo(transports.dynamo, clock, dice, settings.dynamo)
        self.operating = self.operator.ready if self.operator is not None else _set()
        self.scheduling = self.scheduler.ready if self.scheduler is not None else _set()
        self.deploying = self.dynamo.ready if self.dynamo is not None else _set()

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """A task for each role that runs, until it is cancelled."""
        roles = {
            "operator": self.operator,
            "scheduler": self.scheduler,
            "pod-grouper": self.grouper,
            "dynamo": self.dynamo,
        }
        return [group.create_task(role.run(), name=name) for name, role in roles.items() if role is not None]


async def record_keys(transport: Transport, namespace: str, dice: Dice) -> tuple[bytes, ...]:
    """The keys that plans are signed with, as they are in the cluster now; made where there are none."""
    door = Door(transport, dice, field_manager=FIELD_MANAGER)
    return await find_record_keys(ApiClient(transport, dice), door, namespace, dice, secrets.token_bytes)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
