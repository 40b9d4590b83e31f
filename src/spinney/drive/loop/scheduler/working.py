"""Acts of a cycle carried out, each to its end.

Never decides: what an act says is done, told or given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import structlog

from spinney.api.clock import Clock, Dice
from spinney.api.labels import KAI_STALE_TIMESTAMP
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, Event
from spinney.core.scheduling.reporting.texts import EVICTOR_ACTION, record_rejected, scheduled
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.loop.scheduler.acts import Act, Begin, Discard, Resume
from spinney.drive.loop.scheduler.binding import Binder
from spinney.drive.loop.scheduler.carrying import Carried, Carrier, Ending, Errand
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.evicting import Answer, Evictor, Target
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.preparing import Preparer
from spinney.drive.loop.scheduler.pursuing import Abandon, Nominate, Promote, Pursue
from spinney.drive.loop.scheduler.records import UNLAWFUL, Records, Rejected
from spinney.drive.loop.scheduler.reports import Reports
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.staleness import Expel, Mark
from spinney.drive.loop.scheduler.turns import Turn, Turns
from spinney.drive.loop.scheduler.views import PODGROUPS, Views

_log = structlog.get_logger(__name__)


class Work:
    """What acts come to."""

    def __init__(
        self,
        door: Door,
        client: ApiClient,
        views: Views,
        cluster: Cluster,
        settings: Settings,
        clock: Clock,
        dice: Dice,
        metrics: Metrics,
        turns: Turns,
        settled: Callable[[], None],
        records: Records,
    ) -> None:
        def stands(node: str) -> bool:
            return cluster.inventory.find(node) is not None

        caches = (views.pods, views.podgroups, views.claims, views.queues)
        self.doubts = doubts = Doubts(client, caches, dice, settled)
        binder = Binder(door, doubts, views.pods, stands, clock, dice, metrics, settings)
        self._views = views
        self._metrics = metrics
        self._pool = settings.node_pool or DEFAULT_NODE_POOL
        self.reports = Reports(
            door, clock, views.podgroups.get, views.pods.get, doubts.settle, node_pool=self._pool, lull=turns.quiet
        )
        self._evictor = Evictor(door, doubts, clock, self._note_eviction)
        preparer = Preparer(door, doubts, views, cluster)
        self._carrier = Carrier(door, doubts, views, preparer, binder, self._evictor, records)

    async def run(self) -> None:
        """What can wait, until cancelled."""
        await self.reports.run()

    async def do(self, act: Act, turn: Turn) -> Carried:
        carried = await self._carry_out(act, turn)
        for failure in carried.failures:
            self._metrics.refused(failure.write, failure.code)
        return carried

    async def _carry_out(self, act: Act, turn: Turn) -> Carried:
        match act:
            case Begin(_, errand):
                return self._began(errand, await self._carrier.begin(errand, turn.step_back))
            case Resume(_, errand, why) | Abandon(_, errand, why):
                carried = self._ended(errand, await self._carrier.resume(errand))
                if why and carried.ending is Ending.DONE:
                    self._tell_rejected(errand.group, Rejected(UNLAWFUL, why))
                return carried
            case Discard():
                return await self._discard(act)
            case Promote(_, errand):
                return self._ended(errand, await self._carrier.begin(errand))
            case Nominate(_, errand, targets):
                self._metrics.preemption_attempt()
                return await self._carrier.nominate(errand, targets)
            case Pursue(_, errand, targets):
                return await self._carrier.pursue(errand, targets)
            case Expel(_, targets):
                return await self._expel(targets)
            case Mark():
                return Carried(await self._mark(act))
            case _:
                assert_never(act)

    async def _expel(self, targets: Sequence[Target]) -> Carried:
        found = await self._evictor.evict_all(targets)
        if found.failures:
            return Carried(Ending.FAILED, failures=found.failures)
        return Carried(Ending.DONE if found.answer is Answer.GOING else Ending.LATER)

    def _began(self, errand: Errand, carried: Carried) -> Carried:
        if carried.ending is Ending.LOOK:
            self._metrics.plan_conflict()
        elif carried.bound:
            self._metrics.scheduled(errand.plan.score)
        return self._ended(errand, carried)

    async def _discard(self, act: Discard) -> Carried:
        """Told once it is gone: others who write it again and again are told as often."""
        carried = await self._carrier.discard(act.group, act.pods)
        if carried.ending is Ending.DONE:
            self._tell_rejected(act.group, act.rejected)
        return carried

    def _tell_rejected(self, group: ObjectMeta, why: Rejected) -> None:
        name = f"{group.namespace}/{group.name}"
        _log.warning("a record was rejected", podgroup=name, reason=why.reason, message=why.message)
        self._metrics.record_rejected(why.reason)
        self.reports.note(PODGROUPS.api_version, "PodGroup", group, record_rejected(why.message))

    async def _mark(self, act: Mark) -> Ending:
        ending = await self._carrier.mark(act.group, KAI_STALE_TIMESTAMP, act.since)
        if ending is Ending.DONE and act.event is not None:
            self.reports.note(PODGROUPS.api_version, "PodGroup", act.group, act.event)
        return ending

    def _note_eviction(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> None:
        self.reports.note(api_version, kind, about, event)
        action = dict(event.annotations).get(EVICTOR_ACTION)
        if kind == "PodGroup" and action is not None:
            self._metrics.evicted(about.name, about.uid, self._pool, action, pods=1)

    def _ended(self, errand: Errand, carried: Carried) -> Carried:
        """Those who have their nodes are told so."""
        if carried.ending in (Ending.DONE, Ending.FAILED):
            for seat in errand.plan.seats:
                key = errand.keys[seat.uid] if seat.uid in carried.bound else None
                pod = self._views.pods.get(key) if key is not None else None
                if key is not None and pod is not None:
                    self.reports.note("v1", "Pod", pod.metadata, scheduled(key, seat.node, self._pool))
        return carried
