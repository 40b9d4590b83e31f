"""Nodes, small controllers and a binder over one transport: whatever a cluster needs beside its API server.

The transport decides what it runs against: the embedded server in process, or any server over HTTP. It never starts or
stops a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kube_apimachinery.clock import Clock, Dice
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.settings import Settings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.roles import Roles, RoleSettings, RoleTransports
from spinney.sim.binder import Binder
from spinney.sim.controllers.manager import ALL, Controllers
from spinney.sim.nodes.simulated_nodes import NodeBehaviour, SimulatedNodes
from spinney.sim.objects import Json, Views


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs. `beside_kubelets`: there are nodes that are not simulated, and real controllers that look after all.

    `binds`: which scheduler names the first-fit binder takes; None: there is no binder.

    The others are those of `RoleSettings`: what our roles are given, if they run beside.
    """

    nodes: Sequence[Json] = ()
    behaviour: NodeBehaviour = field(default_factory=NodeBehaviour)
    beside_kubelets: bool = False
    controllers: Sequence[str] = ALL
    binds: Callable[[str], bool] | None = None
    operator: Settings | None = None
    scheduler: SchedulerSettings | None = None
    record_keys: Sequence[bytes] = ()
    dynamo: DynamoSettings | None = None

    @property
    def roles(self) -> RoleSettings:
        return RoleSettings(self.operator, self.scheduler, self.record_keys, self.dynamo)


class Stack:
    """Build it on a transport, `run` it. Our roles may have transports, and so identities, of their own."""

    def __init__(
        self, transport: Transport, clock: Clock, dice: Dice, parts: Parts, roles: RoleTransports | None = None
    ) -> None:
        own_writes = OwnWrites()
        self.client = ApiClient(transport, dice)
        self.door = Door(transport, dice, field_manager="spinney-sim", own_writes=own_writes)
        self.caches = SharedCaches(self.client, own_writes, dice)
        self.views = Views(self.caches, parts.beside_kubelets)
        behaviour = replace(parts.behaviour, lifecycle=parts.behaviour.lifecycle and not parts.beside_kubelets)
        self.nodes = SimulatedNodes(self.views, self.door, self.client, clock, dice, behaviour)
        self._parts = parts
        self._controllers = Controllers(self.views, self.door, self.client, clock, dice, parts.controllers)
        takes = parts.binds
        self._binder = Binder(self.views, self.door, self.client, dice, takes) if takes is not None else None
        self.roles = Roles(roles or RoleTransports(transport, transport, transport), clock, dice, parts.roles)
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. `registered` is set when the nodes of the file are there.

        The order in which tasks are made is the order in which they first run: another order is another history for
        every seed.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="watches")
            group.create_task(self.nodes.run(), name="nodes")
            group.create_task(self._controllers.run(), name="controllers")
            if self._binder is not None:
                group.create_task(self._binder.controller.run(), name="binder")
            self.roles.start(group)
            await self.nodes.register(self._parts.nodes)
            self.registered.set()
