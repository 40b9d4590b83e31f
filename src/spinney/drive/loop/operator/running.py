"""The operator at work: views in, expansions out, changes through the door. Keys only; the world is looked at anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from spinney.api.changes import Expansion
from spinney.api.clock import Clock, Dice
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import BASE_PODGANG, PODGANG, SCHEDULER_NAME, TOPOLOGY_NAME
from spinney.api.meta import PartialObject
from spinney.core.expansion import clustertopology, gang_status, podclique, podcliqueset, scaling_group
from spinney.core.expansion.pod_state import Pod, is_gone
from spinney.core.expansion.settings import Settings
from spinney.core.expansion.shape import member_of
from spinney.core.expansion.translation import Translation, effective_name, translate
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.cache import Change
from spinney.drive.client.own_writes import OwnWrites
from spinney.drive.client.paths import Key
from spinney.drive.client.shared import SharedCaches
from spinney.drive.client.transport import Transport
from spinney.drive.loop.controller import Again, Controller, Done, Result, Source
from spinney.drive.loop.operator.effects import Effects
from spinney.drive.loop.operator.start_up import served, synchronise
from spinney.drive.loop.operator.views import Views, label_key, owner_key, set_key

_GATHER_S = 0.05
"""Changes that come by the thousand are waited for so long and then taken together."""

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_LIMIT = 58


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many objects of a kind are worked on at a time."""

    podcliqueset: int = 10
    podclique: int = 10
    scaling_group: int = 5
    podgang: int = 5


