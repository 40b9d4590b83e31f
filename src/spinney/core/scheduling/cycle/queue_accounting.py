"""Queue order and quota accounting: which gang comes first, whether its queue admits it, and what each gang uses.

A scaled gang is decided after its base gang (G12), whatever their ages are.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from spinney.core.scheduling.gang.growth import beyond_minimum, next_pods
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.past_use import PastUse, part_of, remembered
from spinney.core.scheduling.queues.preemption import QueuePreemption
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.queues.tree import (
    BELOW_MINIMUM,
    FairShares,
    LeafRank,
    QueueFigures,
    QueueOrder,
    QueuePolicy,
    Queues,
    QueueUsage,
    Refusal,
    Shares,
    WaitingGang,
    leaf_rank,
)


class Turns:
    """The gangs that are due, one after the other, each again as long as it wants more pods beyond its minimum."""

    def __init__(
        self,
        order: QueueOrder[Key],
        waiting: Mapping[Key, QueuedGang],
        gangs: Mapping[Key, WaitingGang[Key]],
        held: dict[Key, list[WaitingGang[Key]]],
    ) -> None:
        """`held`: gangs that come after another one, by its key."""
        self._order = order
        self._waiting = waiting
        self._gangs = gangs
        self._held = held

    def __iter__(self) -> Iterator[QueuedGang]:
        while (key := self._order.pop()) is not None:
            for gang in self._held.pop(key, ()):
                self._order.add(gang)
            yield self._waiting[key]

    def gang(self, key: Key) -> WaitingGang[Key]:
        return self._gangs[key]

    def again(self, gang: WaitingGang[Key]) -> None:
        """One more turn for a gang."""
        self._order.add(gang)

    def is_open(self, key: Key) -> bool:
        """Whether anybody competes with a gang."""
        return self._order.is_open(self._gangs[key])


class QueueAccounting:
    """Queues, and the charge of each gang. `freed_version` grows when a queue may have more free quota than before."""

    def __init__(self) -> None:
        self.queues = Queues(BASE)
        self.freed_version = 0
        self._preemptible: dict[str, Counter[int]] = {}  # number of charged preemptible gangs, by queue and priority
        self._held: dict[Key, tuple[int, QueueUsage]] = {}  # with the priority of the gang
        self._resources: tuple[str, ...] = BASE
        self._objects: dict[str, Queue] = {}
        self._queues_version = -1  # version of the queues

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
        self._held.clear()
        for entry in entries:
            entry.charge = entry.asks = entry.demanded = entry.wanted = None

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
        """Why the queue does not admit the minimum, beside what is held for replacements of no less important gangs."""
        with self._beside_held(reading):
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

    def reclaim(self, reading: ParsedGang, capacity: Amounts) -> Reclaim:
        """What the gang may take from other queues for its minimum."""
        asks = self.queues.shares_of(self._asked(reading).amounts)
        return self._reclaim(reading.queue, asks, self.queues.fair_shares(capacity), capacity)

    def reclaim_of_plan(self, entry: QueuedGang, capacity: Amounts) -> Reclaim:
        """The same for what is assigned to a gang, with which its queue is charged already."""
        reading = entry.reading
        assert reading is not None
        waiting = [(path, pod.uid) for path, pods in reading.waiting.items() for pod in pods]
        assigned = Counter(path for path, uid in waiting if uid in entry.assignments)
        asks = self.queues.shares_of(_total(reading, assigned))
        found = self._reclaim(reading.queue, asks, self.queues.fair_shares(capacity), capacity)
        return replace(found, is_charged=True)

    def figures(self, capacity: Amounts) -> dict[str, QueueFigures]:
        """What each queue has and should have now."""
        return self.queues.figures(self.queues.fair_shares(capacity))

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
        with self._beside_held(reading):
            return self.queues.verdict(reading.queue, _total(reading, pods), reading.gang.preemptible)

    def hold(self, entry: QueuedGang, amounts: Amounts | None) -> None:
        """Keep quota for the replacements of a gang's pods (G13); None: for none any more."""
        self._held.pop(entry.key, None)
        if amounts is not None and (reading := entry.reading) is not None:
            self._held[entry.key] = reading.gang.priority, QueueUsage(reading.queue, amounts, reading.gang.preemptible)

    def _beside_held(self, reading: ParsedGang) -> AbstractContextManager[None]:
        held = [usage for priority, usage in self._held.values() if priority >= reading.gang.priority]
        return self.queues.supposing(there=held) if held else nullcontext()

    def _asked(self, reading: ParsedGang) -> QueueUsage:
        return QueueUsage(reading.queue, demand(reading.gang, self._resources), reading.gang.preemptible)

    def _count(self, charge: QueueUsage, rank: int, times: int) -> None:
        if charge.preemptible:
            ranks = self._preemptible.setdefault(charge.queue, Counter())
            ranks[rank] += times
            self._preemptible[charge.queue] = +ranks

    def in_order(self, scheduling_queue: SchedulingQueue, keys: Iterable[Key], capacity: Amounts) -> Turns:
        """The gangs one after the other; each time what was decided meanwhile counts."""
        entries = [scheduling_queue.entries[key] for key in keys]
        waiting = {entry.key: entry for entry in entries if entry.reading is not None}
        held: dict[Key, list[WaitingGang[Key]]] = {}  # scaled gangs of another queue than that of their base gang
        gangs = {}
        for entry in waiting.values():
            base = scheduling_queue.base_of(entry)
            base = base if base is not None and base.key in waiting else None
            gang = gangs[entry.key] = self._waiting_gang(entry, base)
            if base is not None and self._queue(base) != gang.queue:
                held.setdefault(base.key, []).append(gang)
        behind = {gang.key for others in held.values() for gang in others}
        first = [gang for key, gang in gangs.items() if key not in behind]
        order = QueueOrder(self.queues, lambda: self.queues.fair_shares(capacity), first)
        return Turns(order, waiting, gangs, held)

    def turn(
        self, entry: QueuedGang, gang: WaitingGang[Key], pods: Counter[str], planned: Counter[str]
    ) -> WaitingGang[Key]:
        """The gang as it waits for these pods beyond its minimum, with those that are planned already."""
        reading = entry.reading
        assert reading is not None
        (priority, _, created, name), tie = gang.rank
        rank = priority, beyond_minimum(reading.gang, planned), created, name
        return gang._replace(asks=self.queues.shares_of(_total(reading, pods)), rank=(rank, tie))

    def retry_reclaim(self, scheduling_queue: SchedulingQueue, capacity: Amounts) -> None:
        """Decide refused gangs again that may take from other queues, once what those hold or ask for has changed."""
        queues, before = self.queues, self._queues_version
        self._queues_version = queues.version
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
            if is_under[queue] and self._reclaim(queue, self._wanted(entry), shares, capacity).is_entitled:
                scheduling_queue.apply(entry, Retry())

    def _reclaim(self, queue: str, asks: Shares, shares: FairShares, capacity: Amounts) -> Reclaim:
        return Reclaim(self.queues, shares, self.queues.shares_of(capacity), queue, asks)

    def _wanted(self, entry: QueuedGang) -> Shares:
        """What its minimum still needs, or its next pod beyond that; kept with what was parsed."""
        reading = entry.reading
        assert reading is not None
        if entry.wanted is None or entry.wanted[0] is not reading:
            entry.wanted = reading, self._demanded(entry)
            waiting = {path: len(pods) for path, pods in reading.waiting.items() if pods}
            if waiting and not any(entry.wanted[1]):
                pods = next_pods(reading.gang, waiting, {}, 1)
                entry.wanted = reading, self.queues.shares_of(_total(reading, pods))
        return entry.wanted[1]

    def _waiting_gang(self, entry: QueuedGang, base: QueuedGang | None) -> WaitingGang[Key]:
        rank = (self._rank(entry), 0) if base is None else (max(self._rank(entry), self._rank(base)), 1)
        return WaitingGang(entry.key, self._queue(entry), self._wanted(entry), rank)

    def _queue(self, entry: QueuedGang) -> str:
        assert entry.reading is not None
        return entry.reading.queue

    def _rank(self, entry: QueuedGang) -> LeafRank:
        reading, group = entry.reading, entry.group
        assert reading is not None and group is not None
        beyond = BELOW_MINIMUM if any(self._demanded(entry)) else beyond_minimum(reading.gang)
        return leaf_rank(reading.gang.priority, beyond, group.metadata.creation_timestamp, reading.gang.name)

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
            asks = entry.reading.queue, self._wanted(entry)
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
