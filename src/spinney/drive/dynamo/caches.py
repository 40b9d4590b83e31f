"""The caches of the Dynamo controller. It never reads a ClusterTopology (D7)."""

from __future__ import annotations

from typing import Any, TypeVar

from spinney.api.changes import Json, Resource, Target, resource_of
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.queue import Queue
from spinney.api.labels import APP_PART_OF, DYNAMO_GRAPH_DEPLOYMENT
from spinney.api.meta import ObjectMeta, PartialObject
from spinney.core.expansion import resource_kinds
from spinney.core.expansion.dynamo import names
from spinney.core.expansion.dynamo.deployment import DEPLOYMENTS
from spinney.core.expansion.dynamo.framework import Observed
from spinney.core.expansion.dynamo.podcliqueset import queue_of
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.drive.apply.change_applier import path_of
from spinney.drive.client.api import Selection
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import Key

T = TypeVar("T")
_ACCESSORIES = (
    resource_kinds.SERVICES,
    resource_kinds.SERVICE_ACCOUNTS,
    resource_kinds.ROLES,
    resource_kinds.ROLE_BINDINGS,
    resource_kinds.CONFIGMAPS,
)
_QUEUES = resource_of(Queue)


class DynamoCaches:
    """Caches by kind; children of PodCliqueSets are found by the label that names their set."""

    def __init__(self, caches: SharedCaches, settings: DynamoSettings) -> None:
        self._settings = settings
        self.deployments: Cache[Json] = caches.cache(Selection(path_of(DEPLOYMENTS)), dict)
        self.sets: Cache[Json] = caches.cache(Selection(path_of(resource_kinds.PODCLIQUESETS)), dict)
        self.cliques = _children(caches, resource_kinds.PODCLIQUES, PodClique)
        self.groups = _children(caches, resource_kinds.SCALING_GROUPS, PodCliqueScalingGroup)
        self.gangs = _children(caches, resource_kinds.PODGANGS, PodGang)
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
        name = names.podcliqueset(metadata["name"], deployment["spec"].get("components", []))
        live = self.sets.get((namespace, name))
        if live is not None and not _is_owned(live, uid):
            live, refusal = None, f"PodCliqueSet {name} is there and does not belong to this deployment"
        part = f"{namespace}/{name}"
        queue = queue_of(deployment, self._settings)
        return Observed(
            settings=self._settings,
            now_s=now_s,
            workload=live,
            cliques={each.metadata.name: each for each in self.cliques.by("set", part)},
            groups={each.metadata.name: each for each in self.groups.by("set", part)},
            gangs=self.gangs.by("set", part),
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
