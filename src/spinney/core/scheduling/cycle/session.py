"""The session of one scheduler: cluster, gangs and queues as the caches show them, and the engine over them.

Event handlers fold changes into it, and cycles decide over it; it outlives a cycle, and nothing of it outlives the
process. A look at a gang that is due later is asked for here and returned by the cycle, whose caller has the timers.
"""

from __future__ import annotations

from typing import NamedTuple

from kube_apimachinery.clock import Clock
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.queue_accounting import QueueAccounting
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang
from spinney.core.scheduling.gang.priorities import Priorities
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.queues.tree import QueueFigures
from spinney.core.scheduling.settings import Settings


class Requeue(NamedTuple):
    """Another look at a gang, after that many seconds."""

    key: Key
    after_s: float


class Session:
    """`placement` asks the engine; `short_levels`: the names that ClusterTopologies give to levels, by topology."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.cluster = Cluster(settings.node_pool)
        self.scheduling_queue = SchedulingQueue()
        self.queue_accounting = QueueAccounting()
        self.placement = PlacementSession(
            self.cluster, settings.strategy, settings.budget, self.scheduling_queue.reserved
        )
        self.priorities = Priorities()
        self.short_levels: dict[str, dict[str, str]] = {}
        self._requeues: list[Requeue] = []

    def requeue_after(self, key: Key, after_s: float) -> None:
        """Look at a gang again; 0: in the next cycle."""
        self._requeues.append(Requeue(key, after_s))

    def take_requeues(self) -> list[Requeue]:
        """What was asked for since the last call."""
        found, self._requeues = self._requeues, []
        return found

    def reclaim(self, reading: ParsedGang) -> Reclaim:
        """What a gang may take from other queues now."""
        return self.queue_accounting.reclaim(reading, self.cluster.capacity)

    def reclaim_of_plan(self, entry: QueuedGang) -> Reclaim:
        """The same for what is assigned to it."""
        return self.queue_accounting.reclaim_of_plan(entry, self.cluster.capacity)

    def queue_figures(self) -> dict[str, QueueFigures]:
        """What each queue has and should have now."""
        return self.queue_accounting.figures(self.cluster.capacity)

    def context(self, snapshot: Snapshot) -> Context:
        """The lookups that parsing needs now."""
        inventory = self.cluster.inventory
        return Context(
            resources=inventory.resources,
            priorities=self.priorities,
            volumes=snapshot.volume_lookups,
            claim=snapshot.resource_claim,
            has_config_map=snapshot.has_config_map,
            topologies=self.cluster.topologies,
            short_levels=self.short_levels,
            has_node=lambda name: inventory.find(name) is not None,
            unreadable=snapshot.unreadable,
            is_limited=snapshot.is_limited,
        )
