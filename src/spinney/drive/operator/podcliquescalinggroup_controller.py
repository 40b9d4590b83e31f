"""The PodCliqueScalingGroup controller."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.changes import ChangeSet
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.expansion import scaling_group
from spinney.core.expansion.objects import SCALING_GROUPS, adopting
from spinney.core.expansion.podcliqueset import podcliqueset
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.operator.caches import owner_key
from spinney.drive.operator.reconciler import (
    ReconcileContext,
    either,
    itself,
    key_of,
    owner_keys,
    same_progress,
    same_spec,
    subject_of,
)


def controller(context: ReconcileContext, workers: int) -> Controller[Key]:
    views, mnnvl = context.views, context.settings.mnnvl_enabled

    def expand(key: Key) -> ChangeSet:
        found = views.groups.get(key)
        if found is None:
            return ChangeSet()
        owned = views.cliques.by("owner", owner_key(found.metadata))
        if found.metadata.deletion_timestamp is not None:
            return ChangeSet(scaling_group.finalize(found, owned))
        above = views.set_of(found.metadata)
        group = podcliqueset.group_of(above, found) if above is not None else None
        if above is None or group is None or above.metadata.deletion_timestamp is not None:
            return ChangeSet()
        claims = views.claims_of(found.metadata)
        revisions = views.revisions(above)
        observed = scaling_group.Observed(above, group, owned, revisions, claims, context.clock.now(), mnnvl)
        name = above.metadata.name
        return adopting(scaling_group.expand(found, observed), lambda target: views.orphan(target, name))

    def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
        if same_spec(change) and same_progress(change):
            return []
        return [key_of(each.metadata) for each in views.groups.by("owner", owner_key(either(change).metadata))]

    def of_clique(change: Change[PodClique]) -> Iterable[Key]:
        return owner_keys(change, "PodCliqueScalingGroup")

    sources: list[Source[Key]] = [
        Source(views.groups.cache, itself),
        Source(views.sets.cache, of_set),
        *context.claim_sources("PodCliqueScalingGroup", views.groups),
    ]
    gathered: list[Source[Key]] = [Source(views.cliques.cache, of_clique)]
    subject = subject_of(SCALING_GROUPS, views.groups)
    return context.controller("podcliquescalinggroup", sources, gathered, expand, workers, subject)
