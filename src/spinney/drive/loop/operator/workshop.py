"""What all controllers of the operator share: views, settings, time, and the way from a key to changes made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from spinney.api.changes import Expansion, Notify, Resource, SetStatus
from spinney.api.clock import Clock, Dice
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import PODGANG
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.settings import Settings
from spinney.drive.client.api import ApiClient
from spinney.drive.client.cache import Cache, Change
from spinney.drive.client.errors import ClientError
from spinney.drive.client.paths import Key
from spinney.drive.loop.controller import Again, Controller, Done, Result, Source
from spinney.drive.loop.operator.courtesy import Courtesy
from spinney.drive.loop.operator.effects import Effects
from spinney.drive.loop.operator.rest import Rest, See, Sight, unseen
from spinney.drive.loop.operator.telling import Refusal, Subject, forgotten, remembered
from spinney.drive.loop.operator.views import Views

_GATHER_S = 0.05
"""Changes that come by the thousand are waited for so long and then taken together."""

Expand = Callable[[Key], Expansion]


@dataclass(frozen=True, slots=True)
class Workshop:
    views: Views
    settings: Settings
    effects: Effects
    client: ApiClient
    clock: Clock
    dice: Dice
    courtesy: Courtesy = field(default_factory=Courtesy)

    def controller(
        self,
        name: str,
        sources: list[Source[Key]],
        gathered: list[Source[Key]],
        expand: Expand,
        workers: int,
        subject: Callable[[Key], Subject | None] = lambda key: None,
        see: See = unseen,
    ) -> Controller[Key]:
        """Changes in `sources` count at once, those in `gathered` a moment later. Users look at the `subject`.

        `see` lists what `expand` looks at. What is only to be told waits while there is something to be made.
        """
        rest = Rest(see)

        def expanded(key: Key) -> Expansion:
            known = rest.expansion(key, self.clock.now())
            if known is not None:
                return known
            expansion = expand(key)
            rest.note(key, expansion)
            return expansion

        async def reconcile(key: Key) -> Result:
            about, refusals = subject(key), list[Refusal]()
            try:
                expansion = expanded(key)
                tells = _only_tells(expansion)
                if tells and self.courtesy.lets_pass(name, key, passing=_has_news(expansion)):
                    return Done()
                self.courtesy.done(name, key)
                whole = await self.effects.carry_out(expansion.changes, about, refusals)
                if not tells:
                    self.courtesy.made()
            except Exception as error:
                if about is not None:
                    await self._tell(remembered(about, refusals, error, self.clock.now()))
                raise
            if not whole:
                return Again(_GATHER_S)
            if about is not None:
                await self._tell(forgotten(about))
            if expansion.again_s is None:
                return Done()
            return Again(max(expansion.again_s - self.clock.now(), 0.001))

        both = [*sources, *(replace(source, gather_s=_GATHER_S) for source in gathered)]
        controller: Controller[Key] = Controller(name, both, reconcile, self.client, self.dice, workers=workers)
        self.courtesy.join(name, controller.queue)
        return controller

    async def _tell(self, status: SetStatus | None) -> None:
        """What cannot be told now is told when it happens again."""
        if status is not None:
            with suppress(ClientError):
                await self.effects.carry_out([status])

    def sets_of_topology(self, change: Change[ClusterTopology]) -> list[Key]:
        """The sets that a changed topology concerns; its status concerns nobody."""
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return []
        return [key_of(each.metadata) for each in self.views.sets.by("topology", change.key[1])]

    def gang_of(self, above: PodCliqueSet, name: str) -> PodGang | None:
        """The gang of a set by name, if it is really the set's."""
        found = self.views.gangs.get((above.metadata.namespace, name)) if name else None
        owner = found.metadata.controller if found is not None else None
        return found if owner is not None and owner.uid == above.metadata.uid else None

    def members_of(self, gang: PodGang) -> list[PodClique]:
        """The PodCliques that a gang lists and that say so themselves."""
        found = (self.views.cliques.get((gang.metadata.namespace, group.name)) for group in gang.spec.podgroups)
        name = gang.metadata.name
        return [each for each in found if each is not None and each.metadata.labels.get(PODGANG) == name]

    def claims_seen(self, above: PodCliqueSet | None, owner: ObjectMeta) -> Sight:
        """The claims of an owner in a set, and all templates where the set shares any."""
        template = above.spec.template if above is not None else None
        if template is None or self.views.claims is None or self.views.claim_templates is None:
            return ()
        claims = self.views.claims.by("owner", owner.uid)
        shared = (
            template.resource_sharing
            or any(each.resource_sharing for each in template.cliques)
            or any(each.resource_sharing for each in template.pod_clique_scaling_groups)
        )
        return (*claims, *self.views.claim_templates) if shared else tuple(claims)

    def claim_sources(self, kind: str, owners: Cache[Any]) -> list[Source[Key]]:
        """Claims wake their owners; a template that appears may be what owners in its namespace wait for."""
        claims, templates = self.views.claims, self.views.claim_templates
        if claims is None or templates is None:
            return []

        def of_template(change: Change[Any]) -> Iterable[Key]:
            return [key for key in owners.keys() if key[0] == change.key[0]]  # noqa: SIM118 - sorted keys of a cache

        return [Source(claims, lambda change: owner_keys(change, kind)), Source(templates, of_template)]


def subject_of(resource: Resource, cache: Cache[Any]) -> Callable[[Key], Subject | None]:
    """From a key to the object that users look at."""

    def subject(key: Key) -> Subject | None:
        found = cache.get(key)
        return Subject(resource, found.metadata, found.status.last_errors) if found is not None else None

    return subject


def _only_tells(expansion: Expansion) -> bool:
    """Whether there is something to be told, and nothing to be made first."""
    return bool(expansion.changes) and all(isinstance(change, SetStatus | Notify) for change in expansion.changes)


def _has_news(expansion: Expansion) -> bool:
    """Whether it tells of a moment, which may have passed later on."""
    return any(isinstance(change, Notify) for change in expansion.changes)


def key_of(metadata: ObjectMeta) -> Key:
    return (metadata.namespace, metadata.name)


def itself(change: Change[Any]) -> Iterable[Key]:
    return (change.key,)


def either(change: Change[Any]) -> Any:
    return change.new if change.new is not None else change.old


def owner_keys(change: Change[Any], kind: str) -> list[Key]:
    """The key of the owner, if it is of this kind."""
    owner = either(change).metadata.controller
    return [(change.key[0], owner.name)] if owner is not None and owner.kind == kind else []


def same_progress(change: Change[PodCliqueSet]) -> bool:
    """The update of a set is as far as it was."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.status.update_progress == new.status.update_progress


def same_wish(change: Change[PodCliqueSet]) -> bool:
    """Only the status of a set changed."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return old.metadata.generation == new.metadata.generation and old.metadata.labels == new.metadata.labels