class Operator:
    """All controllers over shared views. `may_write` is asked before each write."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        settings: Settings,
        *,
        concurrency: Concurrency | None = None,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        own_writes = OwnWrites()
        self.ready = asyncio.Event()
        self.client = ApiClient(transport, dice)
        self.caches = SharedCaches(self.client, own_writes, dice)
        self.views = Views(self.caches, settings)
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._workers = concurrency or Concurrency()
        door = Door(transport, dice, field_manager="grove-operator", own_writes=own_writes, may_write=may_write)
        self._effects = Effects(door, clock)
        self.controllers = [self._sets(), self._groups(), self._cliques(), self._gangs(), self._topologies()]

    async def run(self) -> None:
        """Until cancelled. Raises `StartUpFailed` if it cannot begin."""
        await served(self.client, self._settings)
        await synchronise(self.client, self._effects, self._settings)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="operator-watches")
            for controller in self.controllers:
                group.create_task(controller.run(), name=f"{controller.name}-controller")
            await self.views.wait_synced()
            self.ready.set()

    def _controller(
        self,
        name: str,
        sources: list[Source[Key]],
        gathered: list[Source[Key]],
        expand: Callable[[Key], Expansion],
        workers: int,
    ) -> Controller[Key]:
        """Changes in `sources` count at once, those in `gathered` a moment later."""

        def later(source: Source[Key]) -> Source[Key]:
            def keys(change: Change[Any]) -> Iterable[Key]:
                for key in source.keys(change):
                    controller.queue.add_after(key, _GATHER_S)
                return ()

            return Source(source.cache, keys)

        async def reconcile(key: Key) -> Result:
            expansion = expand(key)
            await self._effects.carry_out(expansion.changes)
            if expansion.again_s is None:
                return Done()
            return Again(max(expansion.again_s - self._clock.now(), 0.001))

        both = [*sources, *(later(source) for source in gathered)]
        controller: Controller[Key] = Controller(name, both, reconcile, self.client, self._dice, workers=workers)
        return controller

    def _sets(self) -> Controller[Key]:
        views = self.views

        def expand(key: Key) -> Expansion:
            found = views.sets.get(key)
            if found is None:
                return Expansion()
            owned = views.cliques_of(found)
            uid = found.metadata.uid
            observed = podcliqueset.Observed(
                owned,
                views.groups.by("owner", uid),
                views.gangs.by("owner", uid),
                views.services.by("owner", uid),
                views.autoscalers.by("owner", uid),
                views.access_of(found),
                views.pods_of(owned),
                lambda name: views.topologies.get(("", name)),
                views.revisions(found),
                self._settings,
                self._clock.now(),
            )
            return podcliqueset.expand(found, observed)

        def of_child(change: Change[Any]) -> Iterable[Key]:
            return owner_key(_either(change).metadata, "PodCliqueSet")

        sources: list[Source[Key]] = [
            Source(views.sets, _itself),
            *(Source(cache, of_child) for cache in views.accessories),
            Source(views.topologies, self._sets_of_topology),
        ]
        gathered: list[Source[Key]] = [
            Source(views.cliques, lambda change: set_key(_either(change).metadata)),
            Source(views.groups, of_child),
            Source(views.gangs, of_child),
            Source(views.pods, lambda change: set_key(_either(change).metadata) if _comes_or_goes(change) else ()),
        ]
        return self._controller("podcliqueset", sources, gathered, expand, self._workers.podcliqueset)

    def _sets_of_topology(self, change: Change[ClusterTopology]) -> Iterable[Key]:
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return []
        found = self.views.sets.by("topology", change.key[1])
        return [(each.metadata.namespace, each.metadata.name) for each in found]

    def _groups(self) -> Controller[Key]:
        views = self.views

        def expand(key: Key) -> Expansion:
            found = views.groups.get(key)
            if found is None:
                return Expansion()
            owned = views.cliques.by("owner", found.metadata.uid)
            if found.metadata.deletion_timestamp is not None:
                return Expansion(scaling_group.leave(found, owned))
            above = views.set_of(found.metadata)
            group = podcliqueset.group_of(above, found) if above is not None else None
            if above is None or group is None or above.metadata.deletion_timestamp is not None:
                return Expansion()
            now_s = self._clock.now()
            observed = scaling_group.Observed(above, group, owned, views.revisions(above), now_s)
            return scaling_group.expand(found, observed)

        def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
            found = _either(change)
            return [(change.key[0], each.metadata.name) for each in views.groups.by("owner", found.metadata.uid)]

        def of_clique(change: Change[PodClique]) -> Iterable[Key]:
            return owner_key(_either(change).metadata, "PodCliqueScalingGroup")

        sources: list[Source[Key]] = [Source(views.groups, _itself), Source(views.sets, of_set)]
        gathered: list[Source[Key]] = [Source(views.cliques, of_clique)]
        return self._controller("podcliquescalinggroup", sources, gathered, expand, self._workers.scaling_group)

    def _cliques(self) -> Controller[Key]:
        views = self.views

        def expand(key: Key) -> Expansion:
            found = views.cliques.get(key)
            if found is None:
                return Expansion()
            pods = views.pods.by("owner", found.metadata.uid)
            if found.metadata.deletion_timestamp is not None:
                return Expansion(podclique.leave(found, pods))
            above = views.set_of(found.metadata)
            member = member_of(above, found) if above is not None else None
            if above is None or member is None or above.metadata.deletion_timestamp is not None:
                return Expansion()
            gang = self._gang_of(above, key[0], found.metadata.labels.get(PODGANG, ""))
            base = self._gang_of(above, key[0], found.metadata.labels.get(BASE_PODGANG, ""))
            observed = podclique.Observed(
                above,
                member,
                self._translation(above, gang),
                pods,
                gang,
                base is not None and self._has_nodes(base),
                views.revisions(above),
                self._settings,
                self._clock.now(),
                self._new_name,
            )
            return podclique.expand(found, observed)

        def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
            if change.old is not None and change.new is not None and _same_wish(change.old, change.new):
                return []
            return [(each.metadata.namespace, each.metadata.name) for each in views.cliques_of(_either(change))]

        def of_gang(change: Change[PodGang]) -> Iterable[Key]:
            if change.old is not None and change.new is not None and _same_gang(change.old, change.new):
                return []
            return [(change.key[0], group.name) for group in _either(change).spec.podgroups]

        def of_base(change: Change[PodClique]) -> Iterable[Key]:
            """The scaled gangs of a base gang wait for its PodCliques to have their nodes."""
            old, new = change.old, change.new
            if new is None or (old is not None and old.status.scheduled_replicas == new.status.scheduled_replicas):
                return []
            waiting = views.cliques.by("base", label_key(change.key[0], new.metadata.labels.get(PODGANG, "")))
            return [(each.metadata.namespace, each.metadata.name) for each in waiting]

        def of_topology(change: Change[ClusterTopology]) -> Iterable[Key]:
            for key in self._sets_of_topology(change):
                found = views.sets.get(key)
                for each in views.cliques_of(found) if found is not None else ():
                    yield (each.metadata.namespace, each.metadata.name)

        sources: list[Source[Key]] = [
            Source(views.cliques, _itself),
            Source(views.sets, of_set),
            Source(views.gangs, of_gang),
            Source(views.cliques, of_base),
            Source(views.topologies, of_topology),
        ]
        gathered: list[Source[Key]] = [
            Source(views.pods, lambda change: owner_key(_either(change).metadata, "PodClique"))
        ]
        return self._controller("podclique", sources, gathered, expand, self._workers.podclique)

    def _gangs(self) -> Controller[Key]:
        views = self.views

        def expand(key: Key) -> Expansion:
            found = views.gangs.get(key)
            above = views.set_of(found.metadata) if found is not None else None
            if found is None or above is None:
                return Expansion()
            members = {each.metadata.name: each for each in self._members(found)}
            scheduler = found.metadata.labels.get(SCHEDULER_NAME, "")
            backend = self._settings.backend(scheduler)
            pods = views.pods_of(members.values())
            observed = gang_status.Observed(members, pods, backend, views.find, self._clock.now())
            return gang_status.expand(found, observed)

        def of_member(change: Change[Any]) -> Iterable[Key]:
            name = _either(change).metadata.labels.get(PODGANG)
            return [(change.key[0], name)] if name else []

        def of_foreign(change: Change[dict[str, Any]]) -> Iterable[Key]:
            metadata = _either(change)["metadata"]
            owners = metadata.get("ownerReferences") or ()
            return [(change.key[0], owner["name"]) for owner in owners if owner["kind"] == "PodGang"]

        sources: list[Source[Key]] = [Source(views.gangs, _itself)]
        foreign = [cache for resource, cache in views.foreign.items() if resource.namespaced]
        sources += [Source(cache, of_foreign) for cache in foreign]
        gathered: list[Source[Key]] = [Source(views.pods, of_member), Source(views.cliques, of_member)]
        return self._controller("podgang", sources, gathered, expand, self._workers.podgang)

    def _topologies(self) -> Controller[Key]:
        views = self.views

        def expand(key: Key) -> Expansion:
            found = views.topologies.get(key)
            if found is None:
                return Expansion()
            nodes = [node.metadata.labels for node in views.nodes]
            sets = views.sets.by("topology", key[1])
            observed = clustertopology.Observed(sets, nodes, views.find, self._settings, self._clock.now())
            return clustertopology.expand(found, observed)

        def of_set(change: Change[PodCliqueSet]) -> Iterable[Key]:
            """A deletion waits for its users to go; a set that stays the same changes nothing."""
            if change.old is not None and change.new is not None and _same_wish(change.old, change.new):
                return []
            return views.topologies.keys()

        def of_node(change: Change[PartialObject]) -> Iterable[Key]:
            old, new = change.old, change.new
            if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
                return []
            return views.topologies.keys()

        def of_foreign(change: Change[dict[str, Any]]) -> Iterable[Key]:
            return [("", change.key[1])]

        foreign = [cache for resource, cache in views.foreign.items() if not resource.namespaced]
        sources: list[Source[Key]] = [Source(views.topologies, _itself)]
        sources += [Source(cache, of_foreign) for cache in foreign]
        gathered: list[Source[Key]] = [Source(views.sets, of_set), Source(views.nodes, of_node)]
        return self._controller("clustertopology", sources, gathered, expand, 1)

    def _gang_of(self, above: PodCliqueSet, namespace: str, name: str) -> PodGang | None:
        found = self.views.gangs.get((namespace, name)) if name else None
        owner = found.metadata.controller if found is not None else None
        return found if owner is not None and owner.uid == above.metadata.uid else None

    def _members(self, gang: PodGang) -> Iterable[PodClique]:
        for group in gang.spec.podgroups:
            found = self.views.cliques.get((gang.metadata.namespace, group.name))
            if found is not None and found.metadata.labels.get(PODGANG) == gang.metadata.name:
                yield found

    def _has_nodes(self, gang: PodGang) -> bool:
        """Whether every group of the gang has its minimum of scheduled pods."""
        scheduled = {each.metadata.name: each.status.scheduled_replicas for each in self._members(gang)}
        return all(scheduled.get(group.name, 0) >= group.min_replicas for group in gang.spec.podgroups)

    def _translation(self, above: PodCliqueSet, gang: PodGang | None) -> Translation:
        """The translation that the gang carries; before there is one, that of the set."""
        used = gang.metadata.annotations.get(TOPOLOGY_NAME, "") if gang is not None else ""
        name = used or effective_name(above, self._settings, scheduled=False)
        return translate(above, self.views.topologies.get(("", name)), name, self._settings)

    def _new_name(self, prefix: str) -> str:
        bits, suffix = self._dice.getrandbits(40), ""
        for _ in range(5):
            bits, index = divmod(bits, len(_NAME_CHARACTERS))
            suffix += _NAME_CHARACTERS[index]
        return prefix[:_NAME_LIMIT] + suffix


def _itself(change: Change[Any]) -> Iterable[Key]:
    return (change.key,)


def _either(change: Change[Any]) -> Any:
    return change.new if change.new is not None else change.old


def _comes_or_goes(change: Change[Pod]) -> bool:
    """Whether a gang has to list a pod, or to list it no longer."""
    return change.old is None or change.new is None or is_gone(change.old) != is_gone(change.new)


def _same_wish(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    return old.metadata.generation == new.metadata.generation and old.metadata.labels == new.metadata.labels


def _same_gang(old: PodGang, new: PodGang) -> bool:
    same = old.metadata.generation == new.metadata.generation
    return same and old.metadata.annotations == new.metadata.annotations
