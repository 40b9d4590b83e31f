"""Polling of owners that no cache watches: one pod polls for each owner, less often the longer nothing changes.

So a corrected owner is noticed soon, and a thousand waiting pods cost no more reads than one.
"""

from __future__ import annotations

from dataclasses import dataclass

from spinney.core.grouping.owner_chain import OwnerChain
from spinney.drive.client.paths import Key
from spinney.drive.grouper.owner_resolver import FRESH_S


@dataclass(frozen=True, slots=True)
class PollInterval:
    """The first delay between polls, its growth factor and its limit."""

    first_s: float
    growth: float
    slowest_s: float


MISTAKEN = PollInterval(FRESH_S, 1.1, 15.0)
PENDING = PollInterval(2 * FRESH_S, 2.0, 60.0)


@dataclass(frozen=True, slots=True)
class _Poll:
    key: Key
    versions: tuple[str, ...]
    next_s: float


@dataclass(frozen=True, slots=True)
class PollDecision:
    """When to poll again (None: not at all), and whether the owners have changed since the last poll."""

    after_s: float | None = None
    changed: bool = False


class OwnerPoller:
    """Elects one polling pod for each nearest owner."""

    def __init__(self) -> None:
        self._polls: dict[str, _Poll] = {}

    def next_poll(self, key: Key, chain: OwnerChain, interval: PollInterval) -> PollDecision:
        """When a waiting pod polls its owners; never without owners or while another pod polls the same owner."""
        if chain.is_bare:
            return PollDecision()
        uid, versions = chain.owners[0].uid, _versions(chain)
        look = self._polls.get(uid)
        if look is not None and look.key != key:
            return PollDecision()
        changed = look is not None and look.versions != versions
        after_s = interval.first_s if look is None or changed else min(look.next_s, interval.slowest_s)
        self._polls[uid] = _Poll(key, versions, after_s * interval.growth)
        return PollDecision(after_s, changed)

    def leave(self, key: Key, uid: str) -> bool:
        """The pod stops polling; returns whether it was the polling pod of this owner."""
        look = self._polls.get(uid)
        if look is None or look.key != key:
            return False
        del self._polls[uid]
        return True


def _versions(chain: OwnerChain) -> tuple[str, ...]:
    seen = (*chain.owners, *((chain.gang,) if chain.gang is not None else ()))
    return tuple(owner.body.get("metadata", {}).get("resourceVersion", "") for owner in seen)
