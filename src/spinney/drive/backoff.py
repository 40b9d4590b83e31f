"""How long to wait before trying again: exponential with jitter, from given dice.

Never sleeps and never counts: the caller knows the attempt and does the waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube_apimachinery.clock import Dice


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay of attempt n (from 0): base * factor^n, at most cap, then spread by +- jitter."""

    base_s: float
    cap_s: float
    factor: float = 2.0
    jitter: float = 0.2

    def delay_s(self, attempt: int, dice: Dice) -> float:
        exponent = min(attempt, 64)
        plain = min(self.cap_s, self.base_s * self.factor**exponent)
        return plain * (1.0 + self.jitter * (2.0 * dice.random() - 1.0))
