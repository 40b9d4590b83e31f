"""Gangs as the scheduler reads them, decided by the engine, and what is reported of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spinney.api.kinds.podgroup import PodGroupSpec, SubGroup
from spinney.api.placement.problem import Gang, Group
from spinney.api.placement.reading import read_problem
from spinney.api.placement.result import Decision
from spinney.core.placement.engine import place
from spinney.core.scheduling.reporting import ClusterSummary, Report, report
from unit.placement.refusal_kit import Document, problem


@dataclass(frozen=True)
class Waiting:
    uid: str
    key: tuple[str, str]


@dataclass(frozen=True)
class Held:
    uid: str
    key: tuple[str, str]
    reason: str


@dataclass(frozen=True)
class Read:
    """A gang that was read."""

    gang: Gang
    waiting: Mapping[str, tuple[Waiting, ...]] = field(default_factory=dict)
    held: tuple[Held, ...] = ()
    not_ready: str = ""
    mistake: str = ""


@dataclass(frozen=True)
class NoRoomInQueue:
    reason: str
    message: str
    details: Any = None


def waiting_of(gang: Gang) -> dict[str, tuple[Waiting, ...]]:
    """A pod for each member that does not run, named after its pod set."""
    runs = [member.pods for member in gang.running]
    found: dict[str, tuple[Waiting, ...]] = {}

    def walk(group: Group, prefix: str) -> None:
        for pods in group.pods:
            path = prefix + pods.name
            names = [f"{pods.name}-{index}" for index in range(pods.count - runs.count(path))]
            found[path] = tuple(Waiting(f"uid-{name}", ("ns", name)) for name in names)
        for kid in group.groups:
            walk(kid, f"{prefix}{kid.name}/")

    walk(gang.root, "")
    return found


def decided(there: list[Document], *gangs: Document, **options: Any) -> tuple[Read, Decision, ClusterSummary]:
    """The last gang, as it was read and decided, and the scene."""
    asked = read_problem(problem(there, *gangs, **options))
    decision = place(asked).gangs[-1]
    gang = asked.gangs[-1]
    summary = ClusterSummary({one.name: one for one in asked.topologies}, len(asked.nodes))
    return Read(gang, waiting_of(gang)), decision, summary


def told(there: list[Document], *gangs: Document, spec: PodGroupSpec | None = None, **options: Any) -> Report:
    """What is reported of the last gang."""
    reading, decision, summary = decided(there, *gangs, **options)
    return report(reading, decision, spec or PodGroupSpec(), summary)


def sub_groups(*names: str, **more: Any) -> PodGroupSpec:
    return PodGroupSpec(sub_groups=tuple(SubGroup(name) for name in names), **more)
