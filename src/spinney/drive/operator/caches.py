"""The operator's caches. Children are found by the uid of their owner and by labels, never by their names.

Every cache has to be requested before the shared caches run. What an expansion asks them is recorded as its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from spinney.api.builtin.surroundings import Service
from spinney.api.builtin.workloads import HorizontalPodAutoscaler
from spinney.api.changes import Json, Resource
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding, in_force
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import (
    APP_MANAGED_BY,
    APP_PART_OF,
    BASE_PODGANG,
    MANAGED_BY_OPERATOR,
    PODGANG,
)
from spinney.api.meta import ObjectMeta, PartialObject
from spinney.core.expansion import objects
from spinney.core.expansion.components.initc_rbac import Access, Role
from spinney.core.expansion.podclique.pod_state import Pod, has_scheduled
from spinney.core.expansion.podclique.podclique import Claims
from spinney.core.expansion.podcliqueset.set_layout import Revisions, revisions_of
from spinney.core.expansion.settings import Settings
from spinney.core.topology_constraints import possible_topologies
from spinney.drive.apply.change_applier import path_of
from spinney.drive.client.api import Selection
from spinney.drive.client.informers.cache import Change, IndexKeys
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import Key
from spinney.drive.controller.reconcile_cache import Reads, RecordedCache

T = TypeVar("T")

_OURS = f"{APP_MANAGED_BY}={MANAGED_BY_OPERATOR}"


class OperatorCaches:
    """The caches by kind. Kinds that the API server need not serve are cached only where it serves them."""

    def __init__(
        self,
        caches: SharedCaches,
        optional_caches: OptionalCaches,
        settings: Settings,
        has_claims: bool = True,
        has_compute_domains: bool = False,
    ) -> None:
        def by_topology(podcliqueset: PodCliqueSet) -> tuple[str, ...]:
            return possible_topologies(podcliqueset, settings.default_topology)

        self._caches = caches
        self._optional_caches = optional_caches
        self._revisions: dict[str, tuple[int, Revisions]] = {}
        self.reads = Reads()
        self.sets = self._cache(objects.PODCLIQUESETS, PodCliqueSet, {"topology": by_topology})
        self.cliques = self._cache(objects.PODCLIQUES, PodClique, _CLIQUE_INDEXES)
        self.groups = self._cache(objects.SCALING_GROUPS, PodCliqueScalingGroup, _BY_OWNER)
        self.gangs = self._cache(objects.PODGANGS, PodGang, _BY_OWNER)
        self.services = self._ours(objects.SERVICES, Service)
        self.autoscalers = self._ours(objects.AUTOSCALERS, HorizontalPodAutoscaler)
        self.accounts = self._ours(objects.SERVICE_ACCOUNTS, PartialObject)
        self.roles = self._ours(objects.ROLES, Role)
        self.bindings = self._ours(objects.ROLE_BINDINGS, PartialObject)
        self.pods = self._ours(objects.PODS, Pod)
        self.claims = self._ours(objects.CLAIMS, PartialObject) if has_claims else None
        self.claim_templates: RecordedCache[Json] | None = (
            self._cache(objects.CLAIM_TEMPLATES, dict) if has_claims else None
        )
        self.compute_domains = (
            self._cache(objects.COMPUTE_DOMAINS, PartialObject, _BY_SET, _OURS) if has_compute_domains else None
        )
        self.topologies = self._optional(objects.CLUSTERTOPOLOGIES, ClusterTopology)
        self.topology_bindings = self._optional(objects.TOPOLOGY_BINDINGS, ClusterTopologyBinding)
        self.nodes = self._cache(objects.NODES, PartialObject)
        watched = {resource for backend in settings.backends.values() for resource in backend.watches}
        self.foreign: dict[Resource, RecordedCache[Json]] = {
            resource: self._cache(resource, dict) for resource in sorted(watched, key=str)
        }
        self.sets.cache.subscribe(self._forget)

    @property
    def accessories(self) -> list[RecordedCache[Any]]:
        """What a set has beside cliques, groups and gangs."""
        return [self.services, self.autoscalers, self.accounts, self.roles, self.bindings]

    async def wait_synced(self) -> None:
        own: list[RecordedCache[Any]] = [self.sets, self.cliques, self.groups, self.gangs, self.pods, *self.accessories]
        optional: list[RecordedCache[Any] | None] = [self.claims, self.claim_templates, self.compute_domains]
        for cache in [*own, self.topologies, self.topology_bindings, self.nodes, *self.foreign.values(), *optional]:
            if cache is not None:
                await cache.cache.wait_synced()

    def revisions(self, podcliqueset: PodCliqueSet) -> Revisions:
        """The revisions of a PodCliqueSet, computed once for each generation."""
        metadata = podcliqueset.metadata
        known = self._revisions.get(metadata.uid)
        if known is None or known[0] != metadata.generation:
            known = (metadata.generation, revisions_of(podcliqueset))
            self._revisions[metadata.uid] = known
        return known[1]

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """An object of a kind that a backend watches, or a ClusterTopologyBinding."""
        if resource == objects.TOPOLOGY_BINDINGS:
            binding = self.topology_bindings.get(("", name))
            return objects.to_builtins(binding) if binding is not None else None
        return self.foreign[resource].get((namespace, name))

    def topology(self, name: str) -> AnyTopology | None:
        """The topology of that name, of whichever kind counts (T8)."""
        return in_force(self.topology_bindings.get(("", name)), self.topologies.get(("", name)))

    def cliques_of(self, podcliqueset: PodCliqueSet) -> list[PodClique]:
        """The PodCliques of a PodCliqueSet and of its scaling groups."""
        groups = self.groups.by("owner", owner_key(podcliqueset.metadata))
        owners = [podcliqueset.metadata, *(group.metadata for group in groups)]
        return [clique for owner in owners for clique in self.cliques.by("owner", owner_key(owner))]

    def has_scheduled(self, podcliqueset: PodCliqueSet) -> bool:
        cliques = self.cliques_of(podcliqueset)
        return has_scheduled(cliques, self.pods_of(cliques).values())

    def pods_of(self, cliques: Iterable[PodClique]) -> dict[str, list[Pod]]:
        """The pods of the given PodCliques, by the uid of the PodClique."""
        return {clique.metadata.uid: self.pods.by("owner", owner_key(clique.metadata)) for clique in cliques}

    def set_of(self, metadata: ObjectMeta) -> PodCliqueSet | None:
        """The PodCliqueSet named by an object's label, if the set or one of its scaling groups really controls it."""
        found = self.sets.get((metadata.namespace, metadata.labels.get(APP_PART_OF, "")))
        owner = metadata.controller
        if found is None or owner is None:
            return None
        if owner.uid == found.metadata.uid:
            return found
        group = self.groups.get((metadata.namespace, owner.name))
        if group is None or group.metadata.uid != owner.uid:
            return None
        above = group.metadata.controller
        return found if above is not None and above.uid == found.metadata.uid else None

    def access_of(self, podcliqueset: PodCliqueSet) -> Access:
        """The ServiceAccount, Role and RoleBinding that init containers of a set need, as far as they exist."""
        owner = owner_key(podcliqueset.metadata)
        return Access(*(_first(cache.by("owner", owner)) for cache in (self.accounts, self.roles, self.bindings)))

    def claims_of(self, owner: ObjectMeta) -> Claims:
        """The ResourceClaims of an owner and a lookup of templates; both empty where the server serves no claims."""
        if self.claims is None or self.claim_templates is None:
            return (), lambda namespace, name: None
        templates = self.claim_templates

        def find(namespace: str, name: str) -> Json | None:
            found = templates.get((namespace, name))
            return found["spec"] if found is not None else None

        return self.claims.by("owner", owner_key(owner)), find

    def domains_of(self, namespace: str, podcliqueset: str) -> list[PartialObject]:
        """The ComputeDomains created for a set of this name, also for a set that has been deleted."""
        if self.compute_domains is None:
            return []
        return self.compute_domains.by("set", label_key(namespace, podcliqueset))

    def _ours(self, resource: Resource, kind: type[T]) -> RecordedCache[T]:
        """A cache of the objects that the operator created (managed-by label), indexed by owner."""
        return self._cache(resource, kind, _BY_OWNER, _OURS)

    def _cache(
        self, resource: Resource, kind: type[T], indexes: Mapping[str, IndexKeys[T]] | None = None, labels: str = ""
    ) -> RecordedCache[T]:
        selection = Selection(path_of(resource), labels=labels)
        return RecordedCache(self._caches.cache(selection, kind, indexes=indexes), self.reads)

    def _optional(self, resource: Resource, kind: type[T]) -> RecordedCache[T]:
        return RecordedCache(self._optional_caches.expect(path_of(resource), kind), self.reads)

    def _forget(self, change: Change[PodCliqueSet]) -> None:
        if change.new is None and change.old is not None:
            self._revisions.pop(change.old.metadata.uid, None)


