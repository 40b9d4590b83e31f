"""Which kinds are served, under which names, with which columns."""

from __future__ import annotations

from typing import Any

from spinney.api.crds.definition import Column, Conversion, Definition, Scale, Version, render
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.dynamographdeployment_v1alpha1 import DynamoGraphDeploymentV1Alpha1
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.kinds.schedulingshard import Config, SchedulingShard

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
_GPUS = r"nvidia\.com/gpu"
_UNSCHEDULABLE = '.status.schedulingConditions[?(@.type=="UnschedulableOnNodePool")]'
_SCHEDULED_CONDITION = '.status.conditions[?(@.type=="Scheduled")]'
_QUEUE_COLUMNS = (
    Column("Priority", "string", ".spec.priority"),
    Column("Parent", "string", ".spec.parentQueue"),
    Column("Children", "string", ".status.childQueues"),
    Column("DisplayName", "string", ".spec.displayName"),
    Column("GPU-Quota", "number", ".spec.resources.gpu.quota"),
    Column("GPU-Limit", "number", ".spec.resources.gpu.limit"),
    Column("GPUs-Used", "string", f".status.allocated.{_GPUS}"),
    Column("GPUs-Requested", "string", f".status.requested.{_GPUS}"),
    Column("CPUs-Used", "string", ".status.allocated.cpu", 1),
    _AGE,
)
_PODGANG_COLUMNS = (
    Column("Phase", "string", ".status.phase"),
    Column("Scheduled", "string", f"{_SCHEDULED_CONDITION}.status"),
    Column("Reason", "string", f"{_SCHEDULED_CONDITION}.reason"),
    Column("Score", "number", ".status.placementScore"),
    Column("Message", "string", f"{_SCHEDULED_CONDITION}.message", 1),
    _AGE,
)
_PODGROUP_COLUMNS = (
    Column("Queue", "string", ".spec.queue"),
    Column("Min", "integer", ".spec.minMember"),
    Column("Waiting", "string", f"{_UNSCHEDULABLE}.reason"),
    Column("GPUs", "string", f".status.resourcesStatus.allocated.{_GPUS}"),
    Column("Score", "string", r".metadata.annotations.spinney\.dev/placement-score"),
    Column("Topology", "string", ".spec.topologyConstraint.topology"),
    Column("Message", "string", f"{_UNSCHEDULABLE}.message", 1),
    _AGE,
)


def _levels(field: str, first: int) -> tuple[Column, ...]:
    """One for each level, for a column shows no more than one value."""
    return tuple(Column(f"Level-{at}", "string", f".spec.levels[{at - 1}].{field}") for at in range(first, 8))


_DOMAIN_COLUMNS = (
    Column("Domains", "string", ".spec.levels[*].domain"),
    *_levels("domain", 2),
    Column("Drift", "string", '.status.conditions[?(@.type=="SchedulerTopologyDrift")].status'),
    _AGE,
)
_HONOURED = Column("Honoured", "string", '.status.conditions[?(@.type=="Honoured")].status')
_DYNAMO_COLUMNS = (
    Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Backend", "string", ".spec.backendFramework"),
    _AGE,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        short_names=("ct",),
        versions=(Version(ClusterTopology, _DOMAIN_COLUMNS),),
    ),
    Definition(
        short_names=("ctb",),
        versions=(Version(ClusterTopologyBinding, _DOMAIN_COLUMNS),),
    ),
    Definition(
        short_names=("pclq",),
        versions=(
            Version(
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
        short_names=("pcsg",),
        versions=(
            Version(
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
        short_names=("pcs",),
        versions=(
            Version(
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
        short_names=("pg",),
        versions=(Version(PodGang, _PODGANG_COLUMNS),),
    ),
    Definition(versions=(Version(Config, (_HONOURED, _AGE)),)),
    Definition(
        versions=(
            Version(SchedulingShard, (Column("Partition", "string", ".spec.partitionLabelValue"), _HONOURED, _AGE)),
        ),
    ),
    Definition(
        versions=(Version(Topology, (*_levels("nodeLabel", 1), _AGE)),),
        status=False,
    ),
    Definition(
        short_names=("pg",),
        versions=(Version(PodGroup, _PODGROUP_COLUMNS),),
    ),
    Definition(
        versions=(Version(Queue, _QUEUE_COLUMNS),),
    ),
    Definition(
        short_names=("dgd",),
        versions=(
            Version(
                DynamoGraphDeploymentV1Alpha1,
                _DYNAMO_COLUMNS,
                storage=False,
                deprecation="nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; "
                "use nvidia.com/v1beta1 DynamoGraphDeployment",
            ),
            Version(DynamoGraphDeployment, _DYNAMO_COLUMNS),
        ),
    ),
)


def all_crds(conversion: Conversion | None = None) -> list[dict[str, Any]]:
    """Every CRD, in order of group and kind; fresh objects on each call."""
    return [render(one, conversion) for one in sorted(DEFINITIONS, key=lambda one: (one.stored.GROUP, one.stored.KIND))]


def crd(kind: str, conversion: Conversion | None = None) -> dict[str, Any]:
    """The CRD of one kind."""
    for definition in DEFINITIONS:
        if kind == definition.stored.KIND:
            return render(definition, conversion)
    raise KeyError(f"no kind {kind!r}; known are {', '.join(sorted(one.stored.KIND for one in DEFINITIONS))}")
