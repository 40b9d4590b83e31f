"""What the pages look at, as protocols: views of objects that tell about changes, and questions asked now and then.

Nothing in here knows where objects come from: whoever wires things together hands views and answers in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding, Topology, counting
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.core.view.plan_result import PlanResult
from spinney.core.view.topology_usage import TopologyUse

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

T = TypeVar("T", covariant=True)


class Change(Protocol[T]):
    """Added (no old), deleted (no new) or changed."""

    @property
    def key(self) -> Key: ...

    @property
    def old(self) -> T | None: ...

    @property
    def new(self) -> T | None: ...


class View(Protocol[T]):
    """Objects of one kind by key, kept up to date by somebody else."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T]: ...

    def get(self, key: Key) -> T | None: ...

    def subscribe(self, subscriber: Callable[[Any], None]) -> Callable[[], None]:
        """Tell about every change from now on, and about what is there already as added."""
        ...


@dataclass(frozen=True, slots=True)
class Views:
    """All that is looked at all the time."""

    nodes: View[Node]
    pods: View[Pod]
    groups: View[PodGroup]
    topologies: View[Topology]
    cluster_topologies: View[ClusterTopology]
    topology_bindings: View[ClusterTopologyBinding]
    sets: View[Json]
    queues: View[Queue]

    @property
    def counting(self) -> tuple[AnyTopology, ...]:
        """The topologies that count, of either kind."""
        return counting(self.cluster_topologies, self.topology_bindings)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event about an object, as it is shown."""

    when: str
    type: str
    reason: str
    about: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """Nothing can be said about a manifest, and why."""

    sentence: str


async def _no_events(gang: Key, pods: Sequence[str]) -> tuple[ClusterEvent, ...]:
    return ()


def _no_uses() -> Sequence[TopologyUse]:
    return ()


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked when somebody wants to know. `plan` None: this page cannot plan.

    `events`: those about a gang and its pods, newest first. `trouble`: why what is shown may be old; empty: it is not.
    `metrics`: those of the scheduler beside which the pages run; None: it runs elsewhere.
    """

    events: Callable[[Key, Sequence[str]], Awaitable[Sequence[ClusterEvent]]] = _no_events
    uses: Callable[[], Sequence[TopologyUse]] = _no_uses
    plan: Callable[[str], Awaitable[PlanResult | PlanRefused]] | None = None
    trouble: Callable[[], str] = field(default=lambda: "")
    metrics: Callable[[], str] | None = None
