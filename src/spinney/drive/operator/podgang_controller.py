"""The PodGang controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.api.changes import ChangeSet, Json, Resource
from spinney.api.kinds.podclique import PodClique
from spinney.api.labels import PODGANG, SCHEDULER_NAME
from spinney.core.expansion import podgang
from spinney.core.expansion.podclique.pod_state import Pod, is_disrupted, is_gone, is_ready, is_scheduled
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.controller.reconcile_cache import Inputs
from spinney.drive.operator.reconciler import ReconcileContext, either, itself


def controller(context: ReconcileContext, workers: int) -> Controller[Key]:
    views, asked = context.views, dict[Key, set[tuple[Resource, str, str]]]()

    def read_inputs(key: Key) -> Inputs:
        found = views.gangs.get(key)
        if found is None:
            asked.pop(key, None)
            return ()
        members = context.members_of(found)
        pods = [each for member in members for each in views.pods.by("owner", member.metadata.uid)]
        foreign = [views.find(*question) for question in sorted(asked.get(key, ()), key=str)]
        return (found, views.set_of(found.metadata), *members, *pods, *foreign)

    def expand(key: Key) -> ChangeSet:
        found = views.gangs.get(key)
        if found is None or views.set_of(found.metadata) is None:
            return ChangeSet()
        members = {each.metadata.name: each for each in context.members_of(found)}
        backend = context.settings.backend(found.metadata.labels.get(SCHEDULER_NAME, ""))
        pods = views.pods_of(members.values())
        asked[key] = set()

        def find(*question: *tuple[Resource, str, str]) -> Json | None:
            asked[key].add(question)
            return views.find(*question)

        return podgang.expand(found, podgang.Observed(members, pods, backend, find, context.clock.now()))

    foreign = [cache for resource, cache in views.foreign.items() if resource.namespaced]
    sources: list[Source[Key]] = [Source(views.gangs, itself), *(Source(cache, _of_foreign) for cache in foreign)]
    gathered: list[Source[Key]] = [Source(views.pods, _of_pod), Source(views.cliques, _of_clique)]
    return context.controller("podgang", sources, gathered, expand, workers, read_inputs=read_inputs)


def _of_pod(change: Change[Pod]) -> Iterable[Key]:
    return [] if _standing(change.old) == _standing(change.new) else _of_member(change)


def _standing(pod: Pod | None) -> tuple[object, ...]:
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
