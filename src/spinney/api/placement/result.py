"""What the engine answers: one decision per gang, frozen, fit to be printed, stored, compared and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Outcome = Literal["placed", "infeasible", "exhausted", "invalid"]


class Placement(msgspec.Struct, frozen=True, gc=False):
    """The `index`-th new pod of a pod set goes to a node, and there to a zone if the node is divided."""

    pods: str
    index: int
    node: str
    zone: str = ""


class Domain(msgspec.Struct, frozen=True, gc=False):
    """Where a group sits: the narrowest domain that holds its live pods, down to the level it asks for."""

    group: str
    level: str
    path: tuple[str, ...]


class Victim(msgspec.Struct, frozen=True, gc=False, order=True):
    """One pod that has to go."""

    gang: str
    pods: str
    node: str
    zone: str = ""


class Move(msgspec.Struct, frozen=True, gc=False):
    """One pod that has to change its node."""

    gang: str
    pods: str
    source: str
    target: str
    source_zone: str = ""
    target_zone: str = ""


class Shortfall(msgspec.Struct, frozen=True, gc=False):
    """A domain that came close: it holds so many of the pods, and lacks so much for the rest."""

    path: tuple[str, ...]
    holds: int
    of: int
    short: Mapping[str, int]


class Blocked(msgspec.Struct, frozen=True, gc=False):
    """Why nodes did not count: nodes per reason, and nodes per gang that occupies them."""

    reasons: Mapping[str, int] = {}
    occupied: Mapping[str, int] = {}


class FitsAtLevel(msgspec.Struct, frozen=True, gc=False):
    """It would fit if the requirement were this level; None: without the requirement."""

    level: str | None


class FitsWithCount(msgspec.Struct, frozen=True, gc=False):
    count: int


class FitsWithVictims(msgspec.Struct, frozen=True, gc=False):
    victims: tuple[Victim, ...]


class FitsWithWholeSet(msgspec.Struct, frozen=True, gc=False):
    """It would fit if the gang that it is tied to, and all others that are, were placed anew in this domain."""

    gang: str
    path: tuple[str, ...]


Relaxation = FitsAtLevel | FitsWithCount | FitsWithVictims | FitsWithWholeSet


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """Why a gang is not placed, as data. `reason` is a sentence and always there.

    `never_fits`: it is proved that empty nodes would not help; decides the order of messages, and is not written.
    """

    reason: str
    group: str | None = None
    level: str | None = None
    considered: int | None = None
    best: tuple[Shortfall, ...] = ()
    blocked: Blocked | None = None
    fits_if: tuple[Relaxation, ...] = ()
    never_fits: bool = False


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer for one gang."""

    name: str
    outcome: Outcome
    waits: bool = False
    proved: bool = True
    score: float | None = None
    placements: tuple[Placement, ...] = ()
    domains: tuple[Domain, ...] = ()
    victims: tuple[Victim, ...] = ()
    moves: tuple[Move, ...] = ()
    explanation: Explanation | None = None


class Result(msgspec.Struct, frozen=True):
    gangs: tuple[Decision, ...]
