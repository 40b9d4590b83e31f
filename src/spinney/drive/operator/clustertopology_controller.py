"""The ClusterTopology controller."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.changes import ChangeSet, Json
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import PartialObject
from spinney.core.expansion import clustertopology
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.operator.reconciler import ReconcileContext, itself, same_wish


def controller(context: ReconcileContext) -> Controller[Key]:
    views = context.views

    def expand(key: Key) -> ChangeSet:
        found = views.topologies.get(key)
        if found is None:
            return ChangeSet()
        nodes = [node.metadata.labels for node in views.nodes]
        sets = views.sets.by("topology", key[1])
        observed = clustertopology.Observed(
            sets, views.has_scheduled, nodes, views.find, context.settings, context.clock.now()
        )
        return clustertopology.expand(found, observed)

    def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
        """A topology that is being deleted waits until no set uses it, so every change of a set may release it."""
        return [] if same_wish(change) else views.topologies.keys()

    def of_node(change: Change[PartialObject]) -> Iterable[Key]:
        old, new = change.old, change.new
        same = old is not None and new is not None and old.metadata.labels == new.metadata.labels
        return [] if same else views.topologies.keys()

    def of_twin(change: Change[Json]) -> Iterable[Key]:
        return [("", change.key[1])]

    twins = [cache for resource, cache in views.foreign.items() if not resource.namespaced]
    sources: list[Source[Key]] = [
        Source(views.topologies.cache, itself),
        *(Source(cache.cache, of_twin) for cache in twins),
    ]
    gathered: list[Source[Key]] = [Source(views.sets.cache, of_set), Source(views.nodes.cache, of_node)]
    return context.controller("clustertopology", sources, gathered, expand, 1)
