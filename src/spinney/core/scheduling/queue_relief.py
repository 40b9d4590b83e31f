"""Who has to go so that the limits of queues allow a gang.

As for room the lowest highest priority of a victim counts first, then gangs evicted whole, then pods, then names; the
first is exact, the rest as good as sparing one after the other finds it. Never leaves a gang below its minimum but
whole, never names anybody who could stay, and leaves usage as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from spinney.api.placement.problem import Amounts
from spinney.api.placement.result import Victim
from spinney.core.placement.cheapest import Price
from spinney.core.placement.holders import Holder
from spinney.core.scheduling.queues import Charge, Queues

Counts = tuple[int, ...]
"""So many of what a gang holds, by position."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A gang that stands in a queue, as far as it may be disturbed. `stays`: something of it has to."""

    holder: Holder
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
        """As much as it may lose."""
        if self.stays or not self.holder.may_go:
            return self.elastic()
        return tuple([held.count for held in self.holder.held])

    def elastic(self) -> Counts:
        """As many as it can spare, taken in order."""
        gone: Counter[str] = Counter()
        counts = []
        for held in self.holder.held:
            count = held.count
            while count and not self.holder.spares(gone + Counter({held.path: count})):
                count -= 1
            gone[held.path] += count
            counts.append(count)
        return tuple(counts)

    def is_whole(self, counts: Counts) -> bool:
        return sum(counts) == self.holder.live.total()

    def charge(self, counts: Counts) -> Charge:
        pairs = zip(self.holder.held, counts, strict=True)
        rows = [[amount * count for amount in held.pods.request] for held, count in pairs if count]
        total: Amounts = tuple(map(sum, zip(*rows, strict=True)))
        return Charge(self.queue, total, preemptible=True)

    def victims(self, counts: Counts) -> list[Victim]:
        return [
            self.holder.victim(held) for held, count in zip(self.holder.held, counts, strict=True) for _ in range(count)
        ]

    def counts(self, victims: Counter[Victim]) -> Counts:
        """Its own among these."""
        return tuple([victims[self.holder.victim(held)] for held in self.holder.held])


def relief(queues: Queues, asked: Charge, tenants: Sequence[Tenant]) -> tuple[Victim, ...] | None:
    """The cheapest of the tenants without whom the queues allow what is asked; None: they do not without all."""
    with _losing(queues) as losses:
        ranked = sorted(tenants, key=lambda tenant: (tenant.priority, tenant.name))
        for _, alike in groupby(ranked, key=lambda tenant: tenant.priority):
            for tenant in alike:
                losses.put(tenant, tenant.everything)
            if queues.verdict(*asked) is None:
                return _thinned(losses, asked)
    return None


def allows(queues: Queues, asked: Charge, tenants: Sequence[Tenant], gone: Sequence[Victim]) -> bool:
    """Whether the queues have nothing against what is asked when these are gone."""
    victims = Counter(gone)
    with queues.supposing(gone=[tenant.charge(tenant.counts(victims)) for tenant in tenants]):
        return queues.verdict(*asked) is None


class _Losses:
    """What tenants lose; the queues are not charged for it."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.by_name: dict[str, tuple[Tenant, Counts]] = {}

    def put(self, tenant: Tenant, counts: Counts) -> None:
        pairs = list(zip(self.of(tenant), counts, strict=True))
        self.queues.allocate(*tenant.charge(tuple([max(0, was - now) for was, now in pairs])))
        self.queues.release(*tenant.charge(tuple([max(0, now - was) for was, now in pairs])))
        self.by_name[tenant.name] = tenant, counts

    def of(self, tenant: Tenant) -> Counts:
        return self.by_name.get(tenant.name, (tenant, tenant.nothing))[1]

    def put_all(self, losses: dict[str, tuple[Tenant, Counts]]) -> None:
        for tenant, counts in losses.values():
            self.put(tenant, counts)

    @property
    def price(self) -> Price:
        victims = sorted(victim for tenant, counts in self.by_name.values() for victim in tenant.victims(counts))
        wholes = sum(tenant.is_whole(counts) for tenant, counts in self.by_name.values())
        return Price(wholes, len(victims), tuple(victims))


@contextmanager
def _losing(queues: Queues) -> Iterator[_Losses]:
    losses = _Losses(queues)
    try:
        yield losses
    finally:
        for tenant, _ in list(losses.by_name.values()):
            losses.put(tenant, tenant.nothing)


def _thinned(losses: _Losses, asked: Charge) -> tuple[Victim, ...]:
    """The important are spared first, and of equal ones the large or the small, whatever is cheaper in the end."""
    enough = dict(losses.by_name)
    prices = []
    for sign in (1, -1):
        losses.put_all(enough)
        tenants = sorted((tenant for tenant, _ in enough.values()), key=lambda tenant: tenant.name, reverse=True)
        tenants.sort(key=lambda tenant: (-tenant.priority, sign * tenant.holder.size))
        _spare_gangs(losses, asked, tenants)
        _spare_pods(losses, asked, tenants)
        prices.append(losses.price)
    return min(prices).victims


def _spare_gangs(losses: _Losses, asked: Charge, tenants: Sequence[Tenant]) -> None:
    """Perhaps it is enough when a gang loses what is above its minimum."""
    for tenant in tenants:
        if tenant.is_whole(losses.of(tenant)):
            _try(losses, asked, tenant, tenant.elastic())


def _spare_pods(losses: _Losses, asked: Charge, tenants: Sequence[Tenant]) -> None:
    for tenant in tenants:
        if tenant.is_whole(losses.of(tenant)):
            continue
        for at in range(len(tenant.holder.held)):
            counts = losses.of(tenant)
            while counts[at] and _try(losses, asked, tenant, (*counts[:at], counts[at] - 1, *counts[at + 1 :])):
                counts = losses.of(tenant)


def _try(losses: _Losses, asked: Charge, tenant: Tenant, counts: Counts) -> bool:
    """Lose this instead, unless that is not enough."""
    before = losses.of(tenant)
    losses.put(tenant, counts)
    if losses.queues.verdict(*asked) is None:
        return True
    losses.put(tenant, before)
    return False
