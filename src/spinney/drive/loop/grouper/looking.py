"""Which pod looks again at owners that nobody watches: one for each owner, the more rarely the longer nothing changes.

So a correction is seen soon, and a thousand waiting pods cost no more than one.
"""

from __future__ import annotations

from dataclasses import dataclass

from spinney.core.grouping.chain import Chain
from spinney.drive.client.paths import Key
from spinney.drive.loop.grouper.walking import FRESH_S


@dataclass(frozen=True, slots=True)
class Pace:
    """From the first look to the slowest."""

    first_s: float
    growth: float
    slowest_s: float


MISTAKEN = Pace(FRESH_S, 1.1, 15.0)
PENDING = Pace(2 * FRESH_S, 2.0, 60.0)


@dataclass(frozen=True, slots=True)
class _Look:
    key: Key
    versions: tuple[str, ...]
    next_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """Look again after a while, if at all; `changed`: the owners are not what they were."""

    after_s: float | None = None
    changed: bool = False


class Lookers:
    """One looker for each nearest owner."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def turn(self, key: Key, chain: Chain, pace: Pace) -> Turn:
        """What a waiting pod has to do about its owners; a pod without owners has nothing to look at."""
        if chain.is_bare:
            return Turn()
        uid, versions = chain.owners[0].uid, _versions(chain)
        look = self._looks.get(uid)
        if look is not None and look.key != key:
            return Turn()
        changed = look is not None and look.versions != versions
        after_s = pace.first_s if look is None or changed else min(look.next_s, pace.slowest_s)
        self._looks[uid] = _Look(key, versions, after_s * pace.growth)
        return Turn(after_s, changed)

    def leave(self, key: Key, uid: str) -> bool:
        """A pod that need not look any more; whether it was the one that did."""
        look = self._looks.get(uid)
        if look is None or look.key != key:
            return False
        del self._looks[uid]
        return True


def _versions(chain: Chain) -> tuple[str, ...]:
    seen = (*chain.owners, *((chain.gang,) if chain.gang is not None else ()))
    return tuple(owner.body.get("metadata", {}).get("resourceVersion", "") for owner in seen)
