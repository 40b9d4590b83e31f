"""The ClusterTopology controller."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.changes import Expansion, Json
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import PartialObject
from spinney.core.expansion import clustertopology
from spinney.drive.client.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.controller import Controller, Source
from spinney.drive.loop.operator.workshop import Workshop, itself, same_wish


def controller(shop: Workshop) -> Controller[Key]:
    views = shop.views

    def expand(key: Key) -> Expansion:
        found = views.topologies.get(key)
        if found is None:
            return Expansion()
        nodes = [node.metadata.labels for node in views.nodes]
        sets = views.sets.by("topology", key[1])
        observed = clustertopology.Observed(sets, nodes, views.find, shop.settings, shop.clock.now())
        return clustertopology.expand(found, observed)

    def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
        """A deletion waits for its users to go."""
        return [] if same_wish(change) else views.topologies.keys()

    def of_node(change: Change[PartialObject]) -> Iterable[Key]:
        old, new = change.old, change.new
        same = old is not None and new is not None and old.metadata.labels == new.metadata.labels
        return [] if same else views.topologies.keys()

    def of_twin(change: Change[Json]) -> Iterable[Key]:
        return [("", change.key[1])]

    twins = [cache for resource, cache in views.foreign.items() if not resource.namespaced]
    sources: list[Source[Key]] = [Source(views.topologies, itself), *(Source(cache, of_twin) for cache in twins)]
    gathered: list[Source[Key]] = [Source(views.sets, of_set), Source(views.nodes, of_node)]
    return shop.controller("clustertopology", sources, gathered, expand, 1)
