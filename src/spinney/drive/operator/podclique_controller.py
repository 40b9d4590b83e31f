"""The PodClique controller."""

from __future__ import annotations

from collections.abc import Iterable

from kube_apimachinery.generated_names import generated_name
from spinney.api.changes import ChangeSet
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import BASE_PODGANG, PODCLIQUESET_REPLICA_INDEX, PODGANG, TOPOLOGY_NAME
from spinney.core.expansion.objects import PODCLIQUES
from spinney.core.expansion.podclique import podclique
from spinney.core.expansion.podcliqueset.set_layout import Member, index_label, member_of
from spinney.core.expansion.podcliqueset.topology_resolution import ResolvedTopology, resolve_topology
from spinney.core.topology_constraints import effective_topology
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Source
from spinney.drive.operator.caches import label_key, owner_key
from spinney.drive.operator.reconciler import (
    ReconcileContext,
    either,
    itself,
    key_of,
    owner_keys,
    same_spec,
    subject_of,
)


def controller(context: ReconcileContext, workers: int) -> Controller[Key]:
    views = context.views

    def expand(key: Key) -> ChangeSet:
        found = views.cliques.get(key)
        if found is None:
            return ChangeSet()
        if found.metadata.deletion_timestamp is not None:
            return ChangeSet(podclique.finalize(found, views.pods.by("owner", owner_key(found.metadata))))
        above = views.set_of(found.metadata)
        member = member_of(above, found) if above is not None else None
        if above is None or member is None or above.metadata.deletion_timestamp is not None:
            return ChangeSet()
        return podclique.expand(found, _observed(context, found, above, member))

    sources: list[Source[Key]] = [
        Source(views.cliques.cache, itself),
        Source(views.sets.cache, lambda change: _of_set(context, change)),
        Source(views.gangs.cache, _of_gang),
        Source(views.cliques.cache, lambda change: _of_base(context, change)),
        Source(views.topologies.cache, lambda change: _of_topology(context, change)),
        Source(views.topology_bindings.cache, lambda change: _of_topology(context, change)),
        *context.claim_sources("PodClique", views.cliques),
    ]
    gathered: list[Source[Key]] = [Source(views.pods.cache, lambda change: owner_keys(change, "PodClique"))]
    subject = subject_of(PODCLIQUES, views.cliques)
    return context.controller("podclique", sources, gathered, expand, workers, subject)


def _observed(context: ReconcileContext, found: PodClique, above: PodCliqueSet, member: Member) -> podclique.Observed:
    labels = found.metadata.labels
    gang = context.gang_of(above, labels.get(PODGANG, ""))
    base = context.gang_of(above, labels.get(BASE_PODGANG, ""))
    return podclique.Observed(
        above,
        member,
        _translation(context, above, gang),
        context.views.pods.by("owner", owner_key(found.metadata)),
        gang,
        base is not None and _has_nodes(context, base),
        context.views.revisions(above),
        context.settings,
        context.clock.now(),
        lambda prefix: generated_name(prefix, context.dice),
        context.views.claims_of(found.metadata),
    )


def _translation(context: ReconcileContext, above: PodCliqueSet, gang: PodGang | None) -> ResolvedTopology:
    """The topology that the PodGang is annotated with; before the PodGang exists, that of the set."""
    used = gang.metadata.annotations.get(TOPOLOGY_NAME, "") if gang is not None else ""
    name = used or effective_topology(above, context.settings.default_topology, scheduled=False)
    return resolve_topology(above, context.views.topology(name), name, context.settings)


def _has_nodes(context: ReconcileContext, gang: PodGang) -> bool:
    """Whether every group of the gang has its minimum (`min_replicas`) of scheduled pods."""
    scheduled = {each.metadata.name: each.status.scheduled_replicas for each in context.members_of(gang)}
    return all(scheduled.get(group.name, 0) >= group.min_replicas for group in gang.spec.podgroups)


def _of_set(context: ReconcileContext, change: Change[PodCliqueSet]) -> Iterable[Key]:
    """All PodCliques of a set whose spec changed; otherwise those of replicas that the rolling update has reached."""
    if not same_spec(change):
        return [key_of(each.metadata) for each in context.views.cliques_of(either(change))]
    turns = _turns(change.new) - _turns(change.old)
    found = context.views.cliques_of(either(change)) if turns else []
    return [key_of(each.metadata) for each in found if index_label(each.metadata, PODCLIQUESET_REPLICA_INDEX) in turns]


def _turns(podcliqueset: PodCliqueSet | None) -> set[int]:
    progress = podcliqueset.status.update_progress if podcliqueset is not None else None
    return {each.replica_index for each in progress.currently_updating} if progress is not None else set()


def _of_gang(change: Change[PodGang]) -> Iterable[Key]:
    """The PodCliques of a gang; a change of its status alone enqueues none of them."""
    old, new = change.old, change.new
    if old is not None and new is not None and _watched_fields(old) == _watched_fields(new):
        return []
    return [(change.key[0], group.name) for group in either(change).spec.podgroups]


def _watched_fields(gang: PodGang) -> tuple[int, dict[str, str]]:
    return gang.metadata.generation, gang.metadata.annotations


def _of_base(context: ReconcileContext, change: Change[PodClique]) -> Iterable[Key]:
    """PodCliques of scaled gangs: they wait until the PodCliques of their base gang are scheduled."""
    old, new = change.old, change.new
    if new is None or (old is not None and old.status.scheduled_replicas == new.status.scheduled_replicas):
        return []
    base = label_key(change.key[0], new.metadata.labels.get(PODGANG, ""))
    return [key_of(each.metadata) for each in context.views.cliques.by("base", base)]


def _of_topology(context: ReconcileContext, change: Change[AnyTopology]) -> Iterable[Key]:
    for key in context.sets_of_topology(change):
        found = context.views.sets.get(key)
        for each in context.views.cliques_of(found) if found is not None else ():
            yield key_of(each.metadata)
