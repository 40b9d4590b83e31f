"""Nodes, small controllers and a binder over one transport: whatever a cluster needs beside its API server.

The transport decides what it runs against: the embedded server in process, or any server over HTTP. It never starts or
stops a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kube_apimachinery.clock import Clock, Dice
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.settings import Settings
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.expectations import OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.dynamo import Dynamo
from spinney.drive.grouper.grouper import Grouper
from spinney.drive.operator.operator import Operator
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.binder import Binder
from spinney.sim.controllers.manager import ALL, Controllers
from spinney.sim.nodes.simulated_nodes import NodeBehaviour, SimulatedNodes
from spinney.sim.objects import Json, Views


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs. `binds`: which scheduler names the first-fit binder takes; None: there is no binder.

    `operator`: what the operator was told; None: there is no operator. `scheduler`: what the scheduler was told, and
    with it the pod-grouper; None: there is neither. `record_keys`: what its plans are signed with. `dynamo`: what the
    Dynamo part was told; None: there is none.
    """

    nodes: Sequence[Json] = ()
    behaviour: NodeBehaviour = field(default_factory=NodeBehaviour)
    controllers: Sequence[str] = ALL
    binds: Callable[[str], bool] | None = None
    operator: Settings | None = None
    scheduler: SchedulerSettings | None = None
    record_keys: Sequence[bytes] = ()
    dynamo: DynamoSettings | None = None


class Stack:
    """Build it on a transport, `run` it. Operator and scheduler may have transports, and so identities, of their own.

    The pod-grouper goes in as the scheduler.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        parts: Parts,
        *,
        operator: Transport | None = None,
        scheduler: Transport | None = None,
        dynamo: Transport | None = None,
    ) -> None:
        own_writes = OwnWrites()
        self.client = ApiClient(transport, dice)
        self.door = Door(transport, dice, field_manager="spinney-sim", own_writes=own_writes)
        self.caches = SharedCaches(self.client, own_writes, dice)
        self.views = Views(self.caches)
        self.nodes = SimulatedNodes(self.views, self.door, self.client, clock, dice, parts.behaviour)
        self._parts = parts
        self._controllers = Controllers(self.views, self.door, self.client, clock, dice, parts.controllers)
        takes = parts.binds
        self._binder = Binder(self.views, self.door, self.client, dice, takes) if takes is not None else None
        told = parts.operator
        self.operator = Operator(operator or transport, clock, dice, told) if told is not None else None
        self.operating = self.operator.ready if self.operator is not None else _set()
        self.scheduler: Scheduler | None = None
        self.grouper: Grouper | None = None
        if parts.scheduler is not None:
            names = GrouperSettings(scheduler_names=parts.scheduler.names)
            inward = scheduler or transport
            self.scheduler = Scheduler(inward, clock, dice, parts.scheduler, record_keys=parts.record_keys)
            self.grouper = Grouper(inward, clock, dice, names)
        self.scheduling = self.scheduler.ready if self.scheduler is not None else _set()
        graphs = parts.dynamo
        self.dynamo = Dynamo(dynamo or transport, clock, dice, graphs) if graphs is not None else None
        self.deploying = self.dynamo.ready if self.dynamo is not None else _set()
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. `registered` is set when the nodes of the file are there, `operating` with the operator,
        `scheduling` with the scheduler, `deploying` with the Dynamo part.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="watches")
            group.create_task(self.nodes.run(), name="nodes")
            group.create_task(self._controllers.run(), name="controllers")
            if self._binder is not None:
                group.create_task(self._binder.controller.run(), name="binder")
            if self.operator is not None:
                group.create_task(self.operator.run(), name="operator")
            if self.scheduler is not None:
                group.create_task(self.scheduler.run(), name="scheduler")
            if self.grouper is not None:
                group.create_task(self.grouper.run(), name="pod-grouper")
            if self.dynamo is not None:
                group.create_task(self.dynamo.run(), name="dynamo")
            await self.nodes.register(self._parts.nodes)
            self.registered.set()


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
