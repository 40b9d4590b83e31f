"""Scheduler backends: translate a gang, its pods and a topology to the objects of one scheduler (G10).

A backend is pure: it reads objects through a lookup and returns changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spinney.api.changes import Change, Json, Resource
from spinney.api.kinds.clustertopology import AnyTopology
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
    """The labels and annotations that a scheduler needs on a pod or on a gang."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Twin:
    """The state of a scheduler's own topology object; `changes` would correct it.

    `available`: whether the scheduler is enabled and has topologies at all.
    """

    reference: str
    in_sync: bool
    message: str = ""
    generation: int = 0
    changes: tuple[Change, ...] = ()
    available: bool = True


class Backend(Protocol):
    """One scheduler. `watches` names the resources it wants to find things in."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def manages_topologies(self) -> bool:
        """Whether the operator creates the topologies of this scheduler."""
        ...

    @property
    def watches(self) -> tuple[Resource, ...]: ...

    def mark_gang(self, podcliqueset: PodCliqueSet) -> Marks:
        """The marks of the set's gangs, in addition to what they mirror from the set."""
        ...

    def mark_pod(self, gang: str, clique: str) -> Marks:
        """The marks of the gang's pods."""
        ...

    def sync_gang(self, gang: PodGang, find: Find) -> tuple[Change, ...]:
        """The changes that create or correct the scheduler's objects for a gang."""
        ...

    def twin_of(self, topology: AnyTopology, find: Find) -> Twin | None:
        """The scheduler's counterpart of a topology; None if this scheduler has no topologies."""
        ...
