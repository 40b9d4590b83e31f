"""What all controllers of the operator share: caches, settings, clock, and the reconcile loop from key to writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kube_apimachinery.clock import Clock, Dice
from spinney.api.changes import ChangeSet, EmitEvent, Resource, SetStatus
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import PODGANG
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.settings import Settings
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.apply.change_events import InvolvedObject, Refusal, forgotten, remembered
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.drive.controller.reconcile_cache import Expand, ReconcileCache, RecordedCache
from spinney.drive.controller.work_queue import WorkQueue
from spinney.drive.operator.caches import OperatorCaches

# Debounces status writes: a key with only status or events to write waits while other keys create or patch objects.
#
# So a status is written once with its final value, not after every intermediate step. Never delays a key for long: keys
# are released when the queues are short and nothing was written for `_QUIET_S`, and after `_LONGEST_S` in any case.

_CROWD = 16
_QUIET_S = 0.15
_POLL_S = 0.05
_LONGEST_S = 10.0
_LONGEST_WITHOUT_CROWD_S = 2.0


class StatusDebouncer:
    """Shared by the work queues of all controllers of the operator, because their writes trigger each other."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._waiting: dict[tuple[str, Key], float] = {}
        self._called: set[tuple[str, Key]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._made_s = -_QUIET_S

    def join(self, name: str, queue: WorkQueue[Key]) -> None:
        self._queues[name] = queue

    def defers(self, name: str, key: Key, *, passing: bool = False) -> bool:
        """Whether to skip a key for now; it is added to its queue again later.

        With `passing` (it has an event about a transition, which a later look may miss) it is skipped only while the
        queues are crowded, not because something was written a moment ago.
        """
        who = (name, key)
        if who in self._called or not (self._crowded() or (self._busy() and not passing)):
            self.done(name, key)
            return False
        self._waiting.setdefault(who, asyncio.get_running_loop().time())
        self._schedule_release()
        return True

    def made(self) -> None:
        """Objects have just been written: the reconciles that this triggers may still be on their way."""
        self._made_s = asyncio.get_running_loop().time()

    def done(self, name: str, key: Key) -> None:
        """The key is being reconciled: it no longer waits."""
        self._waiting.pop((name, key), None)
        self._called.discard((name, key))

    def _crowded(self) -> bool:
        return sum(map(len, self._queues.values())) > _CROWD

    def _busy(self) -> bool:
        return asyncio.get_running_loop().time() - self._made_s < _QUIET_S

    def _schedule_release(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_POLL_S, self._release_due)

    def _release_due(self) -> None:
        self._timer = None
        longest_s = _LONGEST_S if self._crowded() else _LONGEST_WITHOUT_CROWD_S if self._busy() else 0.0
        until = asyncio.get_running_loop().time() - longest_s
        called = [who for who, since in self._waiting.items() if since <= until]
        for who in called:
            del self._waiting[who]
            self._called.add(who)
            self._queues[who[0]].add(who[1])
        if self._waiting:
            self._schedule_release()


_GATHER_S = 0.05
"""Delay before keys from high-volume sources (pods, nodes) are enqueued, so that a burst is reconciled once."""


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    views: OperatorCaches
    settings: Settings
    change_applier: ChangeApplier
    client: ApiClient
    clock: Clock
    dice: Dice
    debouncer: StatusDebouncer = field(default_factory=StatusDebouncer)

    def controller(
        self,
        name: str,
        sources: list[Source[Key]],
        gathered: list[Source[Key]],
        expand: Expand,
        workers: int,
        subject: Callable[[Key], InvolvedObject | None] = lambda key: None,
    ) -> Controller[Key]:
        """A controller that applies what `expand` returns for a key.

        Changes from `sources` are enqueued at once, those from `gathered` after `_GATHER_S`. `subject` is the object
        whose events and `lastErrors` report failures. An object is not expanded again while everything that `expand`
        has read is unchanged. An expansion with only status writes and events is debounced while other keys still
        have objects to create, update or delete.
        """
        known = ReconcileCache(expand, self.views.reads)

        async def reconcile(key: Key) -> Result:
            about, refusals = subject(key), list[Refusal]()
            try:
                expansion = known.expansion(key, self.clock.now())
                only_reports = _only_reports(expansion)
                if only_reports and self.debouncer.defers(name, key, passing=_has_event(expansion)):
                    return Done()
                self.debouncer.done(name, key)
                whole = await self.change_applier.carry_out(expansion.changes, about, refusals)
                if not only_reports:
                    self.debouncer.made()
            except Exception as error:
                if about is not None:
                    await self._write_status(remembered(about, refusals, error, self.clock.now()))
                raise
            if not whole:
                return RequeueAfter(_GATHER_S)
            if about is not None:
                await self._write_status(forgotten(about))
            if expansion.requeue_at_s is None:
                return Done()
            return RequeueAfter(max(expansion.requeue_at_s - self.clock.now(), 0.001))

        both = [*sources, *(replace(source, gather_s=_GATHER_S) for source in gathered)]
        controller: Controller[Key] = Controller(name, both, reconcile, self.client, self.dice, workers=workers)
        self.debouncer.join(name, controller.queue)
        return controller

    async def _write_status(self, status: SetStatus | None) -> None:
        """Write `lastErrors`; a failed write is dropped, because the next reconcile writes it again."""
        if status is not None:
            with suppress(ClientError):
                await self.change_applier.carry_out([status])

    def sets_of_topology(self, change: Change[AnyTopology]) -> list[Key]:
        """The PodCliqueSets that use a changed topology; a change of its status alone enqueues none."""
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return []
        return [key_of(each.metadata) for each in self.views.sets.by("topology", change.key[1])]

    def gang_of(self, above: PodCliqueSet, name: str) -> PodGang | None:
        """The PodGang with this name, if the PodCliqueSet controls it."""
        found = self.views.gangs.get((above.metadata.namespace, name)) if name else None
        owner = found.metadata.controller if found is not None else None
        return found if owner is not None and owner.uid == above.metadata.uid else None

    def members_of(self, gang: PodGang) -> list[PodClique]:
        """The PodCliques that a PodGang lists and that carry its name in their label."""
        found = (self.views.cliques.get((gang.metadata.namespace, group.name)) for group in gang.spec.podgroups)
        name = gang.metadata.name
        return [each for each in found if each is not None and each.metadata.labels.get(PODGANG) == name]

    def claim_sources(self, kind: str, owners: RecordedCache[Any]) -> list[Source[Key]]:
        """A claim enqueues its owner; a template enqueues all owners in its namespace, which may wait for it."""
        claims, templates = self.views.claims, self.views.claim_templates
        if claims is None or templates is None:
            return []

        def of_template(change: Change[Any]) -> Iterable[Key]:
            return [key for key in owners.keys() if key[0] == change.key[0]]  # noqa: SIM118 - sorted keys of a cache

        return [
            Source(claims.cache, lambda change: owner_keys(change, kind)),
            Source(templates.cache, of_template),
        ]


def subject_of(resource: Resource, cache: RecordedCache[Any]) -> Callable[[Key], InvolvedObject | None]:
    """A function from a key to the object that carries events and `lastErrors` for it."""

    def subject(key: Key) -> InvolvedObject | None:
        found = cache.get(key)
        return InvolvedObject(resource, found.metadata, found.status.last_errors) if found is not None else None

    return subject


def _only_reports(expansion: ChangeSet) -> bool:
    """Whether the expansion holds status writes and events only, and at least one."""
    return bool(expansion.changes) and all(isinstance(change, SetStatus | EmitEvent) for change in expansion.changes)


def _has_event(expansion: ChangeSet) -> bool:
    """Whether it holds an event: an event describes a transition that a later expansion may no longer see."""
    return any(isinstance(change, EmitEvent) for change in expansion.changes)


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
    """Whether the rolling update of a set has not progressed."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.status.update_progress == new.status.update_progress


def same_spec(change: Change[PodCliqueSet]) -> bool:
    """Whether only the status of a set changed, not its spec or labels."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return old.metadata.generation == new.metadata.generation and old.metadata.labels == new.metadata.labels
