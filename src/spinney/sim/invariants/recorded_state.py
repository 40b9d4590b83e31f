"""The state of the server, updated write by write: nodes, pods, gangs and topologies as the invariants need them.

A plan is based on a state slightly older than its record, so nodes and topologies keep their history. Shares no code
with the scheduler except the format of its plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spinney.sim.invariants.facts import Amounts, GangFacts, Key, PodFacts

T = TypeVar("T")


@dataclass(slots=True)
class History(Generic[T]):
    """Values and since when each held, newest last. None: the object did not exist."""

    versions: list[tuple[float, T | None]] = field(default_factory=list)

    def put(self, now_s: float, value: T | None) -> None:
        if not self.versions or self.versions[-1][1] != value:
            self.versions.append((now_s, value))

    @property
    def now(self) -> T | None:
        return self.versions[-1][1] if self.versions else None

    def since(self, moment_s: float) -> Iterator[T | None]:
        """Every value that held at that moment or later."""
        for (_, value), (end_s, _) in zip(self.versions, [*self.versions[1:], (float("inf"), None)], strict=True):
            if end_s >= moment_s:
                yield value


@dataclass(frozen=True, slots=True)
class NodeFacts:
    labels: Mapping[str, str]
    amounts: Amounts
    is_open: bool = True


@dataclass(slots=True)
class RecordedState:
    nodes: dict[str, History[NodeFacts]] = field(default_factory=lambda: defaultdict(History))
    levels: dict[str, History[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(History))
    pods: dict[Key, PodFacts] = field(default_factory=dict)
    gangs: dict[Key, GangFacts] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)

    def members(self, gang: Key) -> list[PodFacts]:
        return [pod for pod in self.pods.values() if pod.group == gang]

    def usage(self, node: str, *, reserved: bool = False) -> dict[str, int]:
        """What bound pods request, in thousandths; with `reserved` also the pods that recorded plans assign there."""
        total: dict[str, int] = defaultdict(int)
        assigned = self._assigned(node) if reserved else frozenset()
        for pod in self.pods.values():
            if (pod.node == node and pod.holds_room) or (pod.uid in assigned and pod.is_live and not pod.node):
                for name, amount in pod.asks.items():
                    total[name] += amount
        return total

    def offered(self, node: str, since_s: float) -> list[Amounts]:
        """The node's allocatable now and at any time since that moment; empty if it did not exist."""
        return [facts.amounts for facts in self.nodes[node].since(since_s) if facts is not None]

    def domains(self, topology: str, level: str, node: str, since_s: float) -> set[tuple[str, ...]]:
        """The domains that the node is in, or has been in since that moment."""
        return {
            path
            for keys in self.levels[topology].since(since_s)
            for facts in self.nodes[node].since(since_s)
            if keys is not None and facts is not None and (path := _path(keys, level, facts.labels)) is not None
        }

    def stays(self, node: str, since_s: float) -> bool:
        """Whether the node exists and has existed all the time since that moment."""
        return bool(self.nodes[node].versions) and None not in self.nodes[node].since(since_s)

    def _assigned(self, node: str) -> frozenset[str]:
        plans = [gang.plan for gang in self.gangs.values() if gang.plan is not None and gang.plan.state == "bind"]
        return frozenset(assignment.uid for plan in plans for assignment in plan.assignments if assignment.node == node)


def most(amounts: Iterable[Amounts], resource: str) -> int:
    return max((each.get(resource, 0) for each in amounts), default=0)


def _path(keys: tuple[str, ...], level: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    if level not in keys:
        return None
    path = [labels.get(key) for key in keys[: keys.index(level) + 1]]
    return tuple(str(value) for value in path) if None not in path else None
