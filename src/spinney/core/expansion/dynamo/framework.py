"""The interface between deployments and what runs them (D4): another back-end is another value of this shape.

The API of deployments knows no back-end, and no back-end is asked about more than is said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spinney.api.changes import Change, Json, Resource, Target
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.core.expansion.dynamo.status import Progress

ConditionText = tuple[str, str, str]
"""Status, reason and message of a condition."""


class BadDeployment(ValueError):
    """An invalid deployment that only the generator can detect."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is there. `workload` is the live object as JSON; `refusal`: what the last attempt to write it came to."""

    settings: DynamoSettings
    now_s: float
    workload: Json | None = None
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    gangs: Sequence[PodGang] = ()
    present: frozenset[Target] = frozenset()
    queue_exists: bool = True
    refusal: str = ""


class Framework(Protocol):
    """A way to run deployments; each says the same API in its own words."""

    @property
    def resource(self) -> Resource:
        """The kind of object that a deployment becomes."""
        ...

    def name_of(self, deployment: Json) -> str: ...

    def render(self, deployment: Json, observed: Observed, restarts: Mapping[str, str]) -> Json:
        """The whole object, topology in the framework's words. `restarts`: marks by component; another mark makes
        other pods. Raises BadDeployment.
        """
        ...

    def scale(self, deployment: Json, observed: Observed) -> list[Change]:
        """The changes that scale components without changing the workload object."""
        ...

    def progress(self, deployment: Json, observed: Observed) -> list[Progress]:
        """The progress of each component."""
        ...

    def restarted(self, observed: Observed) -> dict[str, str]:
        """The marks that components carry now."""
        ...

    def is_settled(self, observed: Observed) -> bool:
        """Whether the framework reports that all pods match the workload object."""
        ...

    def topology(self, observed: Observed) -> ConditionText:
        """Whether constraints are enforced."""
        ...
