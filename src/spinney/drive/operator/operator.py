"""The operator: start-up checks first, then its controllers over shared caches, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kube_apimachinery.clock import Clock, Dice
from spinney.core.expansion.objects import CLUSTERTOPOLOGIES, TOPOLOGY_BINDINGS
from spinney.core.expansion.settings import Settings
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.controller.unreadable_events import UnreadableEvents
from spinney.drive.operator import (
    clustertopology_controller,
    podclique_controller,
    podcliquescalinggroup_controller,
    podcliqueset_controller,
    podgang_controller,
)
from spinney.drive.operator.caches import OperatorCaches
from spinney.drive.operator.reconciler import ReconcileContext
from spinney.drive.operator.startup import has_claims, has_compute_domains, served, synchronise

FIELD_MANAGER = "grove-operator"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many objects of a kind are reconciled at a time (workers per controller)."""

    podcliqueset: int = 10
    podclique: int = 10
    scaling_group: int = 5
    podgang: int = 5


class Operator:
    """Start it with `run`. `ready` is set once the caches are synced; `may_write` is called before each write."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: Settings,
        *,
        concurrency: Concurrency | None = None,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.ready = asyncio.Event()
        self._own_writes = OwnWrites()
        self._client = ApiClient(transport, dice)
        self.caches = SharedCaches(self._client, self._own_writes, dice)
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._workers = concurrency or Concurrency()
        door = Door(transport, dice, field_manager=FIELD_MANAGER, own_writes=self._own_writes, may_write=may_write)
        self._change_applier = ChangeApplier(door, clock)
        self._complaints = UnreadableEvents(self.caches.unreadable, door, clock, FIELD_MANAGER)

    async def run(self) -> None:
        """Run until cancelled. Raises `StartupFailed` if the start-up checks fail."""
        await served(self._client, self._settings)
        domains = await has_compute_domains(self._client, self._settings)
        await synchronise(self._client, self._change_applier, self._settings)
        optional = OptionalCaches(self._client, self._own_writes, self._dice, self.caches.unreadable)
        views = OperatorCaches(self.caches, optional, self._settings, await has_claims(self._client), domains)
        context = ReconcileContext(views, self._settings, self._change_applier, self._client, self._clock, self._dice)
        controllers = [
            podcliqueset_controller.controller(context, self._workers.podcliqueset),
            podcliquescalinggroup_controller.controller(context, self._workers.scaling_group),
            podclique_controller.controller(context, self._workers.podclique),
            podgang_controller.controller(context, self._workers.podgang),
            clustertopology_controller.controller(context, CLUSTERTOPOLOGIES, views.topologies),
            clustertopology_controller.controller(context, TOPOLOGY_BINDINGS, views.topology_bindings),
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="operator-watches")
            await optional.refresh()
            group.create_task(optional.run(), name="operator-optional-watches")
            group.create_task(self._change_applier.event_recorder.run(), name="operator-events")
            group.create_task(self._complaints.run(), name="operator-complaints")
            for controller in controllers:
                group.create_task(controller.run(), name=f"{controller.name}-controller")
            await views.wait_synced()
            self.ready.set()
