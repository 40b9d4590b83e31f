"""What is to be told about a gang, as values: conditions, events, explanation; and what has to be known to tell it.

Nothing in here writes: whoever holds the door carries a report out, and leaves out what has been told already.
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
    """How it stands with a gang, in one word for programs."""

    SCHEDULED = "Scheduled"
    PARTLY = "PartlyScheduled"  # the minimum has its nodes, some pods beyond it have none
    PIPELINED = "Pipelined"  # its nodes are chosen, others have to leave them first
    NOT_READY = "NotReady"
    MISTAKE = "Mistake"
    OVER_QUEUE = "QueueRefused"
    TIED = "Tied"  # waits for the gang whose domain it has to share
    EXHAUSTED = "BudgetExhausted"
    BINDING_ERROR = "BindingError"  # it has places, and the API server does not take its binds
    EVICTION_ERROR = "EvictionError"  # others would have to leave, and the API server does not take their evictions
    UNSCHEDULABLE = "Unschedulable"


class Member(Protocol):
    """A pod that waits."""

    @property
    def uid(self) -> str: ...

    @property
    def key(self) -> tuple[str, str]: ...


class HeldMember(Member, Protocol):
    """A pod that waits and takes no part in decisions, with the reason."""

    @property
    def reason(self) -> str: ...


class GangView(Protocol):
    """The part of a read gang that a report needs."""

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
    """A queue's no: the reason in a word, the sentence, and the figures of the queue."""

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def details(self) -> object: ...


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """What a story refers to beside its gang: the topologies there are, how many nodes, and the name of their pool."""

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
    """What one pod is told: reason and message of PodScheduled=False, and an event."""

    uid: str
    key: tuple[str, str]
    condition: tuple[str, str] | None = None
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The story of one gang. `condition` lacks what depends on the one before: its number and its time.

    `clears`: whatever was said about not being scheduled is over. `explanation` None: there is nothing to explain.
    """

    state: State
    message: str
    condition: Json | None = None
    clears: bool = False
    group_event: Event | None = None
    pods: tuple[PodReport, ...] = ()
    explanation: Json | None = None
    score: float | None = None
