"""Queues as stored objects show them: what each is promised, what it uses, and its fair share (Q1, Q3, Q5).

In thousandths of GPUs, of cores, and of bytes. Shares are fractions, computed anew each time: no code of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from spinney.sim.objects import Json

KINDS = ("gpu", "cpu", "memory")
_UNITS = {"gpu": 1_000, "cpu": 1, "memory": 10**9}
_BASE_UNITS = {"gpu": 1, "cpu": 1, "memory": 1_000}
"""Shares are handed out in these: one that is not a whole number of them may be rounded either way."""

Amount = int | Fraction
Shares = Mapping[tuple[str, str], Amount]
"""By queue and kind."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """None: all that the parent has (quota), no limit."""

    name: str
    parent: str
    priority: int
    quota: Mapping[str, int | None]
    limit: Mapping[str, int | None]
    weight: Mapping[str, int]


def read_queue(obj: Json) -> QueueFacts:
    spec = obj.get("spec") or {}
    stated, priority = spec.get("resources"), spec.get("priority")

    def amounts(field: str) -> dict[str, int | None]:
        if stated is None:
            return dict.fromkeys(KINDS)
        found = {kind: (stated.get(kind) or {}).get(field, 0) for kind in KINDS}
        return {kind: None if each < 0 else round(each * _UNITS[kind]) for kind, each in found.items()}

    weights = {kind: (((stated or {}).get(kind)) or {}).get("overQuotaWeight", 0) for kind in KINDS}
    return QueueFacts(
        name=obj["metadata"]["name"],
        parent=spec.get("parentQueue", ""),
        priority=100 if priority is None else priority,
        quota=amounts("quota"),
        limit=amounts("limit"),
        weight={kind: 1000 if stated is None else round(1000 * each) for kind, each in weights.items()},
    )


def by_kind(asks: Mapping[str, int]) -> dict[str, int]:
    """What a pod asks for, by kind."""
    gpus = sum(amount for name, amount in asks.items() if name.endswith("/gpu"))
    return {"gpu": gpus, "cpu": asks.get("cpu", 0), "memory": asks.get("memory", 0)}


def way(queues: Mapping[str, QueueFacts], name: str) -> list[str]:
    """The queue and those above it; empty if there is no root."""
    found: list[str] = []
    while name:
        if name not in queues or name in found:
            return []
        found.append(name)
        name = queues[name].parent
    return found


def add_up(
    queues: Mapping[str, QueueFacts], amounts: Iterable[tuple[str, Mapping[str, int]]]
) -> dict[str, dict[str, int]]:
    """Sums by queue, those above included, of amounts by leaf."""
    total = {name: dict.fromkeys(KINDS, 0) for name in queues}
    for leaf, each in amounts:
        for name in way(queues, leaf):
            for kind in KINDS:
                total[name][kind] += each[kind]
    return total


def fair_shares(
    queues: Mapping[str, QueueFacts], asked: Mapping[str, Mapping[str, int]] | None, capacity: Mapping[str, int]
) -> Shares:
    """The share of each queue. `asked`: by leaf; None: as if everybody asked for everything, the least of each."""
    shares: dict[tuple[str, str], Amount] = {}
    for kind in KINDS:
        wanted: dict[str, Amount] = {}
        for name in queues:
            _want(queues, name, kind, asked, capacity[kind], wanted, frozenset())
        _divide(queues, "", kind, capacity[kind], capacity[kind], wanted, shares)
    return shares


def _children(queues: Mapping[str, QueueFacts], parent: str) -> list[QueueFacts]:
    return [queue for _, queue in sorted(queues.items()) if queue.parent == parent]


def _want(
    queues: Mapping[str, QueueFacts],
    name: str,
    kind: str,
    asked: Mapping[str, Mapping[str, int]] | None,
    everything: int,
    wanted: dict[str, Amount],
    seen: frozenset[str],
) -> Amount:
    if name in wanted or name in seen:
        return wanted.get(name, 0)
    below = [_want(queues, kid.name, kind, asked, everything, wanted, seen | {name}) for kid in _children(queues, name)]
    own = everything if asked is None else (asked.get(name) or {}).get(kind, 0)
    limit = queues[name].limit[kind]
    total = own + sum(below)
    wanted[name] = total if limit is None else min(total, limit)
    return wanted[name]


def _divide(
    queues: Mapping[str, QueueFacts],
    parent: str,
    kind: str,
    amount: Amount,
    quota: Amount,
    wanted: Mapping[str, Amount],
    shares: dict[tuple[str, str], Amount],
) -> None:
    kids = _children(queues, parent)
    quotas = {kid.name: quota if (own := kid.quota[kind]) is None else own for kid in kids}
    promised = {
        kid.name: min(wanted[kid.name], amount if kid.quota[kind] is None else quotas[kid.name]) for kid in kids
    }
    left = amount - sum(promised.values())
    if left < 0:
        found = _filled(amount, promised, {name: max(each, 1) for name, each in quotas.items()})
    else:
        found = dict(promised)
        for _, alike in groupby(sorted(kids, key=lambda kid: -kid.priority), key=lambda kid: kid.priority):
            same = list(alike)
            more = _filled(
                left,
                {kid.name: wanted[kid.name] - promised[kid.name] for kid in same},
                {kid.name: kid.weight[kind] for kid in same},
            )
            left -= sum(more.values())
            for name, each in more.items():
                found[name] += each
    for kid in kids:
        shares[kid.name, kind] = found[kid.name]
        _divide(queues, kid.name, kind, found[kid.name], quotas[kid.name], wanted, shares)


def _filled(amount: Amount, needs: Mapping[str, Amount], weights: Mapping[str, Amount]) -> dict[str, Amount]:
    """Water-filling: by weight, nobody beyond its need."""
    given: dict[str, Amount] = dict.fromkeys(needs, 0)
    active = {name for name, need in needs.items() if need > 0 and weights[name] > 0}
    while active and amount > 0:
        total = sum(weights[name] for name in active)
        full = [name for name in sorted(active) if Fraction(needs[name] * total) <= Fraction(weights[name] * amount)]
        if not full:
            return given | {name: Fraction(weights[name] * amount) / total for name in active}
        for name in full:
            given[name] = needs[name]
            active.discard(name)
        amount -= sum(needs[name] for name in full)
    return given


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a plan takes from other queues, on the queues once it is carried out.

    `used`: by queue, with the taker's pods and without what leaves; `seen`: what may have been seen of it. `largest`:
    by queue, what may have left last. `shares`: of the queues that lose; `own`: of those that take, None: not judged.
    """

    queues: Mapping[str, QueueFacts]
    used: Mapping[str, Mapping[str, int]]
    seen: Mapping[str, Mapping[str, int]]
    largest: Mapping[str, Sequence[Mapping[str, int]]]
    shares: Shares
    own: Shares | None
    kinds: Sequence[str]

    def objections(self, taker: str, loser: str) -> Iterator[str]:
        """Why nothing may be taken from one queue for another, unless it may: by shares or by quotas."""
        takes, loses = way(self.queues, taker), way(self.queues, loser)
        taking, losing = [one for one in takes if one not in loses], [one for one in loses if one not in takes]
        if not taking or not losing:
            yield f"{loser} is no queue that {taker} could take from"
            return
        whys = [next(iter(self._against(taking, losing, quotas=quotas)), "") for quotas in (False, True)]
        if all(whys):
            yield f"{whys[0]}, {whys[1]}"

    def _against(self, taking: Sequence[str], losing: Sequence[str], *, quotas: bool) -> Iterator[str]:
        word = "quota" if quotas else "fair share"
        for name in taking:
            for kind in self.kinds:
                most = self.queues[name].quota[kind] if quotas else (self.own or {}).get((name, kind))
                if most is not None and self.used[name][kind] > -(-most // _BASE_UNITS[kind]) * _BASE_UNITS[kind]:
                    yield f"{name} gets above its {word} of {kind} ({self.used[name][kind]} of {float(most):g})"
        for name in losing:
            least = self.queues[name].quota if quotas else {kind: self.shares[name, kind] for kind in self.kinds}
            stated = [kind for kind in self.kinds if least[kind] is not None]
            if not stated and name != losing[-1]:
                continue
            if not any(self._was_above(name, kind, least[kind]) for kind in stated):
                yield f"{name} is not above its {word}"

    def _was_above(self, name: str, kind: str, least: Amount | None) -> bool:
        last = max((each[kind] for each in self.largest.get(name, ())), default=0)
        return least is not None and self.seen[name][kind] + last > least // _BASE_UNITS[kind] * _BASE_UNITS[kind]
