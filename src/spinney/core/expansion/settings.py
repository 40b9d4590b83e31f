"""The operator's settings that decisions depend on (C7: read once at start-up)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.clustertopology import TopologyLevel
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import SCHEDULER_DEFAULT
from spinney.core.expansion.backends import Backend
from spinney.core.expansion.backends.default_scheduler import DefaultScheduler


class AutoPreferred(Enum):
    """When a preferred level is added that the user did not request (G6)."""

    NEVER = "Never"
    CONSTRAINED = "Constrained"
    ALWAYS = "Always"


def _only_default() -> Mapping[str, Backend]:
    return {SCHEDULER_DEFAULT: DefaultScheduler()}


@dataclass(frozen=True, slots=True)
class Settings:
    """`levels` are those of the default topology if the operator manages it; none: an admin does (C6).

    `needs_default`: whether an admin's has to be there at start. Without either there is no default topology: sets name
    theirs. `protects_topologies`: one that sets use is not deleted under them.
    """

    topology_enabled: bool = False
    levels: tuple[TopologyLevel, ...] = ()
    default_topology: str = DEFAULT_TOPOLOGY
    needs_default: bool = True
    auto_preferred: AutoPreferred = AutoPreferred.CONSTRAINED
    backends: Mapping[str, Backend] = field(default_factory=_only_default)
    default_backend: str = SCHEDULER_DEFAULT
    init_image: str = "spinney"
    mnnvl_enabled: bool = False
    protects_topologies: bool = True

    def scheduler_of(self, podcliqueset: PodCliqueSet) -> str:
        """The first scheduler name that a clique gives, else the default profile."""
        names = (clique.spec.pod_spec.get("schedulerName") for clique in podcliqueset.spec.template.cliques)
        return next((name for name in names if name), self.default_backend)

    def backend_of(self, podcliqueset: PodCliqueSet) -> Backend:
        """The backend of a set; a scheduler without a configured profile gets plain pods."""
        return self.backend(self.scheduler_of(podcliqueset))

    def backend(self, scheduler: str) -> Backend:
        return self.backends.get(scheduler) or DefaultScheduler(scheduler)