def label_key(namespace: str, value: str) -> str:
    return f"{namespace}/{value}"


def set_key(metadata: ObjectMeta) -> list[Key]:
    """The key of the PodCliqueSet that an object belongs to, read from its part-of label."""
    name = metadata.labels.get(APP_PART_OF)
    return [(metadata.namespace, name)] if name else []


def _first(found: list[Any]) -> Any:
    return found[0] if found else None


def owner_key(owner: ObjectMeta) -> str:
    """The key of the index `owner`: an object of another namespace that names the owner's uid is not owned by it."""
    return f"{owner.namespace}/{owner.uid}"


def _owner(thing: Any) -> tuple[str, ...]:
    owner = thing.metadata.controller
    return (f"{thing.metadata.namespace}/{owner.uid}",) if owner is not None else ()


def _labelled(metadata: ObjectMeta, label: str) -> tuple[str, ...]:
    value = metadata.labels.get(label)
    return (label_key(metadata.namespace, value),) if value else ()


_BY_OWNER: Mapping[str, IndexKeys[Any]] = {"owner": _owner}
_BY_SET: Mapping[str, IndexKeys[Any]] = {"set": lambda domain: _labelled(domain.metadata, APP_PART_OF)}
_CLIQUE_INDEXES: Mapping[str, IndexKeys[PodClique]] = {
    "owner": _owner,
    "set": lambda clique: _labelled(clique.metadata, APP_PART_OF),
    "gang": lambda clique: _labelled(clique.metadata, PODGANG),
    "base": lambda clique: _labelled(clique.metadata, BASE_PODGANG),
}
