"""Scheduler backends: what a gang, its pods and a topology become for one scheduler (G10).

A backend only decides; it is given what it asked to see, and answers with changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spinney.api.changes import Change, Json, Resource
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang

Find = Callable[[Resource, str, str], Json | None]
"""What is stored under a resource, a namespace and a name."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a scheduler can honour; a set that needs more is refused at admission."""

    gang: bool = False
    required_topology: bool = False
    preferred_topology: bool = False
    numa: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """What a scheduler wants to read on a pod or on a gang."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Twin:
    """The state of a scheduler's own form of a topology; `changes` would put it right."""

    reference: str
    in_sync: bool
    message: str = ""
    generation: int = 0
    changes: tuple[Change, ...] = ()


class Backend(Protocol):
    """One scheduler. `watches` names the resources it wants to find things in."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def manages_topologies(self) -> bool:
        """Whether topologies of this scheduler are ours to make."""
        ...

    @property
    def watches(self) -> tuple[Resource, ...]: ...

    def mark_gang(self, podcliqueset: PodCliqueSet) -> Marks:
        """What the gangs of a set carry beside what they mirror of it."""
        ...

    def mark_pod(self, gang: str, clique: str) -> Marks:
        """What its pods carry."""
        ...

    def sync_gang(self, gang: PodGang, find: Find) -> tuple[Change, ...]:
        """What a gang becomes."""
        ...

    def twin_of(self, topology: ClusterTopology, find: Find) -> Twin | None:
        """What a topology becomes; None if this scheduler has no such thing."""
        ...
