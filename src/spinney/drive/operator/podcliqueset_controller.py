"""The PodCliqueSet controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from spinney.api.changes import ChangeSet
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.expansion.components.compute_domains import drop_finalizer
from spinney.core.expansion.objects import PODCLIQUESETS, adopting
from spinney.core.expansion.podclique.pod_state import Pod, is_gone
from spinney.core.expansion.podcliqueset import podcliqueset
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.operator.caches import owner_key, set_key
from spinney.drive.operator.reconciler import ReconcileContext, either, itself, owner_keys, same_spec, subject_of


def controller(context: ReconcileContext, workers: int) -> Controller[Key]:
    views = context.views

    def expand(key: Key) -> ChangeSet:
        found = views.sets.get(key)
        if found is None:
            return ChangeSet(tuple(change for each in views.domains_of(*key) for change in drop_finalizer(each)))
        expanded = podcliqueset.expand(found, _observed(context, found))
        return adopting(expanded, lambda target: views.orphan(target, found.metadata.name))

    def of_child(change: Change[Any]) -> Iterable[Key]:
        return owner_keys(change, "PodCliqueSet")

    sources: list[Source[Key]] = [
        Source(views.sets.cache, lambda change: () if _only_status(change) else itself(change)),
        Source(views.topologies.cache, context.sets_of_topology),
        Source(views.topology_bindings.cache, context.sets_of_topology),
        *(Source(cache.cache, of_child) for cache in views.accessories),
        *context.claim_sources("PodCliqueSet", views.sets),
    ]
    if views.compute_domains is not None:
        sources.append(Source(views.compute_domains.cache, lambda change: set_key(either(change).metadata)))
    gathered: list[Source[Key]] = [
        Source(views.sets.cache, itself),
        Source(views.cliques.cache, lambda change: () if _counts_alike(change) else set_key(either(change).metadata)),
        Source(views.groups.cache, of_child),
        Source(views.gangs.cache, of_child),
        Source(views.pods.cache, lambda change: set_key(either(change).metadata) if _comes_or_goes(change) else ()),
    ]
    subject = subject_of(PODCLIQUESETS, views.sets)
    return context.controller("podcliqueset", sources, gathered, expand, workers, subject)


def _observed(context: ReconcileContext, found: PodCliqueSet) -> podcliqueset.Observed:
    views, owner = context.views, owner_key(found.metadata)
    owned = views.cliques_of(found)
    return podcliqueset.Observed(
        owned,
        views.groups.by("owner", owner),
        views.gangs.by("owner", owner),
        views.services.by("owner", owner),
        views.autoscalers.by("owner", owner),
        views.access_of(found),
        views.claims_of(found.metadata),
        views.domains_of(found.metadata.namespace, found.metadata.name),
        views.pods_of(owned),
        views.topology,
        views.revisions(found),
        context.settings,
        context.clock.now(),
    )


def _only_status(change: Change[PodCliqueSet]) -> bool:
    old, new = change.old, change.new
    return same_spec(change) and (old and old.metadata.finalizers) == (new and new.metadata.finalizers)


def _counts_alike(change: Change[PodClique]) -> bool:
    """Whether nothing changed that the PodCliqueSet reads; some pod counts matter to the PodClique only."""
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.generation != new.metadata.generation:
        return False
    now = new.status
    status = structs.replace(
        old.status,
        observed_generation=now.observed_generation,
        replicas=now.replicas,
        updated_replicas=now.updated_replicas,
        schedule_gated_replicas=now.schedule_gated_replicas,
    )
    metadata = structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return status == now and metadata == new.metadata


def _comes_or_goes(change: Change[Pod]) -> bool:
    """Whether a PodGang has to add a pod to its references or to remove it."""
    return change.old is None or change.new is None or is_gone(change.old) != is_gone(change.new)
