"""Capacity for a gang that fits nowhere: consolidation where it is allowed, then preemption where it is allowed.

Never moves or evicts a pod unless the gang fits afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spinney.api.placement.result import Move, Victim
from spinney.core.placement.budget import Exhausted
from spinney.core.placement.disrupt.consolidation import consolidate
from spinney.core.placement.disrupt.preemption import preempt

if TYPE_CHECKING:
    from spinney.core.placement.engine import Engine, SearchResult
    from spinney.core.placement.fit.counting import Profile
    from spinney.core.placement.gang.gang_tree import GangTree


@dataclass(frozen=True, slots=True)
class Disruption:
    """A placement on capacity freed by others; inventory and placed gangs already reflect the moves and evictions."""

    attempt: SearchResult
    victims: tuple[Victim, ...] = ()
    moves: tuple[Move, ...] = ()
    proved: bool = True


def make_room(engine: Engine, parts: GangTree, asked: Profile, scope: list[int] | None) -> Disruption | None:
    """None: it is proved that nothing allowed helps. Raises Exhausted when the budget ends before that is known."""
    is_open = False
    limits = engine.options.consolidate
    if limits is not None:
        try:
            moved = consolidate(engine, parts, asked, scope, limits)
        except Exhausted:
            moved, is_open = None, True
        if moved is not None:
            return Disruption(moved.attempt, moves=moved.moves, proved=moved.proved)
    evicted = preempt(engine, parts, asked, scope) if engine.options.preempt else None
    if evicted is not None:
        return Disruption(evicted.attempt, victims=evicted.victims, proved=evicted.proved and not is_open)
    if is_open:
        raise Exhausted
    return None
