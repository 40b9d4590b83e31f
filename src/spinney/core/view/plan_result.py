"""The result of a what-if as values: expected gangs, their placement, and if they do not fit, why and what would fit.

Messages and figures are those that status and events would carry. Never holds an API object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spinney.core.view.explanation import GangExplanation

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DisplacedPod:
    """A pod that would be evicted, or moved to the node `to`.

    `queue`: that of its gang; `why`: what its eviction would be told with, or empty for moves that are only proposed.
    """

    pod: str
    gang: str
    node: str
    to: str = ""
    queue: str = ""
    why: str = ""

    @property
    def figures(self) -> str:
        """What both queues would have then, where another one takes its place; empty: it would be of the same queue."""
        return self.why.partition(". ")[2]

    def to_json(self) -> Json:
        shown = {"pod": self.pod, "gang": self.gang, "node": self.node}
        more = {"to": self.to, "queue": self.queue, "why": self.why}
        return {**shown, **{name: text for name, text in more.items() if text}}


@dataclass(frozen=True, slots=True)
class GangResult:
    """The result for one gang. `fits`: its minimum has nodes. `minimum`, `pods`: pods it needs and requests.

    `victims`: pods that are evicted or moved for it. `moves`: pods that would have to move for it to fit, if it does
    not. `waits_for_leaving`: it is placed on capacity of pods that are terminating already. `is_new` False: it exists
    already, and more pods of it were requested. `held`: what the placed pods would hold, by node and resource in base
    units; `pods` is how many they are.
    """

    explained: GangExplanation
    fits: bool
    minimum: int
    pods: int
    placed: int
    victims: tuple[DisplacedPod, ...] = ()
    moves: tuple[DisplacedPod, ...] = ()
    waits_for_leaving: bool = False
    is_new: bool = True
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.explained.name

    @property
    def verdict(self) -> str:
        """`no`, `partly` (some pods beyond the minimum have no node) or `fits`."""
        if not self.fits:
            return "no"
        return "fits" if self.placed >= self.pods else "partly"

    def to_json(self) -> Json:
        shown: Json = {"gang": self.name, "verdict": self.verdict, "minimum": self.minimum, "asked": self.pods}
        shown |= {"placed": self.placed, "new": self.is_new, "waitsForLeaving": self.waits_for_leaving}
        shown["leavers"] = [victim.to_json() for victim in self.victims]
        shown["fitsAfterMoves"] = [move.to_json() for move in self.moves]
        explained = self.explained.to_json()
        explained.pop("podGroup")
        return {**shown, **explained}


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The result of one manifest. `refusals`: why admission or its controller would refuse it."""

    kind: str
    namespace: str
    name: str
    where: str
    gangs: tuple[GangResult, ...] = ()
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exists: bool = False

    @property
    def fits(self) -> bool:
        return not self.refusals and all(gang.fits for gang in self.gangs)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def to_json(self) -> Json:
        shown: Json = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "where": self.where}
        shown |= {"fits": self.fits, "exists": self.exists, "gangs": [gang.to_json() for gang in self.gangs]}
        return {**shown, "refusals": list(self.refusals), "warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True)
class Copies:
    """How many copies of all manifests fit. `asked` None: as many as fit. `bound`: what the search stopped at."""

    asked: int | None
    fitting: int
    bound: str = ""
    blocker: GangResult | None = None

    def to_json(self) -> Json:
        shown: Json = {"asked": "max" if self.asked is None else self.asked, "fitting": self.fitting}
        return {**shown, "bound": self.bound, "blockedBy": self.blocker.to_json() if self.blocker else None}


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The whole result. `workloads` are those of the first copy; `nodes`: the number of nodes considered."""

    workloads: tuple[WorkloadResult, ...]
    nodes: int
    against: str = ""
    copies: Copies | None = None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        if not all(workload.fits for workload in self.workloads):
            return False
        return self.copies is None or self.copies.fitting >= (self.copies.asked or 1)

    @property
    def gangs(self) -> tuple[GangResult, ...]:
        return tuple(gang for workload in self.workloads for gang in workload.gangs)

    def to_json(self) -> Json:
        shown: Json = {"fits": self.fits, "against": self.against, "nodes": self.nodes}
        shown["workloads"] = [workload.to_json() for workload in self.workloads]
        if self.copies is not None:
            shown["copies"] = self.copies.to_json()
        return {**shown, "notes": list(self.notes)}
