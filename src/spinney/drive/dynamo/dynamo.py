"""The Dynamo role: one controller for DynamoGraphDeployments over its caches, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from kube_apimachinery.clock import Clock, Dice
from spinney.api.changes import ChangeSet, EmitEvent, SetStatus
from spinney.api.labels import APP_PART_OF, DYNAMO_GRAPH_DEPLOYMENT
from spinney.core.expansion.dynamo.deployment import expand
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.core.expansion.resource_kinds import PODCLIQUESETS
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.apply.change_events import Refusal
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.informers.expectations import OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.drive.controller.unreadable_events import UnreadableEvents
from spinney.drive.dynamo.caches import DynamoCaches, deployment_of

FIELD_MANAGER = "dynamo-operator"
_GATHER_S = 0.05
_WORKERS = 5

_log = structlog.get_logger(__name__)


class Dynamo:
    """Start it with `run`. `ready` is set once the caches are synced; `may_write` is called before each write."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: DynamoSettings,
        *,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.ready = asyncio.Event()
        own_writes = OwnWrites()
        self._client = ApiClient(transport, dice)
        self._caches = SharedCaches(self._client, own_writes, dice)
        self._clock, self._dice, self._settings = clock, dice, settings
        door = Door(transport, dice, field_manager=FIELD_MANAGER, own_writes=own_writes, may_write=may_write)
        self._change_applier = ChangeApplier(door, clock, FIELD_MANAGER)
        self.unreadable = self._caches.unreadable
        self._complaints = UnreadableEvents(self.unreadable, door, clock, FIELD_MANAGER)
        self._refused: dict[Key, str] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        self._views = DynamoCaches(self._caches, self._settings)
        controller = self._controller()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._caches.run(), name="dynamo-watches")
            group.create_task(controller.run(), name="dynamo-controller")
            group.create_task(self._complaints.run(), name="dynamo-complaints")
            await self._views.wait_synced()
            self.ready.set()

    def _controller(self) -> Controller[Key]:
        views = self._views
        sources: list[Source[Key]] = [
            Source(views.deployments, lambda change: (change.key,)),
            Source(views.sets, lambda change: deployment_of(_either(change)), _GATHER_S),
            *(Source(cache, self._of_child, _GATHER_S) for cache in (views.cliques, views.groups, views.gangs)),
            *(Source(cache, _of_accessory) for cache in views.accessories.values()),
        ]
        if views.queues is not None:
            sources.append(Source(views.queues, self._of_queue))
        return Controller("dynamo", sources, self._reconcile, self._client, self._dice, workers=_WORKERS)

    async def _reconcile(self, key: Key) -> Result:
        refusals: list[Refusal] = []
        expansion = self._expanded(key)
        try:
            whole = await self._change_applier.carry_out(expansion.changes, None, refusals)
        except ClientError:
            await self._report_refusal(key, refusals)
            raise
        _note(expansion)
        if self._refused.pop(key, ""):
            return RequeueAfter(_GATHER_S)
        return Done() if whole else RequeueAfter(_GATHER_S)

    async def _report_refusal(self, key: Key, refusals: list[Refusal]) -> None:
        """D13: a refusal of the PodCliqueSet is reported on the deployment."""
        about = [each for each in refusals if each.change.target.resource == PODCLIQUESETS]
        if not about:
            return
        if self._refused.get(key) == about[0].words:
            return
        self._refused[key] = about[0].words
        told = self._expanded(key)
        await self._change_applier.carry_out([each for each in told.changes if isinstance(each, SetStatus | EmitEvent)])
        _note(told)

    def _expanded(self, key: Key) -> ChangeSet:
        """The expansion; the refusal of the last attempt is reported until another attempt has a different result."""
        found = self._views.deployments.get(key)
        if found is None:
            self._refused.pop(key, None)
            return ChangeSet()
        return expand(found, self._views.observed(found, self._clock.now(), self._refused.get(key, "")))

    def _of_child(self, change: Change[Any]) -> Iterable[Key]:
        namespace, name = change.key[0], _either(change).metadata.labels.get(APP_PART_OF)
        above = self._views.sets.get((namespace, name)) if name else None
        return deployment_of(above) if above is not None else []

    def _of_queue(self, change: Change[Any]) -> Iterable[Key]:
        """Any deployment may wait for a queue, so a created or deleted queue enqueues all of them."""
        came_or_went = change.old is None or change.new is None
        return self._views.deployments.keys() if came_or_went else []


def _either(change: Change[Any]) -> Any:
    return change.new if change.new is not None else change.old


def _of_accessory(change: Change[Any]) -> Iterable[Key]:
    if change.new is not None and change.old is not None:
        return []
    name = _either(change).metadata.labels.get(DYNAMO_GRAPH_DEPLOYMENT)
    return [(change.key[0], name)] if name else []


def _note(expansion: ChangeSet) -> None:
    """D10: events about topology are logged as well."""
    for change in expansion.changes:
        if isinstance(change, EmitEvent):
            log = _log.warning if change.warning else _log.info
            log(change.message, reason=change.reason, deployment=f"{change.target.namespace}/{change.target.name}")
