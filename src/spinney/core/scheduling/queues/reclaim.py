"""Reclaim: what a gang may take from other queues, and whether a set of victims is lawful (Q5).

A gang with which its queue stays within its fair share may take from queues above theirs; one with which its queue
stays within its quota may take from queues above their quota. The queues compared are those where the two paths from
the root part; on the way down to the leaves every other queue has to keep the same rule, so that no promise below them
is broken. A queue may lose gangs as long as it is above its share (its quota in the second case) before the last of
them goes: so it never ends below that by more than the size of one gang.

The taker is compared in every resource that it asks for. The queue that loses is compared in those of them that are
short: of which the cluster, or a limit above the taker, has less left than is asked for; where only the layout is in
the way, in the fullest one. A resource without a quota promises nothing to the queue that loses. Once the victims
begin to leave nothing is short any more: then it is enough that the queue is above in one of them.

A function of what is used and asked for now: it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from spinney.api.placement.result import Victim
from spinney.core.scheduling.queues.fair_share import UNLIMITED
from spinney.core.scheduling.queues.tree import NAMES, NOTHING, FairShares, Queues, Shares, amount_text

_MILLIONTHS = 10**6
_KINDS = range(len(NAMES))
_MOST_NAMED = 3
_MOST_LOOKED_AT = 16


class Standard(Enum):
    """What both queues are compared with."""

    FAIR_SHARE = "fair share"
    QUOTA = "quota"


class Unit(NamedTuple):
    """What leaves a leaf queue at once: a whole gang, or one pod above the minimum of one."""

    queue: str
    amounts: Shares


class Holder(NamedTuple):
    """A running gang that may lose pods: its queue, the size of its pods by pod set, and how many members it has."""

    queue: str
    sizes: Mapping[str, Shares]
    members: int


def units_of(victims: Iterable[Victim], holders: Mapping[str, Holder]) -> list[Unit]:
    """What leaves with these victims: a gang of which no member stays leaves at once, other pods one by one."""
    lost: dict[str, list[Shares]] = {}
    for victim in victims:
        lost.setdefault(victim.gang, []).append(holders[victim.gang].sizes[victim.pods])
    units: list[Unit] = []
    for name, amounts in lost.items():
        queue, _, members = holders[name]
        whole = [Shares(*map(sum, zip(*amounts, strict=True)))] if len(amounts) == members else amounts
        units += [Unit(queue, each) for each in whole]
    return units


@dataclass(frozen=True)
class Reclaim:
    """A gang's request, on the queues as they are. `is_charged`: the queues are charged for it already."""

    queues: Queues
    shares: FairShares
    capacity: Shares
    queue: str
    asks: Shares
    is_charged: bool = False
    _standards: dict[str, tuple[Standard, ...]] = field(default_factory=dict, init=False)
    _known_ways: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict, init=False)

    @property
    def is_entitled(self) -> bool:
        """Whether its leaf queue stays within its fair share or its quota with it."""
        return any(self.is_within(self.queue, standard) for standard in Standard)

    def may_take_from(self, queue: str) -> bool:
        """Whether anything may be taken from a leaf queue now."""
        return self.is_lawful([Unit(queue, NOTHING)])

    def is_lawful(self, units: Sequence[Unit], *, are_charged: bool = True) -> bool:
        """Whether all of these may leave for it. Not `are_charged`: the queues do not count them any more.

        No superset of what is not lawful is lawful.
        """
        losses: dict[str, list[Shares]] = {}
        leaves = {unit.queue for unit in units}
        for leaf, amounts in units:
            for queue in self._losing(leaf):
                losses.setdefault(queue, []).append(amounts)
        return all(
            any(self._keeps(leaf, standard, losses, are_charged) for standard in self._standards_against(leaf))
            for leaf in leaves
        )

    def over_use(self, queue: str) -> tuple[int, ...]:
        """How far a leaf queue is over its fair share, from where the paths part down to itself, in millionths."""
        return tuple([self._over_use(name) for name in reversed(self._losing(queue))])

    def parting(self, queue: str) -> str:
        """The queue on the way to another leaf queue at which the paths part; empty: there is none."""
        losing = self._losing(queue)
        return losing[-1] if losing and self._taking(queue) else ""

    def is_within(self, queue: str, standard: Standard) -> bool:
        """Whether a queue of its own path stays within its share or quota with it."""
        used, most = self._used_by_taker(queue), self._standard(queue, standard)
        return all(most[kind] == UNLIMITED or used[kind] <= most[kind] for kind in _KINDS if self.asks[kind])

    @cached_property
    def short(self) -> tuple[int, ...]:
        """The resources in which queues that lose are compared."""
        involved = [kind for kind in _KINDS if self.asks[kind]]
        if self.is_charged:
            return tuple(involved)
        used, limited = self.queues.total().plus(self.asks), self.queues.limited_kinds(self.queue, self.asks)
        lacking = [kind for kind in involved if kind in limited or used[kind] > self.capacity[kind]]
        fullest = max(involved, key=lambda kind: used[kind] * _MILLIONTHS // max(self.capacity[kind], 1), default=None)
        return tuple(lacking) or (() if fullest is None else (fullest,))

    def hindrance(self) -> str:
        """What keeps it from taking more from other queues, and who comes first; empty: nothing of that."""
        return ". ".join(filter(None, (self._no_reclaim(), self._order())))

    def _order(self) -> str:
        """Which queues come before its own (Q2): where the two paths part, they are under their share and it is not."""
        for name in self.queues.waiting_under(self.shares)[:_MOST_LOOKED_AT]:
            losing, taking = self._losing(name), self._taking(name)
            if losing and taking and self._is_under(losing[-1]) and not self._is_under(taking[-1]):
                return f"Gangs of queue {name} come first: queue {losing[-1]} holds {self.figures(losing[-1])}"
        return ""

    def _is_under(self, queue: str) -> bool:
        used, share = self.queues.usage(queue).allocated, self.shares.of(queue)
        return all(used[kind] < share[kind] for kind in _KINDS if self.asks[kind])

    def _no_reclaim(self) -> str:
        lending = [name for name in self.queues.lending(self.shares) if name != self.queue]
        if not self.is_entitled:
            held = self._figures(self.queue, self._used_by_taker(self.queue))
            return f"Queue {self.queue} takes nothing from other queues: it would hold {held}" if lending else ""
        open_ = [name for name in lending if self.may_take_from(name)]
        if not open_:
            is_shared = self.queues.holding(self.short)
            return f"No other queue is above its fair share: queue {self.queue} takes nothing" if is_shared else ""
        named = "; ".join(f"{name} ({self.figures(name)})" for name in open_[:_MOST_NAMED])
        more = f" and {len(open_) - _MOST_NAMED} more" if len(open_) > _MOST_NAMED else ""
        return f"Queue {self.queue} may take from {named}{more}, but what may leave there does not make it fit"

    def figures(self, queue: str) -> str:
        """What a queue holds, and of what share and quota, for messages."""
        return self._figures(queue, self.queues.usage(queue).allocated)

    def _figures(self, queue: str, used: Shares) -> str:
        share, quota = self.shares.of(queue), self.queues.quota(queue)
        return "; ".join(
            f"{amount_text(kind, used[kind])} of a fair share of {amount_text(kind, share[kind])}"
            + ("" if quota[kind] == UNLIMITED else f" and a quota of {amount_text(kind, quota[kind])}")
            for kind in ([0] if self.asks.gpu_m else self.short)
        )

    def _standards_against(self, leaf: str) -> tuple[Standard, ...]:
        """By which of the two it may take from a leaf queue."""
        if leaf not in self._standards:
            taking = self._taking(leaf) if self._losing(leaf) else []
            self._standards[leaf] = tuple(
                standard for standard in Standard if taking and all(self.is_within(queue, standard) for queue in taking)
            )
        return self._standards[leaf]

    def _keeps(self, leaf: str, standard: Standard, losses: dict[str, list[Shares]], are_charged: bool) -> bool:
        losing = self._losing(leaf)
        if not all(
            self._is_above(queue, standard, losses[queue], are_charged, is_top=queue == losing[-1]) for queue in losing
        ):
            return False
        top = losing[-1]
        return self._keeps_order(self._taking(leaf)[-1], top, self._left(top, losses[top], are_charged))

    def _is_above(
        self, queue: str, standard: Standard, lost: Sequence[Shares], are_charged: bool, *, is_top: bool
    ) -> bool:
        """Whether the queue is above its share or quota before the last one leaves; the largest may be the last."""
        least = self._standard(queue, standard)
        kinds = [kind for kind in self.short if least[kind] != UNLIMITED]
        if not kinds:
            return not is_top
        left, enough = self._left(queue, lost, are_charged), any if self.is_charged else all
        return any(enough(left[kind] + last[kind] > least[kind] for kind in kinds) for last in set(lost))

    def _keeps_order(self, taker: str, loser: str, left: Shares) -> bool:
        """A queue that gets above its fair share stays the lower one of the two: else the other would take it back."""
        used, own, theirs = self._used_by_taker(taker), self.shares.of(taker), self.shares.of(loser)
        return self.is_charged or all(
            used[kind] <= own[kind] or used[kind] * theirs[kind] < left[kind] * own[kind] for kind in self.short
        )

    def _left(self, queue: str, lost: Sequence[Shares], are_charged: bool) -> Shares:
        left = self.queues.usage(queue).allocated
        for amounts in lost if are_charged else ():
            left = left.plus(amounts, -1)
        return left

    def _used_by_taker(self, queue: str) -> Shares:
        used = self.queues.usage(queue).allocated
        return used if self.is_charged else used.plus(self.asks)

    def _standard(self, queue: str, standard: Standard) -> Shares:
        return self.shares.of(queue) if standard is Standard.FAIR_SHARE else self.queues.quota(queue)

    def _over_use(self, queue: str) -> int:
        used, share = self.queues.usage(queue).allocated, self.shares.of(queue)
        return max((used[kind] * _MILLIONTHS // max(share[kind], 1) for kind in self.short), default=0)

    def _losing(self, leaf: str) -> list[str]:
        """The queues that lose what leaves a leaf queue and do not get it back: from the leaf to the parting."""
        return self._ways(leaf)[0]

    def _taking(self, leaf: str) -> list[str]:
        """The queues that get it, from its own one to the parting."""
        return self._ways(leaf)[1]

    def _ways(self, leaf: str) -> tuple[list[str], list[str]]:
        found = self._known_ways.get(leaf)
        if found is None:
            theirs, own = ([name, *self.queues.above(name)] for name in (leaf, self.queue))
            losing, taking = [name for name in theirs if name not in own], [name for name in own if name not in theirs]
            found = self._known_ways[leaf] = losing, taking
        return found
