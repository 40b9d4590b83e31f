"""Victim selection for a queue over its limit: gangs of lower priority whose eviction lets the queues admit a gang.

As for capacity, the lowest highest priority of a victim counts first, then gangs evicted whole, then pods, then names;
the first is exact, the rest is a greedy approximation that keeps one gang after the other. A gang is left below its
minimum only if it is evicted whole; a gang that could stay, or whose queue is not concerned, is never a victim. Usage
is left as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from spinney.api.placement.problem import Amounts
from spinney.api.placement.result import Victim
from spinney.core.placement.disrupt.victim_search import VictimCost
from spinney.core.placement.gang.running_gangs import RunningGang
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.queues.tree import Queues, QueueUsage

Counts = tuple[int, ...]
"""Numbers of pods, one for each entry of what a gang holds."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running gang in a queue that may lose pods. `stays`: it may not be evicted whole."""

    holder: RunningGang
    queue: str
    stays: bool = False

    @property
    def name(self) -> str:
        return self.holder.gang.name

    @property
    def priority(self) -> int:
        return self.holder.gang.priority

    @property
    def nothing(self) -> Counts:
        return (0,) * len(self.holder.held)

    @property
    def everything(self) -> Counts:
        """The most that it may lose."""
        if self.stays or not self.holder.can_be_evicted:
            return self.elastic()
        return tuple([held.count for held in self.holder.held])

    def elastic(self) -> Counts:
        """Its elastic pods: as many as it can lose and keep its minimum, taken in order."""
        gone: Counter[str] = Counter()
        counts = []
        for held in self.holder.held:
            count = held.count
            while count and not self.holder.can_lose(gone + Counter({held.path: count})):
                count -= 1
            gone[held.path] += count
            counts.append(count)
        return tuple(counts)

    def is_whole(self, counts: Counts) -> bool:
        return sum(counts) == self.holder.live.total()

    def charge(self, counts: Counts) -> QueueUsage:
        pairs = zip(self.holder.held, counts, strict=True)
        rows = [[amount * count for amount in held.pods.request] for held, count in pairs if count]
        total: Amounts = tuple(map(sum, zip(*rows, strict=True)))
        return QueueUsage(self.queue, total, preemptible=True)

    def victims(self, counts: Counts) -> list[Victim]:
        return [
            self.holder.victim(held) for held, count in zip(self.holder.held, counts, strict=True) for _ in range(count)
        ]

    def counts(self, victims: Counter[Victim]) -> Counts:
        """How many of these victims are its own."""
        return tuple([victims[self.holder.victim(held)] for held in self.holder.held])


def select_victims(queues: Queues, asked: QueueUsage, candidates: Sequence[Candidate]) -> tuple[Victim, ...] | None:
    """The cheapest victims whose eviction lets the queues admit the request; None: all candidates are not enough."""
    with _losing(queues) as losses:
        ranked = sorted(candidates, key=lambda candidate: (candidate.priority, candidate.name))
        for _, alike in groupby(ranked, key=lambda candidate: candidate.priority):
            for candidate in alike:
                losses.put(candidate, candidate.everything)
            if queues.verdict(*asked) is None:
                return _minimized(losses, asked)
    return None


def allows(queues: Queues, asked: QueueUsage, candidates: Sequence[Candidate], gone: Sequence[Victim]) -> bool:
    """Whether the queues admit the request once these victims are gone."""
    victims = Counter(gone)
    with queues.supposing(gone=[candidate.charge(candidate.counts(victims)) for candidate in candidates]):
        return queues.verdict(*asked) is None


class _Losses:
    """What candidates lose; the queues are not charged for it."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.by_name: dict[str, tuple[Candidate, Counts]] = {}

    def put(self, candidate: Candidate, counts: Counts) -> None:
        pairs = list(zip(self.of(candidate), counts, strict=True))
        self.queues.allocate(*candidate.charge(tuple([max(0, was - now) for was, now in pairs])))
        self.queues.release(*candidate.charge(tuple([max(0, now - was) for was, now in pairs])))
        self.by_name[candidate.name] = candidate, counts

    def of(self, candidate: Candidate) -> Counts:
        return self.by_name.get(candidate.name, (candidate, candidate.nothing))[1]

    def put_all(self, losses: dict[str, tuple[Candidate, Counts]]) -> None:
        for candidate, counts in losses.values():
            self.put(candidate, counts)

    @property
    def price(self) -> VictimCost:
        victims = sorted(victim for candidate, counts in self.by_name.values() for victim in candidate.victims(counts))
        wholes = sum(candidate.is_whole(counts) for candidate, counts in self.by_name.values())
        return VictimCost(wholes, len(victims), tuple(victims))


@contextmanager
def _losing(queues: Queues) -> Iterator[_Losses]:
    losses = _Losses(queues)
    try:
        yield losses
    finally:
        for candidate, _ in list(losses.by_name.values()):
            losses.put(candidate, candidate.nothing)


def _minimized(losses: _Losses, asked: QueueUsage) -> tuple[Victim, ...]:
    """Spare high priorities first; among equal ones try large and small gangs first, and take the cheaper result."""
    enough = dict(losses.by_name)
    prices = []
    for sign in (1, -1):
        losses.put_all(enough)
        candidates = sorted(
            (candidate for candidate, _ in enough.values()), key=lambda candidate: candidate.name, reverse=True
        )
        candidates.sort(key=lambda candidate: (-candidate.priority, sign * candidate.holder.size))
        _keep_gangs(losses, asked, candidates)
        _keep_pods(losses, asked, candidates)
        prices.append(losses.price)
    return min(prices).victims


def _keep_gangs(losses: _Losses, asked: QueueUsage, candidates: Sequence[Candidate]) -> None:
    """Where possible let a gang lose only its elastic pods."""
    for candidate in candidates:
        if candidate.is_whole(losses.of(candidate)):
            _try(losses, asked, candidate, candidate.elastic())


def _keep_pods(losses: _Losses, asked: QueueUsage, candidates: Sequence[Candidate]) -> None:
    for candidate in candidates:
        if candidate.is_whole(losses.of(candidate)):
            continue
        for at in range(len(candidate.holder.held)):
            counts = losses.of(candidate)
            while counts[at] and _try(losses, asked, candidate, (*counts[:at], counts[at] - 1, *counts[at + 1 :])):
                counts = losses.of(candidate)


def _try(losses: _Losses, asked: QueueUsage, candidate: Candidate, counts: Counts) -> bool:
    """Let the candidate lose this instead, unless that is not enough."""
    before = losses.of(candidate)
    losses.put(candidate, counts)
    if losses.queues.verdict(*asked) is None:
        return True
    losses.put(candidate, before)
    return False


@dataclass(frozen=True, slots=True)
class QueuePreemption:
    """A gang's request to its queue. `freed_version`: as of this version of the usage.

    `reclaim`: what it may take from other queues; None: nothing. `preempts`: there are less important gangs in its own.
    """

    queues: Queues
    asked: QueueUsage
    freed_version: int
    reclaim: Reclaim | None = None
    preempts: bool = True

    def victims(self, candidates: Sequence[Candidate]) -> tuple[Victim, ...] | None:
        """None: the limit is exceeded whichever of them is evicted."""
        return select_victims(self.queues, self.asked, candidates)

    def allows(self, candidates: Sequence[Candidate], gone: Sequence[Victim]) -> bool:
        """Whether the limit admits the gang once these victims are gone."""
        return allows(self.queues, self.asked, candidates, gone)
