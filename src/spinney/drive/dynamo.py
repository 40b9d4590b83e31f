"""The Dynamo role: its caches, and one controller for DynamoGraphDeployments over its caches, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog

from kube_apimachinery.clock import Clock, Dice
from spinney.api.changes import ChangeSet, EmitEvent, Json, Resource, SetStatus, Target, resource_of
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.queue import Queue
from spinney.api.labels import APP_PART_OF, DYNAMO_GRAPH_DEPLOYMENT
from spinney.api.meta import ObjectMeta, PartialObject
from spinney.core.admission.decoding import items, part
from spinney.core.expansion import objects
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.deployment import DEPLOYMENTS, expand
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import Observed
from spinney.core.expansion.dynamo.podcliqueset import queue_of
from spinney.core.expansion.objects import PODCLIQUESETS
from spinney.drive.apply.change_applier import ChangeApplier, path_of
from spinney.drive.apply.change_events import Refusal
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import Cache, Change, OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.drive.controller.unreadable_events import UnreadableEvents

# The caches of the Dynamo controller. It never reads a ClusterTopology (D7).

T = TypeVar("T")
_ACCESSORIES = (
    objects.SERVICES,
    objects.SERVICE_ACCOUNTS,
    objects.ROLES,
    objects.ROLE_BINDINGS,
    objects.CONFIGMAPS,
)
_QUEUES = resource_of(Queue)


class DynamoCaches:
    """Caches by kind; children of PodCliqueSets are found by the label that names their set."""

    def __init__(self, caches: SharedCaches, settings: DynamoSettings) -> None:
        self._settings = settings
        self.deployments: Cache[Json] = caches.cache(Selection(path_of(DEPLOYMENTS)), dict)
        self.sets: Cache[Json] = caches.cache(Selection(path_of(objects.PODCLIQUESETS)), dict)
        self.cliques = _children(caches, objects.PODCLIQUES, PodClique)
        self.groups = _children(caches, objects.SCALING_GROUPS, PodCliqueScalingGroup)
        self.gangs = _children(caches, objects.PODGANGS, PodGang)
        self.queues: Cache[PartialObject] | None = None
        if settings.kai:
            self.queues = caches.cache(Selection(path_of(_QUEUES)), PartialObject)
        self.accessories: dict[Resource, Cache[PartialObject]] = {
            resource: caches.cache(Selection(path_of(resource), labels=DYNAMO_GRAPH_DEPLOYMENT), PartialObject)
            for resource in _ACCESSORIES
        }

    async def wait_synced(self) -> None:
        for cache in self.all():
            await cache.wait_synced()

    def all(self) -> list[Cache[Any]]:
        own: list[Cache[Any]] = [self.deployments, self.sets, self.cliques, self.groups, self.gangs]
        return [*own, *self.accessories.values(), *([self.queues] if self.queues is not None else [])]

    def observed(self, deployment: Json, now_s: float, refusal: str = "") -> Observed:
        metadata = deployment["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        name = generated_labels.podcliqueset(metadata["name"], items(part(deployment, "spec").get("components")))
        live = self.sets.get((namespace, name))
        if live is not None and not _is_owned(live, uid):
            live, refusal = None, f"PodCliqueSet {name} is there and does not belong to this deployment"
        child = f"{namespace}/{name}"
        queue = queue_of(deployment, self._settings)
        return Observed(
            settings=self._settings,
            now_s=now_s,
            workload=live,
            cliques={each.metadata.name: each for each in self.cliques.by("set", child)},
            groups={each.metadata.name: each for each in self.groups.by("set", child)},
            gangs=self.gangs.by("set", child),
            present=self._present(namespace),
            queue_exists=self.queues is None or ("", queue) in self.queues,
            refusal=refusal,
        )

    def _present(self, namespace: str) -> frozenset[Target]:
        return frozenset(
            resource.at(key[1], key[0])
            for resource, cache in self.accessories.items()
            for key in cache.keys()  # noqa: SIM118 - sorted keys of a cache
            if key[0] == namespace
        )


def _children(caches: SharedCaches, resource: Resource, kind: type[T]) -> Cache[T]:
    return caches.cache(Selection(path_of(resource)), kind, indexes={"set": _part_of})


def _part_of(thing: Any) -> tuple[str, ...]:
    metadata: ObjectMeta = thing.metadata
    found = metadata.labels.get(APP_PART_OF)
    return (f"{metadata.namespace}/{found}",) if found else ()


def _is_owned(live: Json, uid: str) -> bool:
    return any(one.get("uid") == uid for one in live["metadata"].get("ownerReferences") or ())


def deployment_of(live: Json) -> list[Key]:
    """The key of the DynamoGraphDeployment that owns a PodCliqueSet."""
    owners = live["metadata"].get("ownerReferences") or ()
    namespace = live["metadata"]["namespace"]
    return [(namespace, one["name"]) for one in owners if one.get("kind") == DEPLOYMENTS.kind]


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
        self.caches = SharedCaches(self._client, own_writes, dice)
        self._clock, self._dice, self._settings = clock, dice, settings
        door = Door(transport, dice, field_manager=FIELD_MANAGER, own_writes=own_writes, may_write=may_write)
        self._change_applier = ChangeApplier(door, clock, FIELD_MANAGER)
        self._complaints = UnreadableEvents(self.caches.unreadable, door, clock, FIELD_MANAGER)
        self._refused: dict[Key, str] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        self._views = DynamoCaches(self.caches, self._settings)
        controller = self._controller()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="dynamo-watches")
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
        expanded = self._expanded(key)
        await self._change_applier.carry_out(
            [each for each in expanded.changes if isinstance(each, SetStatus | EmitEvent)]
        )
        _note(expanded)

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
