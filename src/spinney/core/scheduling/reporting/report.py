"""Reports on gangs as values (conditions, events, explanation), and the input they are built from.

Makes no write: the status writer writes a report, and leaves out what was reported before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from spinney.api.changes import Json
from spinney.api.placement.problem import Gang, Topology

NORMAL, WARNING = "Normal", "Warning"
DEFAULT_NODE_POOL = "default"


class State(Enum):
    """The state of a gang in one word, for programs."""

    SCHEDULED = "Scheduled"
    PARTLY = "PartlyScheduled"  # the minimum has its nodes, some pods beyond it have none
    PIPELINED = "Pipelined"  # its nodes are chosen; pods on them have to terminate first
    NOT_READY = "NotReady"
    MISTAKE = "Mistake"
    OVER_QUEUE = "QueueRefused"
    TIED = "Tied"  # waits for the base gang whose domain it has to share
    EXHAUSTED = "BudgetExhausted"
    BINDING_ERROR = "BindingError"  # it has nodes, and the API server refuses its binds
    EVICTION_ERROR = "EvictionError"  # it needs victims, and the API server refuses their eviction
    UNSCHEDULABLE = "Unschedulable"


class Member(Protocol):
    """A pod without a node."""

    @property
    def uid(self) -> str: ...

    @property
    def key(self) -> tuple[str, str]: ...


class HeldMember(Member, Protocol):
    """A pod without a node that takes no part in decisions, with the reason."""

    @property
    def reason(self) -> str: ...


class GangView(Protocol):
    """The part of a parsed gang that a report needs."""

    @property
    def gang(self) -> Gang: ...

    @property
    def waiting(self) -> Mapping[str, Sequence[Member]]: ...

    @property
    def held(self) -> Sequence[HeldMember]: ...

    @property
    def not_ready(self) -> str: ...

    @property
    def mistake(self) -> str: ...


class QueueRefusal(Protocol):
    """A refusal by a queue: the reason in a word, the sentence, and the numbers of the queue."""

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def details(self) -> object: ...


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """What a report needs beside its gang: existing topologies, number of nodes, and the name of their pool."""

    topologies: Mapping[str, Topology]
    nodes: int = 0
    node_pool: str = DEFAULT_NODE_POOL


@dataclass(frozen=True, slots=True)
class Event:
    """An event about a PodGroup or a pod."""

    type: str
    reason: str
    message: str
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PodReport:
    """A report on one pod: reason and message of PodScheduled=False, and an event."""

    uid: str
    key: tuple[str, str]
    condition: tuple[str, str] | None = None
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report on one gang. `condition` lacks what depends on the one before: its transition number and time.

    `clears`: remove the condition that it is not scheduled. `explanation` None: there is nothing to explain.
    """

    state: State
    message: str
    condition: Json | None = None
    clears: bool = False
    group_event: Event | None = None
    pods: tuple[PodReport, ...] = ()
    explanation: Json | None = None
    score: float | None = None
