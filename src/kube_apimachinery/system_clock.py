"""The real clock and real dice. Waiting is done with asyncio, so that a loop with its own time is obeyed."""

from __future__ import annotations

import random
import time

from kube_apimachinery.clock import Dice


class SystemClock:
    """The machine's wall clock, and its clock that never runs backwards."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def system_dice() -> Dice:
    return random.Random()
