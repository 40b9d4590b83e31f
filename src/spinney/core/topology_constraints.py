"""The topology constraints of a PodCliqueSet, and the topology that counts for it (G8, P8, P10).

The only place that answers "which topology": admission, the operator, deletion protection and what-if ask here, because
a set that two of them read differently is never at rest. Whether a topology exists is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.topology_constraint import TopologyConstraint
from spinney.api.labels import TOPOLOGY_NAME

NAME_PATH = "spec.template.clusterTopologyName"


@dataclass(frozen=True, slots=True)
class ConstraintSite:
    """Where a constraint can stand: the set, a scaling group, a clique."""

    path: str  # of the topologyConstraint
    kind: str
    name: str  # empty for the set
    constraint: TopologyConstraint | None

    @property
    def title(self) -> str:
        return f"{self.kind} '{self.name}'" if self.name else self.kind

    @property
    def required(self) -> str:
        return self.constraint.required if self.constraint else ""

    @property
    def preferred(self) -> str:
        return self.constraint.preferred if self.constraint else ""

    @property
    def required_path(self) -> str:
        old_spelling = self.constraint is not None and self.constraint.pack_domain
        return f"{self.path}.packDomain" if old_spelling else f"{self.path}.pack.required"

    @property
    def preferred_path(self) -> str:
        return f"{self.path}.pack.preferred"


def set_site(podcliqueset: PodCliqueSet) -> ConstraintSite:
    constraint = podcliqueset.spec.template.topology_constraint
    return ConstraintSite("spec.template.topologyConstraint", "PodCliqueSet", "", constraint)


def group_sites(podcliqueset: PodCliqueSet) -> list[ConstraintSite]:
    return [
        ConstraintSite(
            f"spec.template.podCliqueScalingGroups[{index}].topologyConstraint",
            "PodCliqueScalingGroup",
            group.name,
            group.topology_constraint,
        )
        for index, group in enumerate(podcliqueset.spec.template.pod_clique_scaling_groups)
    ]


def clique_sites(podcliqueset: PodCliqueSet) -> list[ConstraintSite]:
    return [
        ConstraintSite(
            f"spec.template.cliques[{index}].topologyConstraint", "PodClique", clique.name, clique.topology_constraint
        )
        for index, clique in enumerate(podcliqueset.spec.template.cliques)
    ]


def all_sites(podcliqueset: PodCliqueSet) -> list[ConstraintSite]:
    """All of them, constrained or not, broad to narrow."""
    return [set_site(podcliqueset), *group_sites(podcliqueset), *clique_sites(podcliqueset)]


def constrained(podcliqueset: PodCliqueSet) -> list[ConstraintSite]:
    return [site for site in all_sites(podcliqueset) if site.constraint is not None]


def named(podcliqueset: PodCliqueSet) -> Iterator[tuple[str, str]]:
    """Every topology name that the set gives, with its path."""
    if podcliqueset.spec.template.cluster_topology_name:
        yield NAME_PATH, podcliqueset.spec.template.cluster_topology_name
    for site in all_sites(podcliqueset):
        if site.constraint is not None and site.constraint.topology_name:
            yield f"{site.path}.topologyName", site.constraint.topology_name


def constraints_of(podcliqueset: PodCliqueSet) -> list[TopologyConstraint]:
    return [site.constraint for site in all_sites(podcliqueset) if site.constraint is not None]


def reference(podcliqueset: PodCliqueSet) -> tuple[str, str]:
    """The path and the name of the explicit reference; the name is empty where the default is meant."""
    return next(named(podcliqueset), (NAME_PATH, ""))


def effective_topology(podcliqueset: PodCliqueSet, default: str, scheduled: bool) -> str:
    """The topology that counts, whether or not any constraint asks for one.

    The one the set names, else the one of its label while pods of it are scheduled (P8), else the default.
    """
    return (reference(podcliqueset)[1] or (scheduled and _label(podcliqueset))) or default


def possible_topologies(podcliqueset: PodCliqueSet, default: str) -> tuple[str, ...]:
    """What `effective_topology` may answer, now or once pods are scheduled: the keys of an index by topology."""
    return tuple(sorted({effective_topology(podcliqueset, default, scheduled) for scheduled in (False, True)} - {""}))


def _label(podcliqueset: PodCliqueSet) -> str:
    return podcliqueset.metadata.labels.get(TOPOLOGY_NAME, "")
