"""The PodGang controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spinney.api.changes import Expansion, Json
from spinney.api.labels import PODGANG, SCHEDULER_NAME
from spinney.core.expansion import gang_status
from spinney.drive.client.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.controller import Controller, Source
from spinney.drive.loop.operator.workshop import Workshop, either, itself


def controller(shop: Workshop, workers: int) -> Controller[Key]:
    views = shop.views

    def expand(key: Key) -> Expansion:
        found = views.gangs.get(key)
        if found is None or views.set_of(found.metadata) is None:
            return Expansion()
        members = {each.metadata.name: each for each in shop.members_of(found)}
        backend = shop.settings.backend(found.metadata.labels.get(SCHEDULER_NAME, ""))
        pods = views.pods_of(members.values())
        return gang_status.expand(found, gang_status.Observed(members, pods, backend, views.find, shop.clock.now()))

    foreign = [cache for resource, cache in views.foreign.items() if resource.namespaced]
    sources: list[Source[Key]] = [Source(views.gangs, itself), *(Source(cache, _of_foreign) for cache in foreign)]
    gathered: list[Source[Key]] = [Source(views.pods, _of_member), Source(views.cliques, _of_member)]
    return shop.controller("podgang", sources, gathered, expand, workers)


def _of_member(change: Change[Any]) -> Iterable[Key]:
    name = either(change).metadata.labels.get(PODGANG)
    return [(change.key[0], name)] if name else []


def _of_foreign(change: Change[Json]) -> Iterable[Key]:
    owners = either(change)["metadata"].get("ownerReferences") or ()
    named = [(change.key[0], owner["name"]) for owner in owners if owner["kind"] == "PodGang"]
    return named or [change.key]
