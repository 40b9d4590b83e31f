"""Which kinds are served, under which names, with which columns."""

from __future__ import annotations

from typing import Any

from spinney.api.crds.definition import Column, Conversion, Definition, Scale, Version, render
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.dynamographdeployment_v1alpha1 import DynamoGraphDeploymentV1Alpha1
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.kinds.topology import Topology

__all__ = ["DEFINITIONS", "Conversion", "all_crds", "crd"]

_AGE = Column("Age", "date", ".metadata.creationTimestamp")
_MIN_AVAILABLE = Column("MinAvail", "integer", ".spec.minAvailable")
_REPLICAS = Column("Replicas", "integer", ".spec.replicas")
_AVAILABLE = Column("Available", "integer", ".status.availableReplicas")
_SCHEDULED = Column("Scheduled", "integer", ".status.scheduledReplicas")
_UPDATED = Column("Updated", "integer", ".status.updatedReplicas")
_CLIQUES_UPDATED = Column("PCLQs-Updated", "integer", ".status.updateProgress.updatedPodCliquesCount")
_CLIQUES_TOTAL = Column("PCLQs-Total", "integer", ".status.updateProgress.totalPodCliquesCount")
_BREACHED = Column("MinBreached", "string", '.status.conditions[?(@.type=="MinAvailableBreached")].status', 1)
_DYNAMO_COLUMNS = (
    Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Backend", "string", ".spec.backendFramework"),
    _AGE,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        group="grove.io",
        kind="ClusterTopology",
        plural="clustertopologies",
        short_names=("ct",),
        namespaced=False,
        description="The levels of the network and the node labels that name their domains.",
        versions=(Version("v1alpha1", ClusterTopology, (Column("Domains", "string", ".spec.levels[*].domain"), _AGE)),),
    ),
    Definition(
        group="grove.io",
        kind="PodClique",
        plural="podcliques",
        short_names=("pclq",),
        namespaced=True,
        description="Pods of one role, scaled and started together.",
        versions=(
            Version(
                "v1alpha1",
                PodClique,
                (
                    _MIN_AVAILABLE,
                    _REPLICAS,
                    Column("Ready", "integer", ".status.readyReplicas"),
                    _SCHEDULED,
                    _UPDATED,
                    Column("Gated", "integer", ".status.scheduleGatedReplicas", 1),
                    _BREACHED,
                    _AGE,
                ),
            ),
        ),
        scale=Scale(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
    ),
    Definition(
        group="grove.io",
        kind="PodCliqueScalingGroup",
        plural="podcliquescalinggroups",
        short_names=("pcsg",),
        namespaced=True,
        description="Cliques that are scaled together.",
        versions=(
            Version(
                "v1alpha1",
                PodCliqueScalingGroup,
                (
                    _MIN_AVAILABLE,
                    _REPLICAS,
                    _AVAILABLE,
                    _SCHEDULED,
                    _UPDATED,
                    _CLIQUES_UPDATED,
                    _CLIQUES_TOTAL,
                    _BREACHED,
                    _AGE,
                ),
            ),
        ),
        scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    ),
    Definition(
        group="grove.io",
        kind="PodCliqueSet",
        plural="podcliquesets",
        short_names=("pcs",),
        namespaced=True,
        description="A workload of cliques and scaling groups; each replica is scheduled as a gang.",
        versions=(
            Version(
                "v1alpha1",
                PodCliqueSet,
                (
                    _REPLICAS,
                    _AVAILABLE,
                    _UPDATED,
                    _CLIQUES_UPDATED,
                    _CLIQUES_TOTAL,
                    Column("PCSGs-Updated", "integer", ".status.updateProgress.updatedPodCliqueScalingGroupsCount"),
                    Column("PCSGs-Total", "integer", ".status.updateProgress.totalPodCliqueScalingGroupsCount"),
                    _AGE,
                ),
            ),
        ),
        scale=Scale(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
    ),
    Definition(
        group="scheduler.grove.io",
        kind="PodGang",
        plural="podgangs",
        short_names=("pg",),
        namespaced=True,
        description="Pods that are scheduled together or not at all.",
        versions=(Version("v1alpha1", PodGang, (Column("Phase", "string", ".status.phase"), _AGE)),),
    ),
    Definition(
        group="kai.scheduler",
        kind="Topology",
        plural="topologies",
        short_names=(),
        namespaced=False,
        description="Levels of the network by node label, for the scheduler.",
        versions=(Version("v1alpha1", Topology, (_AGE,)),),
        status=False,
    ),
    Definition(
        group="scheduling.run.ai",
        kind="PodGroup",
        plural="podgroups",
        short_names=("pg",),
        namespaced=True,
        description="One gang, as the scheduler sees it.",
        versions=(Version("v2alpha2", PodGroup, (_AGE,)),),
    ),
    Definition(
        group="scheduling.run.ai",
        kind="Queue",
        plural="queues",
        short_names=(),
        namespaced=False,
        description="A share of the cluster; queues form a tree, gangs are in its leaves.",
        versions=(
            Version(
                "v2",
                Queue,
                (
                    Column("Priority", "string", ".spec.priority"),
                    Column("Parent", "string", ".spec.parentQueue"),
                    Column("Children", "string", ".status.childQueues"),
                    Column("DisplayName", "string", ".spec.displayName"),
                ),
            ),
        ),
    ),
    Definition(
        group="nvidia.com",
        kind="DynamoGraphDeployment",
        plural="dynamographdeployments",
        short_names=("dgd",),
        namespaced=True,
        description="An inference graph: components that work together, placed by topology if asked for.",
        versions=(
            Version(
                "v1alpha1",
                DynamoGraphDeploymentV1Alpha1,
                _DYNAMO_COLUMNS,
                storage=False,
                deprecation="nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; "
                "use nvidia.com/v1beta1 DynamoGraphDeployment",
            ),
            Version("v1beta1", DynamoGraphDeployment, _DYNAMO_COLUMNS),
        ),
    ),
)


def all_crds(conversion: Conversion | None = None) -> list[dict[str, Any]]:
    """Every CRD, in order of group and kind; fresh objects on each call."""
    return [render(one, conversion) for one in sorted(DEFINITIONS, key=lambda one: (one.group, one.kind))]


def crd(kind: str, conversion: Conversion | None = None) -> dict[str, Any]:
    """The CRD of one kind."""
    for definition in DEFINITIONS:
        if definition.kind == kind:
            return render(definition, conversion)
    raise KeyError(f"no kind {kind!r}; known are {', '.join(sorted(one.kind for one in DEFINITIONS))}")
