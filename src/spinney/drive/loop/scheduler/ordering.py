"""Whose turn it is, and whose queue has nothing against it. What gangs use of their queues is kept in step.

A gang that follows another one is decided after it (G12), whatever their ages are.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from functools import partial

from spinney.api.kinds.queue import Queue
from spinney.api.placement.problem import Amounts
from spinney.api.placement.result import Placement
from spinney.core.placement.holders import pod_sets
from spinney.core.placement.in_turns import share_out
from spinney.core.scheduling.cluster import BASE
from spinney.core.scheduling.gangs import GangReading, demand, is_choosy
from spinney.core.scheduling.queues import Key as Rank
from spinney.core.scheduling.queues import Queues, Refusal
from spinney.drive.client.cache import Cache, Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Book, Entry


class Ordering:
    """Queues, and what each entry is charged for."""

    def __init__(self, queues: Cache[Queue]) -> None:
        self.queues = Queues(BASE)
        self._resources: tuple[str, ...] = BASE
        self._cache = queues
        queues.subscribe(self._fold)

    def renew(self, resources: tuple[str, ...], entries: Iterable[Entry]) -> None:
        """Amounts are on another axis: everybody is charged anew as they are read."""
        self._resources = resources
        self.queues = Queues(
            resources, [queue for _, queue in sorted((each.metadata.name, each) for each in self._cache)]
        )
        for entry in entries:
            entry.charge = None

    def charge(self, entry: Entry) -> None:
        """For members that have a node and for seats that are kept."""
        if entry.charge is not None:
            self.queues.release(*entry.charge)
            entry.charge = None
        reading = entry.reading
        if reading is None:
            return
        paths = Counter(member.pods for member in reading.gang.running)
        paths.update(reading.members[uid] for uid in entry.seats if uid in reading.members)
        if paths:
            entry.charge = (reading.queue, _total(reading, paths), reading.gang.preemptible)
            self.queues.allocate(*entry.charge)

    def refusal(self, reading: GangReading) -> Refusal | None:
        """Why the queue will not have the minimum."""
        return self.queues.verdict(reading.queue, demand(reading.gang, self._resources), reading.gang.preemptible)

    def objection(self, reading: GangReading, places: Iterable[Placement]) -> Refusal | None:
        """Why the queue will not have these places, where more may have been chosen than was asked about before."""
        if not is_choosy(reading.gang.root):
            return None
        asked = _total(reading, Counter(place.pods for place in places))
        return self.queues.verdict(reading.queue, asked, reading.gang.preemptible)

    def allowance(self, reading: GangReading, left: Counter[str]) -> Counter[str]:
        """How many of these pods beyond the minimum the queue has room for, by pod set: they share it.

        Where only some children of a group have to be there, a part of those left may be too few to begin: all or none.
        """
        if self._admits(reading, left):
            return left
        if is_choosy(reading.gang.root):
            return Counter()
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

    def denial(self, reading: GangReading, left: Counter[str]) -> str:
        """Why the queue will not have these pods beyond the minimum; empty: it would."""
        refused = self._verdict(reading, left) if left else None
        return "" if refused is None else refused.message

    def _exceeds(self, reading: GangReading, allowed: dict[str, int], path: str, count: int) -> bool:
        return not self._admits(reading, Counter({**allowed, path: count}))

    def _admits(self, reading: GangReading, pods: Counter[str]) -> bool:
        return self._verdict(reading, pods) is None

    def _verdict(self, reading: GangReading, pods: Counter[str]) -> Refusal | None:
        return self.queues.verdict(reading.queue, _total(reading, pods), reading.gang.preemptible)

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
        if change.new is not None:
            self.queues.put(change.new)
        else:
            self.queues.remove(change.key[1])


def _total(reading: GangReading, paths: Counter[str]) -> Amounts:
    leaves = pod_sets(reading.gang)
    rows = [[amount * times for amount in leaves[path].request] for path, times in paths.items()]
    return tuple(map(sum, zip(*rows, strict=True)))
