"""Queue order and quota accounting: which gang comes first, whether its queue admits it, and what each gang uses.

A scaled gang is decided after its base gang (G12), whatever their ages are.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from spinney.api.kinds.queue import Queue
from spinney.api.placement.problem import Amounts
from spinney.api.placement.result import Placement
from spinney.core.placement.fair_share import share_out
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cluster import BASE
from spinney.core.scheduling.cycle.scheduling_queue import Due, Pending, QueuedGang, Retry, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key
from spinney.core.scheduling.gang.demand import demand, is_choosy, subsets
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.past_use import PastUse, part_of, remembered
from spinney.core.scheduling.queues.preemption import QueuePreemption
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.queues.tree import (
    FairShares,
    LeafRank,
    QueueOrder,
    QueuePolicy,
    Queues,
    QueueUsage,
    Refusal,
    Shares,
    WaitingGang,
    leaf_rank,
)


class QueueAccounting:
    """Queues, and the charge of each gang. `freed_version` grows when a queue may have more free quota than before."""

    def __init__(self) -> None:
        self.queues = Queues(BASE)
        self.freed_version = 0
        self._preemptible: dict[str, Counter[int]] = {}  # number of charged preemptible gangs, by queue and priority
        self._resources: tuple[str, ...] = BASE
        self._objects: dict[str, Queue] = {}
        self._looked_at = -1  # version of the queues

    def adopt(self, policy: QueuePolicy) -> None:
        """Something else holds for all queues now."""
        self.queues.adopt(policy, self.queues.past)

    def remember(self, past_use: PastUse, passed_s: float, capacity: Amounts) -> None:
        """So much time has passed in which queues held what they hold now."""
        queues = self.queues
        offered = queues.shares_of(capacity)
        held = {name: part_of(used, offered) for name, used in queues.held().items()}
        queues.adopt(queues.policy, remembered(queues.past, held, past_use.fading(passed_s)))

    def put_queue(self, name: str, queue: Queue | None) -> None:
        """Take over a new or changed queue; None: it was deleted."""
        self.freed_version += 1
        if queue is not None:
            self._objects[name] = queue
            self.queues.put(queue)
        else:
            self._objects.pop(name, None)
            self.queues.remove(name)

    def renew(self, resources: tuple[str, ...], entries: Iterable[QueuedGang]) -> None:
        """The set of resources changed: every gang is charged anew when it is read."""
        self._resources = resources
        before = self.queues
        self.queues = Queues(resources, [self._objects[name] for name in sorted(self._objects)])
        self.queues.adopt(before.policy, before.past)
        self.freed_version += 1
        self._preemptible = {}
        for entry in entries:
            entry.charge = entry.asks = entry.demanded = None

    def charge(self, entry: QueuedGang) -> None:
        """Charge the queue for members with a node and for reservations, and let it ask for what the gang waits for."""
        self._ask(entry)
        reading = entry.reading
        charge = _usage(reading, entry.assignments) if reading is not None else None
        rank = reading.gang.priority if reading is not None else 0
        if (charge, rank) == (entry.charge, entry.rank):
            return
        if entry.charge is not None:
            self.freed_version += 1
            self.queues.release(*entry.charge)
            self._count(entry.charge, entry.rank, -1)
        entry.charge, entry.rank = charge, rank
        if charge is not None:
            self.queues.allocate(*charge)
            self._count(charge, rank, 1)

    def refusal(self, reading: ParsedGang) -> Refusal | None:
        """Why the queue does not admit the minimum."""
        return self.queues.verdict(*self._asked(reading))

    def queue_preemption(self, reading: ParsedGang, capacity: Amounts) -> QueuePreemption | None:
        """What is asked beyond a limit, of the queue or one above it, that victims may lift.

        They are in the queue, or, where the limit is one above it, in others below that from which it may reclaim.
        """
        asked = self._asked(reading)
        ranks = self._preemptible.get(asked.queue, ())
        limited = self.queues.over_limit_queues(asked.queue, asked.amounts)
        if not limited:
            return None
        preempts = self.queues.policy.preempts and min(ranks, default=reading.gang.priority) < reading.gang.priority
        reclaim = self.reclaim(reading, capacity) if asked.queue not in limited else None
        reclaim = reclaim if reclaim is not None and reclaim.is_entitled else None
        if not preempts and reclaim is None:
            return None
        return QueuePreemption(self.queues, asked, self.freed_version, reclaim, preempts)

    def reclaim(self, reading: ParsedGang, capacity: Amounts, *, is_charged: bool = False) -> Reclaim:
        """What the gang may take from other queues for its minimum. `is_charged`: it has its reservations."""
        queues, asks = self.queues, self.queues.shares_of(self._asked(reading).amounts)
        shares = queues.fair_shares(capacity)
        return Reclaim(queues, shares, queues.shares_of(capacity), reading.queue, asks, is_charged)

    def objection(self, reading: ParsedGang, places: Iterable[Placement], gone: Sequence[QueueUsage]) -> Refusal | None:
        """Why the queue does not admit this placement, where it has more pods than the minimum that was checked before.

        `gone`: the usage of its victims.
        """
        if not is_choosy(reading.gang.root):
            return None
        with self.queues.supposing(gone=gone):
            return self._verdict(reading, Counter(place.pods for place in places))

    def choices(self, reading: ParsedGang) -> list[ParsedGang]:
        """The gang with each sufficient subset of children, those that ask least of the queue first."""
        return [replace(reading, gang=gang) for gang in subsets(reading.gang, self._resources)]

    def allows(self, entry: QueuedGang, assignments: Iterable[str], beside: Sequence[QueueUsage] = ()) -> bool:
        """Whether the queue admits a gang with these assignments, by uid, beside victims that still hold capacity."""
        charge = _usage(entry.reading, assignments) if entry.reading is not None else None
        own = [entry.charge] if entry.charge is not None else []
        with self.queues.supposing(gone=own, there=beside):
            return charge is None or self.queues.verdict(*charge) is None

    def allowance(self, reading: ParsedGang, left: Counter[str]) -> tuple[Counter[str], str]:
        """How many of these pods beyond the minimum the queue admits, by pod set in fair shares; if none, why.

        Where only some children of a group are required, a part of the others may be too few to start: all or none.
        """
        refused = self._verdict(reading, left) if left else None
        if refused is None:
            return left, ""
        allowed = Counter[str]() if is_choosy(reading.gang.root) else self._shared(reading, left)
        return allowed, "" if allowed else refused.message

    def _shared(self, reading: ParsedGang, left: Counter[str]) -> Counter[str]:
        held = Counter(member.pods for member in reading.gang.running)
        held.update({path: len(pods) - left[path] for path, pods in reading.waiting.items()})
        least = {path: pods.min for path, pods in pod_sets(reading.gang).items()}
        allowed: Counter[str] = Counter()

        def give(path: str, most: int) -> int:
            exceeds = partial(self._exceeds, reading, dict(allowed), path)
            more = bisect(range(allowed[path] + 1, allowed[path] + most + 1), False, key=exceeds)
            allowed[path] += more
            return more

        return +share_out(left, held, least, give)

    def _exceeds(self, reading: ParsedGang, allowed: dict[str, int], path: str, count: int) -> bool:
        return self._verdict(reading, Counter({**allowed, path: count})) is not None

    def _verdict(self, reading: ParsedGang, pods: Counter[str]) -> Refusal | None:
        return self.queues.verdict(reading.queue, _total(reading, pods), reading.gang.preemptible)

    def _asked(self, reading: ParsedGang) -> QueueUsage:
        return QueueUsage(reading.queue, demand(reading.gang, self._resources), reading.gang.preemptible)

    def _count(self, charge: QueueUsage, rank: int, times: int) -> None:
        if charge.preemptible:
            ranks = self._preemptible.setdefault(charge.queue, Counter())
            ranks[rank] += times
            self._preemptible[charge.queue] = +ranks

    def in_order(
        self, scheduling_queue: SchedulingQueue, keys: Iterable[Key], capacity: Amounts
    ) -> Iterator[QueuedGang]:
        """The gangs one after the other; each time what was decided meanwhile counts."""
        entries = [scheduling_queue.entries[key] for key in keys]
        waiting = {entry.key: entry for entry in entries if entry.reading is not None}
        held: dict[Key, list[WaitingGang[Key]]] = {}  # scaled gangs of another queue than that of their base gang
        gangs = []
        for entry in waiting.values():
            base = scheduling_queue.base_of(entry)
            base = base if base is not None and base.key in waiting else None
            gang = self._waiting_gang(entry, base)
            if base is not None and self._queue(base) != gang.queue:
                held.setdefault(base.key, []).append(gang)
            else:
                gangs.append(gang)
        order = QueueOrder(self.queues, lambda: self.queues.fair_shares(capacity), gangs)
        while (key := order.pop()) is not None:
            for gang in held.pop(key, ()):
                order.add(gang)
            yield waiting[key]

    def retry_reclaim(self, scheduling_queue: SchedulingQueue, capacity: Amounts) -> None:
        """Decide refused gangs again that may take from other queues, once what those hold or ask for has changed."""
        queues, before = self.queues, self._looked_at
        self._looked_at = queues.version
        if before == queues.version:
            return
        refused = [entry for key in scheduling_queue.pending if (entry := scheduling_queue.entries[key]).can_be_retried]
        if not refused or not queues.lending(shares := queues.fair_shares(capacity)):
            return
        is_under: dict[str, bool] = {}
        for entry in refused:
            queue = self._queue(entry)
            if queue not in is_under:
                is_under[queue] = queues.is_under(queue, shares)
            if is_under[queue] and self._reclaim(entry, shares, capacity).is_entitled:
                scheduling_queue.apply(entry, Retry())

    def _reclaim(self, entry: QueuedGang, shares: FairShares, capacity: Amounts) -> Reclaim:
        queue, asks = self._queue(entry), self._demanded(entry)
        return Reclaim(self.queues, shares, self.queues.shares_of(capacity), queue, asks)

    def _waiting_gang(self, entry: QueuedGang, base: QueuedGang | None) -> WaitingGang[Key]:
        rank = (self._rank(entry), 0) if base is None else (max(self._rank(entry), self._rank(base)), 1)
        return WaitingGang(entry.key, self._queue(entry), self._demanded(entry), rank)

    def _queue(self, entry: QueuedGang) -> str:
        assert entry.reading is not None
        return entry.reading.queue

    def _rank(self, entry: QueuedGang) -> LeafRank:
        reading, group = entry.reading, entry.group
        assert reading is not None and group is not None
        only_grows = not any(self._demanded(entry))
        return leaf_rank(reading.gang.priority, only_grows, group.metadata.creation_timestamp, reading.gang.name)

    def _demanded(self, entry: QueuedGang) -> Shares:
        """What the minimum of a gang still needs; kept with what was parsed."""
        reading = entry.reading
        assert reading is not None
        if entry.demanded is None or entry.demanded[0] is not reading:
            entry.demanded = reading, self.queues.shares_of(demand(reading.gang, self._resources))
        return entry.demanded[1]

    def _ask(self, entry: QueuedGang) -> None:
        """Let its queue ask for what a gang waits for, as long as it waits."""
        asks = None
        if entry.reading is not None and isinstance(entry.state, (Pending, Due)) and not entry.assignments:
            asks = entry.reading.queue, self._demanded(entry)
        if asks == entry.asks:
            return
        if entry.asks is not None:
            self.queues.ask(*entry.asks, -1)
        if asks is not None:
            self.queues.ask(*asks)
        entry.asks = asks


def _usage(reading: ParsedGang, assignments: Iterable[str]) -> QueueUsage | None:
    """The usage of members with a node and of assignments, by uid; None: there are none.

    A pod that has its node by now keeps its assignment until the whole plan is bound: it counts once.
    """
    paths, assigned = Counter(member.pods for member in reading.gang.running), frozenset(assignments)
    paths.update(path for path, pods in reading.waiting.items() for pod in pods if pod.uid in assigned)
    return QueueUsage(reading.queue, _total(reading, paths), reading.gang.preemptible) if paths else None


def _total(reading: ParsedGang, paths: Counter[str]) -> Amounts:
    leaves = pod_sets(reading.gang)
    rows = [[amount * times for amount in leaves[path].request] for path, times in paths.items()]
    return tuple(map(sum, zip(*rows, strict=True)))
