"""Whose turn it is, and whose queue has nothing against it. What gangs use of their queues is kept in step.

A gang that follows another one is decided after it (G12), whatever their ages are.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from spinney.api.kinds.queue import Queue
from spinney.api.placement.problem import Amounts
from spinney.api.placement.result import Placement
from spinney.core.placement.holders import pod_sets
from spinney.core.placement.in_turns import share_out
from spinney.core.scheduling.cluster import BASE
from spinney.core.scheduling.gangs import GangReading, demand, is_choosy
from spinney.core.scheduling.queues import Charge, Queues, Refusal
from spinney.core.scheduling.queues import Key as Rank
from spinney.core.scheduling.subsets import subsets
from spinney.drive.client.cache import Cache, Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.relieving import Relief


class Ordering:
    """Queues, and what each entry is charged for. `eased` grows when a queue may have more room than before."""

    def __init__(self, queues: Cache[Queue]) -> None:
        self.queues = Queues(BASE)
        self.eased = 0
        self._preemptible: dict[str, Counter[int]] = {}  # gangs that are charged for and may go, by queue and priority
        self._resources: tuple[str, ...] = BASE
        self._cache = queues
        queues.subscribe(self._fold)

    def renew(self, resources: tuple[str, ...], entries: Iterable[Entry]) -> None:
        """Amounts are on another axis: everybody is charged anew as they are read."""
        self._resources = resources
        self.queues = Queues(
            resources, [queue for _, queue in sorted((each.metadata.name, each) for each in self._cache)]
        )
        self.eased += 1
        self._preemptible = {}
        for entry in entries:
            entry.charge = None

    def charge(self, entry: Entry) -> None:
        """For members that have a node and for seats that are kept."""
        reading = entry.reading
        charge = _charge(reading, entry.seats) if reading is not None else None
        rank = reading.gang.priority if reading is not None else 0
        if (charge, rank) == (entry.charge, entry.rank):
            return
        if entry.charge is not None:
            self.eased += 1
            self.queues.release(*entry.charge)
            self._count(entry.charge, entry.rank, -1)
        entry.charge, entry.rank = charge, rank
        if charge is not None:
            self.queues.allocate(*charge)
            self._count(charge, rank, 1)

    def refusal(self, reading: GangReading) -> Refusal | None:
        """Why the queue will not have the minimum."""
        return self.queues.verdict(*self._asked(reading))

    def relief(self, reading: GangReading) -> Relief | None:
        """What the limit of the queue, or of one above it, would have to be relieved of; None: of nobody who may go."""
        asked = self._asked(reading)
        crowded = self.queues.crowded(asked.queue, asked.amounts)
        inside = frozenset(self.queues.below(crowded)) if crowded else frozenset[str]()
        ranks = [rank for queue in inside for rank in self._preemptible.get(queue, ())]
        if min(ranks, default=reading.gang.priority) >= reading.gang.priority:
            return None
        return Relief(self.queues, asked, inside, self.eased)

    def objection(self, reading: GangReading, places: Iterable[Placement], gone: Sequence[Charge]) -> Refusal | None:
        """Why the queue will not have these places, where more may have been chosen than was asked about before.

        `gone`: what those hold who leave for it.
        """
        if not is_choosy(reading.gang.root):
            return None
        with self.queues.supposing(gone=gone):
            return self._verdict(reading, Counter(place.pods for place in places))

    def choices(self, reading: GangReading) -> list[GangReading]:
        """The gang with each choice of children that suffice, those first that ask for least of the queue."""
        return [replace(reading, gang=gang) for gang in subsets(reading.gang, self._resources)]

    def allows(self, entry: Entry, seats: Iterable[str], beside: Sequence[Charge] = ()) -> bool:
        """Whether the queue has nothing against a gang with these seats, by uid, beside those who linger."""
        charge = _charge(entry.reading, seats) if entry.reading is not None else None
        own = [entry.charge] if entry.charge is not None else []
        with self.queues.supposing(gone=own, there=beside):
            return charge is None or self.queues.verdict(*charge) is None

    def allowance(self, reading: GangReading, left: Counter[str]) -> tuple[Counter[str], str]:
        """How many of these pods beyond the minimum the queue has room for, by pod set: they share it; if none, why.

        Where only some children of a group have to be there, a part of those left may be too few to begin: all or none.
        """
        refused = self._verdict(reading, left) if left else None
        if refused is None:
            return left, ""
        allowed = Counter[str]() if is_choosy(reading.gang.root) else self._shared(reading, left)
        return allowed, "" if allowed else refused.message

    def _shared(self, reading: GangReading, left: Counter[str]) -> Counter[str]:
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

    def _exceeds(self, reading: GangReading, allowed: dict[str, int], path: str, count: int) -> bool:
        return self._verdict(reading, Counter({**allowed, path: count})) is not None

    def _verdict(self, reading: GangReading, pods: Counter[str]) -> Refusal | None:
        return self.queues.verdict(reading.queue, _total(reading, pods), reading.gang.preemptible)

    def _asked(self, reading: GangReading) -> Charge:
        return Charge(reading.queue, demand(reading.gang, self._resources), reading.gang.preemptible)

    def _count(self, charge: Charge, rank: int, times: int) -> None:
        if charge.preemptible:
            ranks = self._preemptible.setdefault(charge.queue, Counter())
            ranks[rank] += times
            self._preemptible[charge.queue] = +ranks

    def sort(self, book: Book, keys: Iterable[Key]) -> list[Entry]:
        entries = [book.entries[key] for key in keys]
        return sorted((each for each in entries if each.reading is not None), key=lambda each: self._rank(book, each))

    def _rank(self, book: Book, entry: Entry) -> tuple[Rank, int]:
        own = self._own_rank(entry)
        namespace, _, name = entry.base.partition("/")
        base = book.entries.get((namespace, name))
        if base is None or base.reading is None or base.key not in book.due:
            return own, 0
        return max(own, self._own_rank(base)), 1

    def _own_rank(self, entry: Entry) -> Rank:
        reading, group = entry.reading, entry.group
        assert reading is not None and group is not None
        return self.queues.order(
            reading.gang.priority, reading.queue, group.metadata.creation_timestamp, reading.gang.name
        )

    def _fold(self, change: Change[Queue]) -> None:
        self.eased += 1
        if change.new is not None:
            self.queues.put(change.new)
        else:
            self.queues.remove(change.key[1])


def _charge(reading: GangReading, seats: Iterable[str]) -> Charge | None:
    """For members that have a node and for seats, by uid; None: there are none."""
    paths = Counter(member.pods for member in reading.gang.running)
    paths.update(reading.members[uid] for uid in seats if uid in reading.members)
    return Charge(reading.queue, _total(reading, paths), reading.gang.preemptible) if paths else None


def _total(reading: GangReading, paths: Counter[str]) -> Amounts:
    leaves = pod_sets(reading.gang)
    rows = [[amount * times for amount in leaves[path].request] for path, times in paths.items()]
    return tuple(map(sum, zip(*rows, strict=True)))
