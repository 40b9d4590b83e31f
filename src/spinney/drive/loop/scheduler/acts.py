"""What a cycle asks others to do for a gang, as values."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.meta import ObjectMeta
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.carrying import Errand
from spinney.drive.loop.scheduler.pursuing import Chase
from spinney.drive.loop.scheduler.records import Rejected
from spinney.drive.loop.scheduler.staleness import Expel, Mark


@dataclass(frozen=True, slots=True)
class Begin:
    """Record a plan and carry it out."""

    key: Key
    errand: Errand


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry out a plan that was found. `why`: some of its seats were never to be given, and that is told."""

    key: Key
    errand: Errand
    why: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    """Take a record away that is not a plan. `pods`: those that its writer may be about to bind."""

    key: Key
    group: ObjectMeta
    rejected: Rejected
    pods: tuple[Pod, ...]


Act = Begin | Resume | Discard | Chase | Mark | Expel
Step = Act | None
"""None: something was decided, and there is nothing to do."""
