"""The PodCliqueSet controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.api.changes import Expansion
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.expansion import podcliqueset
from spinney.core.expansion.pod_state import Pod, is_gone
from spinney.drive.client.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.controller import Controller, Source
from spinney.drive.loop.operator.views import set_key
from spinney.drive.loop.operator.workshop import Workshop, either, itself, owner_keys


def controller(shop: Workshop, workers: int) -> Controller[Key]:
    views = shop.views

    def expand(key: Key) -> Expansion:
        found = views.sets.get(key)
        return podcliqueset.expand(found, _observed(shop, found)) if found is not None else Expansion()

    def of_child(change: Change[Any]) -> Iterable[Key]:
        return owner_keys(change, "PodCliqueSet")

    sources: list[Source[Key]] = [
        Source(views.sets, itself),
        Source(views.topologies, shop.sets_of_topology),
        *(Source(cache, of_child) for cache in views.accessories),
        *shop.claim_sources("PodCliqueSet", views.sets),
    ]
    gathered: list[Source[Key]] = [
        Source(views.cliques, lambda change: set_key(either(change).metadata)),
        Source(views.groups, of_child),
        Source(views.gangs, of_child),
        Source(views.pods, lambda change: set_key(either(change).metadata) if _comes_or_goes(change) else ()),
    ]
    return shop.controller("podcliqueset", sources, gathered, expand, workers)


def _observed(shop: Workshop, found: PodCliqueSet) -> podcliqueset.Observed:
    views, uid = shop.views, found.metadata.uid
    owned = views.cliques_of(found)
    return podcliqueset.Observed(
        owned,
        views.groups.by("owner", uid),
        views.gangs.by("owner", uid),
        views.services.by("owner", uid),
        views.autoscalers.by("owner", uid),
        views.access_of(found),
        views.claims_of(found.metadata),
        views.pods_of(owned),
        lambda name: views.topologies.get(("", name)),
        views.revisions(found),
        shop.settings,
        shop.clock.now(),
    )


def _comes_or_goes(change: Change[Pod]) -> bool:
    """Whether a gang has to list a pod, or to list it no longer."""
    return change.old is None or change.new is None or is_gone(change.old) != is_gone(change.new)
