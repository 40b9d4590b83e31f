"""What a cycle asks others to do for a gang, as values."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.carrying import Errand
from spinney.drive.loop.scheduler.pursuing import Chase
from spinney.drive.loop.scheduler.staleness import Expel, Mark


@dataclass(frozen=True, slots=True)
class Begin:
    """Record a plan and carry it out."""

    key: Key
    errand: Errand


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry out a plan that was found."""

    key: Key
    errand: Errand


Act = Begin | Resume | Chase | Mark | Expel
Step = Act | None
"""None: something was decided, and there is nothing to do."""
