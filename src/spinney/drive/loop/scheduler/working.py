"""Acts of a cycle carried out, each to its end.

Never decides: what an act says is done, told or given up.
"""

from __future__ import annotations

from typing import assert_never

from spinney.api.clock import Clock, Dice
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, WARNING, Event, PodReport
from spinney.core.scheduling.reporting.texts import UNSCHEDULABLE, scheduled
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.loop.scheduler.binding import Binder
from spinney.drive.loop.scheduler.carrying import Carried, Carrier, Ending, Errand
from spinney.drive.loop.scheduler.cycle import Act, Begin, Orphans, Resume, Tell
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.telling import Teller
from spinney.drive.loop.scheduler.views import Views


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
    ) -> None:
        def stands(node: str) -> bool:
            return cluster.inventory.find(node) is not None

        doubts = Doubts(client, (views.pods, views.podgroups), dice)
        binder = Binder(door, doubts, views.pods, stands, dice, settings.binds_at_a_time)
        self._views = views
        self._pool = settings.node_pool or DEFAULT_NODE_POOL
        self._carrier = Carrier(door, doubts, views, binder)
        self._teller = Teller(door, doubts, views, clock, settings.node_pool)

    async def run(self) -> None:
        """What can wait, until cancelled."""
        await self._teller.run()

    async def do(self, act: Act) -> Ending:
        match act:
            case Begin(_, errand):
                return self._ended(errand, await self._carrier.begin(errand))
            case Resume(_, errand):
                return self._ended(errand, await self._carrier.resume(errand))
            case Tell(_, group, report):
                return await self._teller.tell(group, report)
            case Orphans():
                return await self._teller.tell_pods(_orphan_reports(act))
            case _:
                assert_never(act)

    def _ended(self, errand: Errand, carried: Carried) -> Ending:
        """Those who have their nodes are told so."""
        if carried.ending is Ending.DONE:
            for seat in errand.plan.seats:
                key = errand.keys[seat.uid] if seat.uid in carried.bound else None
                pod = self._views.pods.get(key) if key is not None else None
                if key is not None and pod is not None:
                    self._teller.note(pod, scheduled(key, seat.node, self._pool))
        return carried.ending


def _orphan_reports(act: Orphans) -> list[PodReport]:
    named = act.key[1]
    why = f"PodGroup {'/'.join(act.key)} does not exist" if named else "the pod is in no PodGroup yet"
    event = Event(WARNING, UNSCHEDULABLE, why)
    return [
        PodReport(pod.metadata.uid, (pod.metadata.namespace, pod.metadata.name), (UNSCHEDULABLE, why), event)
        for pod in act.pods
    ]
