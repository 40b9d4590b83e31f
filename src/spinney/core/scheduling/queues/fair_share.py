"""Fair shares of one resource: what each queue of a tree should have now, given what its gangs ask for.

From the root down, each queue gets what it is promised and asks for, at most its quota; what is left of the parent's
share goes to queues that ask for more, of higher priority first, within one priority by over-quota weight. Where the
promises do not fit into the parent's share, it is divided by quota, whatever the priorities are.

Where past use counts, the weight of a queue among those that still need something is w + k (w - u): w its part of their
weights, u the part of the cluster that it held lately.

Integers only. Units are handed out one after the other, the k-th of a queue at the time k / weight, and of equal times
by name (a divisor method): so the same state gives the same shares, and a queue that asks for more never adds a unit to
the share of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from typing import NamedTuple

UNLIMITED = -1
MILLION = 10**6


class QueueClaim(NamedTuple):
    """What one queue claims of one resource, in base units.

    `asked`: used and asked for by its own gangs and by those of all queues below it, each within its limit. `quota`:
    `UNLIMITED` is all of the parent's share. `weight`: its part of what is left over; 0: none. `held`: the part of the
    cluster that it held lately, in millionths.
    """

    name: str
    asked: int = 0
    quota: int = 0
    limit: int = UNLIMITED
    weight: int = 0
    priority: int = 0
    children: tuple[QueueClaim, ...] = ()
    held: int = 0

    @property
    def wanted(self) -> int:
        """What it could use: never more than its limit."""
        return self.asked if self.limit == UNLIMITED else min(self.asked, self.limit)


class _Part(NamedTuple):
    """A claim on an amount to be divided."""

    name: str
    need: int
    weight: int
    held: int = 0


class _Known(NamedTuple):
    """The shares below a parent, and what they were computed from."""

    claims: Sequence[QueueClaim]
    amount: int
    quota: int
    shares: dict[str, int]


ShareMemory = dict[str, _Known]
"""What was computed before, by parent: what did not change is not computed again."""


def fair_shares(
    claims: Sequence[QueueClaim], amount: int, memory: ShareMemory | None = None, past: int = 0
) -> dict[str, int]:
    """The share of each queue, with all below it. `past`: how much past use counts (k), in millionths."""
    return _below("", claims, amount, amount, {} if memory is None else memory, past)


def _below(
    parent: str, claims: Sequence[QueueClaim], amount: int, quota: int, memory: ShareMemory, past: int
) -> dict[str, int]:
    """The shares of the queues below a parent that has this share and this quota."""
    known = memory.get(parent)
    if known is not None and known.claims is claims and (known.amount, known.quota) == (amount, quota):
        return known.shares
    shares = _level(claims, amount, quota, past)
    for claim in claims:
        if claim.children:
            own = quota if claim.quota == UNLIMITED else claim.quota
            shares |= _below(claim.name, claim.children, shares[claim.name], own, memory, past)
    memory[parent] = _Known(claims, amount, quota, shares)
    return shares


def _level(claims: Sequence[QueueClaim], amount: int, quota: int, past: int) -> dict[str, int]:
    """The shares of queues with one parent."""
    wanted = {claim.name: claim.wanted for claim in claims}
    promised = {
        claim.name: min(wanted[claim.name], amount if claim.quota == UNLIMITED else claim.quota) for claim in claims
    }
    left = amount - sum(promised.values())
    if left < 0:
        # By quotas and not by what of them is asked for: else a queue that asks for more would get a larger part.
        quotas = {claim.name: max(quota, 1) if claim.quota == UNLIMITED else claim.quota for claim in claims}
        parts = [_Part(name, most, quotas[name]) for name, most in promised.items()]
        return dict.fromkeys(wanted, 0) | _divided(amount, parts)
    shares = dict(promised)
    by_priority = sorted(claims, key=lambda claim: -claim.priority)
    for _, alike in groupby(by_priority, key=lambda claim: claim.priority):
        parts = [
            _Part(claim.name, wanted[claim.name] - promised[claim.name], claim.weight, claim.held) for claim in alike
        ]
        for name, more in (_remembering(left, parts, past) if past else _divided(left, parts)).items():
            shares[name] += more
            left -= more
    return shares


def _remembering(amount: int, parts: Sequence[_Part], past: int) -> dict[str, int]:
    """By weight and past use. Queues that held so much that nothing is due to them get what the others leave."""
    given: dict[str, int] = {}
    while active := [part for part in parts if part.need > 0 and part.weight > 0 and part.name not in given]:
        total = sum(part.weight for part in active)
        weights = {part.name: part.weight * MILLION * (MILLION + past) // total - past * part.held for part in active}
        due = [part._replace(weight=weights[part.name]) for part in active if weights[part.name] > 0] or active
        more = _divided(amount, due)
        given |= more
        amount -= sum(more.values())
        if amount <= 0:
            break
    return given


def _divided(amount: int, parts: Iterable[_Part]) -> dict[str, int]:
    """Divide an amount by weight, nobody beyond its need; what one does not need goes to the others."""
    given: dict[str, int] = {}
    active = [part for part in parts if part.need > 0 and part.weight > 0]
    while active:
        total = sum(part.weight for part in active)
        full = [part for part in active if part.need * total <= part.weight * amount]
        if not full:
            break
        given |= {part.name: part.need for part in full}
        amount -= sum(part.need for part in full)
        active = [part for part in active if part.name not in given]
    if active:
        given |= _rounded(amount, active)
    return given


def _rounded(amount: int, parts: Sequence[_Part]) -> dict[str, int]:
    """By weight where nobody gets all that it needs: rounded down, and the last units one by one."""
    total = sum(part.weight for part in parts)
    given = {part.name: part.weight * amount // total for part in parts}
    left = amount - sum(given.values())
    turns = [(Fraction(given[part.name] + 1, part.weight), part.name, part) for part in parts] if left else []
    heapify(turns)
    for _ in range(left):
        _, name, part = turns[0]
        given[name] += 1
        if given[name] < part.need:
            heapreplace(turns, (Fraction(given[name] + 1, part.weight), name, part))
        else:
            heappop(turns)
    return given
