"""The controllers of ClusterTopologies and ClusterTopologyBindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.api.changes import ChangeSet, Json, Resource
from spinney.api.kinds.clustertopology import ClusterTopologyBinding
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import PartialObject
from spinney.core.expansion import clustertopology
from spinney.core.expansion.objects import CLUSTERTOPOLOGIES
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.controller.reconcile_cache import RecordedCache
from spinney.drive.operator.reconciler import ReconcileContext, itself, same_spec


def controller(context: ReconcileContext, resource: Resource, topologies: RecordedCache[Any]) -> Controller[Key]:
    """The controller of one of the two kinds."""
    views = context.views

    def expand(key: Key) -> ChangeSet:
        found = topologies.get(key)
        if found is None:
            return ChangeSet()
        observed = clustertopology.Observed(
            views.sets.by("topology", key[1]),
            views.has_scheduled,
            [node.metadata.labels for node in views.nodes],
            views.find,
            context.settings,
            context.clock.now(),
            superseded=resource == CLUSTERTOPOLOGIES and views.topology_bindings.get(key) is not None,
        )
        return clustertopology.expand(found, observed)

    def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
        """A topology that is being deleted waits until no set uses it, so every change of a set may release it."""
        return [] if same_spec(change) else topologies.keys()

    def of_node(change: Change[PartialObject]) -> Iterable[Key]:
        old, new = change.old, change.new
        same = old is not None and new is not None and old.metadata.labels == new.metadata.labels
        return [] if same else topologies.keys()

    def of_twin(change: Change[Json]) -> Iterable[Key]:
        """Topologies of its name, and those that are bound to it."""
        name = change.key[1]
        return [("", name), *(("", each.metadata.name) for each in views.topology_bindings if _names(each, name))]

    twins = [cache for kind, cache in views.foreign.items() if not kind.namespaced]
    sources: list[Source[Key]] = [
        Source(topologies.cache, itself),
        Source(views.topology_bindings.cache, itself),
        *(Source(cache.cache, of_twin) for cache in twins),
    ]
    gathered: list[Source[Key]] = [Source(views.sets.cache, of_set), Source(views.nodes.cache, of_node)]
    return context.controller(resource.kind.lower(), sources, gathered, expand, 1)


def _names(binding: ClusterTopologyBinding, reference: str) -> bool:
    return any(each.topology_reference == reference for each in binding.spec.scheduler_topology_bindings)
