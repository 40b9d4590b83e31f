"""The PodClique controller."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.changes import Expansion
from spinney.api.clock import Dice
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import BASE_PODGANG, PODCLIQUESET_REPLICA_INDEX, PODGANG, TOPOLOGY_NAME
from spinney.core.expansion import podclique
from spinney.core.expansion.resources import PODCLIQUES
from spinney.core.expansion.shape import Member, index_label, member_of
from spinney.core.expansion.translation import Translation, effective_name, translate
from spinney.drive.client.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.controller import Controller, Source
from spinney.drive.loop.operator.rest import Sight
from spinney.drive.loop.operator.views import label_key
from spinney.drive.loop.operator.workshop import Workshop, either, itself, key_of, owner_keys, same_wish, subject_of

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_LIMIT = 58
_GANGS = (PODGANG, BASE_PODGANG)


def controller(shop: Workshop, workers: int) -> Controller[Key]:
    views = shop.views

    def expand(key: Key) -> Expansion:
        found = views.cliques.get(key)
        if found is None:
            return Expansion()
        if found.metadata.deletion_timestamp is not None:
            return Expansion(podclique.leave(found, views.pods.by("owner", found.metadata.uid)))
        above = views.set_of(found.metadata)
        member = member_of(above, found) if above is not None else None
        if above is None or member is None or above.metadata.deletion_timestamp is not None:
            return Expansion()
        return podclique.expand(found, _observed(shop, found, above, member))

    def see(key: Key) -> Sight:
        found = views.cliques.get(key)
        if found is None:
            return ()
        above, pods = views.set_of(found.metadata), views.pods.by("owner", found.metadata.uid)
        gang, base = (views.gangs.get((key[0], found.metadata.labels.get(label, ""))) for label in _GANGS)
        members = shop.members_of(base) if base is not None else ()
        claims = shop.claims_seen(above, found.metadata)
        return (found, above, gang, base, *members, *pods, *claims, *views.topologies)

    sources: list[Source[Key]] = [
        Source(views.cliques, itself),
        Source(views.sets, lambda change: _of_set(shop, change)),
        Source(views.gangs, _of_gang),
        Source(views.cliques, lambda change: _of_base(shop, change)),
        Source(views.topologies, lambda change: _of_topology(shop, change)),
        *shop.claim_sources("PodClique", views.cliques),
    ]
    gathered: list[Source[Key]] = [Source(views.pods, lambda change: owner_keys(change, "PodClique"))]
    subject = subject_of(PODCLIQUES, views.cliques)
    return shop.controller("podclique", sources, gathered, expand, workers, subject, see)


def _observed(shop: Workshop, found: PodClique, above: PodCliqueSet, member: Member) -> podclique.Observed:
    labels = found.metadata.labels
    gang = shop.gang_of(above, labels.get(PODGANG, ""))
    base = shop.gang_of(above, labels.get(BASE_PODGANG, ""))
    return podclique.Observed(
        above,
        member,
        _translation(shop, above, gang),
        shop.views.pods.by("owner", found.metadata.uid),
        gang,
        base is not None and _has_nodes(shop, base),
        shop.views.revisions(above),
        shop.settings,
        shop.clock.now(),
        lambda prefix: _new_name(prefix, shop.dice),
        shop.views.claims_of(found.metadata),
    )


def _translation(shop: Workshop, above: PodCliqueSet, gang: PodGang | None) -> Translation:
    """The translation that the gang carries; before there is one, that of the set."""
    used = gang.metadata.annotations.get(TOPOLOGY_NAME, "") if gang is not None else ""
    name = used or effective_name(above, shop.settings, scheduled=False)
    return translate(above, shop.views.topologies.get(("", name)), name, shop.settings)


def _has_nodes(shop: Workshop, gang: PodGang) -> bool:
    """Whether every group of the gang has its minimum of scheduled pods."""
    scheduled = {each.metadata.name: each.status.scheduled_replicas for each in shop.members_of(gang)}
    return all(scheduled.get(group.name, 0) >= group.min_replicas for group in gang.spec.podgroups)


def _new_name(prefix: str, dice: Dice) -> str:
    """The prefix, cut if need be, and five characters that spell no words."""
    bits, suffix = dice.getrandbits(40), ""
    for _ in range(5):
        bits, index = divmod(bits, len(_NAME_CHARACTERS))
        suffix += _NAME_CHARACTERS[index]
    return prefix[:_NAME_LIMIT] + suffix


def _of_set(shop: Workshop, change: Change[PodCliqueSet]) -> Iterable[Key]:
    """All PodCliques of a set whose wish changed; those of a replica whose turn has come."""
    if not same_wish(change):
        return [key_of(each.metadata) for each in shop.views.cliques_of(either(change))]
    turns = _turns(change.new) - _turns(change.old)
    found = shop.views.cliques_of(either(change)) if turns else []
    return [key_of(each.metadata) for each in found if index_label(each.metadata, PODCLIQUESET_REPLICA_INDEX) in turns]


def _turns(podcliqueset: PodCliqueSet | None) -> set[int]:
    progress = podcliqueset.status.update_progress if podcliqueset is not None else None
    return {each.replica_index for each in progress.currently_updating} if progress is not None else set()


def _of_gang(change: Change[PodGang]) -> Iterable[Key]:
    """The members of a gang; its status concerns none of them."""
    old, new = change.old, change.new
    if old is not None and new is not None and _told(old) == _told(new):
        return []
    return [(change.key[0], group.name) for group in either(change).spec.podgroups]


def _told(gang: PodGang) -> tuple[int, dict[str, str]]:
    return gang.metadata.generation, gang.metadata.annotations


def _of_base(shop: Workshop, change: Change[PodClique]) -> Iterable[Key]:
    """The scaled gangs of a base gang wait for its PodCliques to have their nodes."""
    old, new = change.old, change.new
    if new is None or (old is not None and old.status.scheduled_replicas == new.status.scheduled_replicas):
        return []
    base = label_key(change.key[0], new.metadata.labels.get(PODGANG, ""))
    return [key_of(each.metadata) for each in shop.views.cliques.by("base", base)]


def _of_topology(shop: Workshop, change: Change[ClusterTopology]) -> Iterable[Key]:
    for key in shop.sets_of_topology(change):
        found = shop.views.sets.get(key)
        for each in shop.views.cliques_of(found) if found is not None else ():
            yield key_of(each.metadata)
