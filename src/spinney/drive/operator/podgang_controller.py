"""The PodGang controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.api.changes import ChangeSet, Json
from spinney.api.kinds.clustertopology import ClusterTopologyBinding
from spinney.api.kinds.podclique import PodClique
from spinney.api.labels import PODGANG, SCHEDULER_NAME, TOPOLOGY_NAME
from spinney.core.expansion import podgang
from spinney.core.expansion.podclique.pod_state import Pod, is_disrupted, is_gone, is_ready, is_scheduled
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.operator.reconciler import ReconcileContext, either, itself, key_of


def controller(context: ReconcileContext, workers: int) -> Controller[Key]:
    views = context.views

    def expand(key: Key) -> ChangeSet:
        found = views.gangs.get(key)
        if found is None or views.set_of(found.metadata) is None:
            return ChangeSet()
        members = {each.metadata.name: each for each in context.members_of(found)}
        backend = context.settings.backend(found.metadata.labels.get(SCHEDULER_NAME, ""))
        pods = views.pods_of(members.values())
        return podgang.expand(found, podgang.Observed(members, pods, backend, views.find, context.clock.now()))

    def of_binding(change: Change[ClusterTopologyBinding]) -> Iterable[Key]:
        """The gangs of a topology: the binding says under which name their scheduler knows it."""
        name = change.key[1]
        return [key_of(gang.metadata) for gang in views.gangs if gang.metadata.annotations.get(TOPOLOGY_NAME) == name]

    foreign = [cache for resource, cache in views.foreign.items() if resource.namespaced]
    sources: list[Source[Key]] = [
        Source(views.gangs.cache, itself),
        *(Source(cache.cache, _of_foreign) for cache in foreign),
        Source(views.topology_bindings.cache, of_binding),
    ]
    gathered: list[Source[Key]] = [Source(views.pods.cache, _of_pod), Source(views.cliques.cache, _of_clique)]
    return context.controller("podgang", sources, gathered, expand, workers)


def _of_pod(change: Change[Pod]) -> Iterable[Key]:
    return [] if _watched_fields(change.old) == _watched_fields(change.new) else _of_member(change)


def _watched_fields(pod: Pod | None) -> tuple[object, ...]:
    """The part of a pod that its PodGang depends on; empty for a pod that is only pending, as for no pod."""
    if pod is None or is_gone(pod):
        return ()
    state = (is_scheduled(pod), is_ready(pod), is_disrupted(pod))
    return (pod.metadata.labels.get(PODGANG), *state) if any(state) else ()


def _of_clique(change: Change[PodClique]) -> Iterable[Key]:
    """Only the desired replicas and labels of a PodClique matter; the actual pods come from the pod source."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.spec.replicas == new.spec.replicas:
        return [] if old.metadata.labels == new.metadata.labels else _of_member(change)
    return _of_member(change)


def _of_member(change: Change[Any]) -> Iterable[Key]:
    name = either(change).metadata.labels.get(PODGANG)
    return [(change.key[0], name)] if name else []


def _of_foreign(change: Change[Json]) -> Iterable[Key]:
    owners = either(change)["metadata"].get("ownerReferences") or ()
    named = [(change.key[0], owner["name"]) for owner in owners if owner["kind"] == "PodGang"]
    return named or [change.key]
