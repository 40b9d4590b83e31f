"""The queues of a replay: who comes next (Q2), who is admitted (Q3), and whom a gang may take from (Q5, Q6).

The rules are the scheduler's own. Gangs can be preempted, are reclaimed whole, and go on where they were when they run
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from spinney.api.documents import DocumentError, read_documents
from spinney.api.kinds.queue import Queue
from spinney.api.placement.problem import Amounts, Gang
from spinney.api.placement.result import Victim
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gang.demand import demand
from spinney.core.scheduling.queues.reclaim import Holder, Reclaim, units_of
from spinney.core.scheduling.queues.tree import QueueOrder, Queues, WaitingGang, leaf_rank
from spinney.sim.replay.trace import InputError, Trace


def read_queues(text: str, where: str) -> tuple[Queue, ...]:
    """The Queues of a file; other kinds in it are passed over."""
    try:
        documents = read_documents(text, where)
        queues = [each for each in documents if isinstance(each, dict) and each.get("kind") == Queue.KIND]
        found = tuple([msgspec.convert(each, Queue, strict=False) for each in queues])
    except (DocumentError, msgspec.ValidationError) as error:
        raise InputError(f"{where}: {error}") from None
    if not found:
        raise InputError(f"{where}: found no Queue, expected at least one")
    return found


def refuse_unknown_queues(trace: Trace, queues: Sequence[Queue]) -> None:
    """Every gang is in a leaf queue."""
    known = Queues((), queues)
    leaves = [queue.metadata.name for queue in queues if known.verdict(queue.metadata.name, (), True) is None]
    for job in trace.jobs:
        if job.queue not in leaves:
            allowed = ", ".join(sorted(leaves)[:8]) or "none"
            raise InputError(
                f"{trace.where}: gang {job.name}, virtual_cluster: found {job.queue!r}, allowed: a leaf queue of "
                f"--queues ({allowed})"
            )


@dataclass(frozen=True, slots=True)
class _Held:
    """What a running gang holds, since when."""

    queue: str
    gang: Gang
    amounts: Amounts
    since_s: int


class ReplayQueues:
    """What gangs of each queue hold and ask for on one cluster."""

    def __init__(self, objects: Sequence[Queue], cluster: Cluster) -> None:
        self._resources = cluster.inventory.resources
        self._capacity = cluster.capacity
        self._queues = Queues(self._resources, objects)
        self._empty = Queues(self._resources, objects)
        self._held: dict[str, _Held] = {}

    def refusal(self, queue: str, gang: Gang) -> str:
        """Why the queue admits the gang never, however idle it is; empty: it does."""
        refused = self._empty.verdict(queue, self._amounts(gang), preemptible=True)
        return refused.message if refused is not None else ""

    def admits(self, queue: str, gang: Gang) -> bool:
        return self._queues.verdict(queue, self._amounts(gang), preemptible=True) is None

    def ask(self, queue: str, gang: Gang, times: int = 1) -> None:
        """A gang waits, or, with -1, no longer."""
        self._queues.ask(queue, self._queues.shares_of(self._amounts(gang)), times)

    def start(self, queue: str, gang: Gang, now_s: int) -> None:
        held = self._held[gang.name] = _Held(queue, gang, self._amounts(gang), now_s)
        self._queues.allocate(queue, held.amounts, preemptible=True)

    def leave(self, name: str) -> str:
        """A gang is done or was reclaimed; its queue."""
        held = self._held.pop(name)
        self._queues.release(held.queue, held.amounts, preemptible=True)
        return held.queue

    def waiting_gang(self, number: int, queue: str, gang: Gang) -> WaitingGang[int]:
        """`number` counts arrivals: whoever came first is older."""
        asks = self._queues.shares_of(self._amounts(gang))
        return WaitingGang(number, queue, asks, (leaf_rank(gang.priority, False, f"{number:012}", gang.name), 0))

    def order(self, gangs: Iterable[WaitingGang[int]]) -> QueueOrder[int]:
        return QueueOrder(self._queues, partial(self._queues.fair_shares, self._capacity), gangs)

    def victim_rules(self, queue: str, gang: Gang, now_s: int) -> VictimRules | None:
        """Whom a gang that does not fit may take from; None: nobody."""
        asks = self._queues.shares_of(self._amounts(gang))
        shares, capacity = self._queues.fair_shares(self._capacity), self._queues.shares_of(self._capacity)
        reclaim = Reclaim(self._queues, shares, capacity, queue, asks)
        if not reclaim.is_entitled:
            return None
        standing = [held for held in reversed(self._held.values()) if self._may_lose(held, reclaim, now_s)]
        prices = {held.gang.name: (_over_use(reclaim, held), held.gang.priority) for held in standing}
        tiers = {price: tier for tier, price in enumerate(sorted(set(prices.values())))}
        holders = {held.gang.name: self._holder(held) for held in standing}

        def is_allowed(victims: Sequence[Victim]) -> bool:
            return reclaim.is_lawful(units_of(victims, holders))

        by_tier = {name: tiers[prices[name]] for name in sorted(prices, key=lambda name: tiers[prices[name]])}
        return VictimRules(by_tier, is_allowed) if standing else None

    def _may_lose(self, held: _Held, reclaim: Reclaim, now_s: int) -> bool:
        if held.queue == reclaim.queue or not reclaim.may_take_from(held.queue):
            return False
        return now_s - held.since_s >= self._queues.reclaim_min_runtime_s(reclaim.parting(held.queue))

    def _holder(self, held: _Held) -> Holder:
        sizes = {path: self._queues.shares_of(pods.request) for path, pods in pod_sets(held.gang).items()}
        return Holder(held.queue, sizes, sum(pods.min for pods in pod_sets(held.gang).values()))

    def _amounts(self, gang: Gang) -> Amounts:
        return demand(gang, self._resources)


def _over_use(reclaim: Reclaim, held: _Held) -> tuple[int, ...]:
    return tuple([-use for use in reclaim.over_use(held.queue)])
