"""PodCliqueSet: a workload of cliques and scaling groups, in replicas that are placed as gangs."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.kinds.podclique import AutoScaling, LastErrors, PodCliqueSpec
from spinney.api.kinds.topology_constraint import TopologyConstraint
from spinney.api.meta import (
    MOST_PODS,
    AnnotationMap,
    Conditions,
    Count,
    Duration,
    Generation,
    Hash,
    Index,
    Kind,
    LabelMap,
    Name,
    NameList,
    Opaque,
    Removed,
    SelectorText,
    Slim,
    Timestamp,
    doc,
    listed,
    number,
    one_of,
    text,
)


class ResourceSharingFilter(Slim, frozen=True):
    child_clique_names: Annotated[NameList, doc("Cliques that get the claim.")] = ()
    child_scaling_group_names: Annotated[NameList, doc("Scaling groups that get the claim.")] = ()


class ResourceSharing(Slim, frozen=True, kw_only=True):
    """A resource claim that several pods share."""

    name: Annotated[str, text("A template of this set, or a ResourceClaimTemplate object.", least=1, most=253)]
    namespace: Annotated[Name, doc("Where the ResourceClaimTemplate object is; empty for a template of this set.")] = ""
    scope: Annotated[str, one_of("One claim for all replicas, or one for each.", "AllReplicas", "PerReplica")]
    filter: Annotated[ResourceSharingFilter | None, doc("Who gets the claim; everybody if not set.")] = None


ResourceSharingList = Annotated[tuple[ResourceSharing, ...], listed(None, most=32)]


class PodCliqueTemplate(Slim, frozen=True, kw_only=True):
    name: Annotated[str, text("The name of the clique in this set.", least=1, most=63)]
    labels: Annotated[LabelMap, doc("Labels of the PodClique and its pods.")] = field(default_factory=dict)
    annotations: Annotated[AnnotationMap, doc("Annotations of the PodClique and its pods.")] = field(
        default_factory=dict
    )
    topology_constraint: Annotated[TopologyConstraint | None, doc("Packs all pods of one PodClique.")] = None
    resource_sharing: Annotated[ResourceSharingList, doc("Claims that the pods of one PodClique share.")] = ()
    spec: Annotated[PodCliqueSpec, doc("The specification of the PodClique.")]


class PodCliqueScalingGroupConfig(Slim, frozen=True, kw_only=True):
    """Cliques that are scaled together."""

    name: Annotated[str, text("The name of the group in this set.", least=1, most=63)]
    clique_names: Annotated[NameList, doc("The cliques of the group; a clique is in one group at most.")]
    annotations: Annotated[AnnotationMap, doc("Annotations of the group's object.")] = field(default_factory=dict)
    replicas: Annotated[
        int, number("How many replicas of the group exist at first.", least=0, most=MOST_PODS, default=1)
    ] = 1
    min_available: Annotated[
        int, number("How many replicas of the group belong to the base gang.", least=0, most=MOST_PODS, default=1)
    ] = 1
    scale_config: Annotated[AutoScaling | None, doc("Scales the group.")] = None
    resource_sharing: Annotated[ResourceSharingList, doc("Claims that the pods of the group share.")] = ()
    topology_constraint: Annotated[TopologyConstraint | None, doc("Packs each replica of the group.")] = None


class HeadlessServiceConfig(Slim, frozen=True):
    publish_not_ready_addresses: Annotated[bool, doc("Whether pods are found before they are ready.", default=True)] = (
        True
    )


class ResourceClaimTemplateConfig(Slim, frozen=True):
    name: Annotated[str, text("The name by which resourceSharing refers to it.", least=1, most=253)]
    template_spec: Annotated[Opaque, doc("The spec of a ResourceClaimTemplate (resource.k8s.io/v1).")]


class PodCliqueSetTemplate(Slim, frozen=True, kw_only=True):
    REMOVED: ClassVar = (
        Removed(
            "schedulingPolicyConfig",
            "object",
            "schedulingPolicyConfig has been removed; use topologyConstraint to pack replicas",
        ),
    )

    cliques: Annotated[tuple[PodCliqueTemplate, ...], listed("The cliques, at least one.", most=256, keys=("name",))]
    clique_startup_type: Annotated[
        str,
        one_of(
            "Whether cliques start in any order, in the order of the list, or as startsAfter says.",
            "CliqueStartupTypeAnyOrder",
            "CliqueStartupTypeInOrder",
            "CliqueStartupTypeExplicit",
            default="CliqueStartupTypeAnyOrder",
        ),
    ] = "CliqueStartupTypeAnyOrder"
    priority_class_name: Annotated[Name, doc("The PriorityClass of the gangs.")] = ""
    headless_service_config: Annotated[HeadlessServiceConfig | None, doc("The service of each replica.")] = None
    cluster_topology_name: Annotated[
        Name, doc("The ClusterTopology that constraints refer to; the default one if not set.")
    ] = ""
    topology_constraint: Annotated[TopologyConstraint | None, doc("Packs each replica of the set.")] = None
    termination_delay: Annotated[
        Duration, doc("How long a gang may be below its minimum before it is terminated; 4h if not set.")
    ] = ""
    resource_claim_templates: Annotated[
        tuple[ResourceClaimTemplateConfig, ...],
        listed("Templates for claims, referred to by resourceSharing.", most=64),
    ] = ()
    resource_sharing: Annotated[ResourceSharingList, doc("Claims that the pods of the set share.")] = ()
    pod_clique_scaling_groups: Annotated[
        tuple[PodCliqueScalingGroupConfig, ...], listed("Cliques that are scaled together.", most=128)
    ] = ()


class UpdateStrategy(Slim, frozen=True):
    type: Annotated[
        str,
        one_of(
            "Replace pods replica by replica, or only as the user deletes them.",
            "RollingRecreate",
            "OnDelete",
            default="RollingRecreate",
        ),
    ] = "RollingRecreate"


class PodCliqueSetSpec(Slim, frozen=True, kw_only=True):
    REMOVED: ClassVar = (
        Removed(
            "replicaSpreadConstraints",
            "array",
            "replicaSpreadConstraints has been removed; replicas of a PodCliqueSet are not spread",
        ),
    )

    replicas: Annotated[
        int, number("How many replicas of the whole set are wanted.", least=0, most=MOST_PODS, default=0)
    ] = 0
    update_strategy: Annotated[UpdateStrategy | None, doc("How pods follow a changed template.")] = None
    template: Annotated[PodCliqueSetTemplate, doc("What one replica consists of.")]


class PodGangSummary(Slim, frozen=True):
    name: Annotated[Name, doc("The PodGang.")]
    phase: Annotated[str, one_of("Its phase.", "Pending", "Starting", "Running")]
    conditions: Annotated[Conditions, doc("Its conditions.")] = ()


class ReplicaUpdateProgress(Slim, frozen=True):
    replica_index: Annotated[Index, doc("The replica of the set.")]
    update_started_at: Annotated[Timestamp | None, doc("When its update began.")] = None
    update_ended_at: Annotated[Timestamp | None, doc("When its update was done.")] = None


class PodCliqueSetUpdateProgress(Slim, frozen=True):
    update_started_at: Annotated[Timestamp, doc("When the update began.")]
    update_ended_at: Annotated[Timestamp | None, doc("When nothing was left to do.")] = None
    updated_pod_cliques_count: Annotated[int, number("PodCliques of the new revision.", least=0, default=0)] = 0
    total_pod_cliques_count: Annotated[int, number("PodCliques that should exist.", least=0, default=0)] = 0
    updated_pod_clique_scaling_groups_count: Annotated[
        int, number("Scaling groups of the new revision.", least=0, default=0)
    ] = 0
    total_pod_clique_scaling_groups_count: Annotated[
        int, number("Scaling groups that should exist.", least=0, default=0)
    ] = 0
    currently_updating: Annotated[
        tuple[ReplicaUpdateProgress, ...], listed("Replicas that are being updated.", most=1024)
    ] = ()


class PodCliqueSetStatus(Slim, frozen=True):
    observed_generation: Annotated[Generation | None, doc("The generation that was reconciled last.")] = None
    conditions: Annotated[Conditions, doc("Observations, among them TopologyLevelsUnavailable.")] = ()
    last_errors: Annotated[LastErrors, doc("Failures of the last reconciliation.")] = ()
    replicas: Annotated[Count, doc("Replicas that exist.")] = 0
    updated_replicas: Annotated[int, number("Replicas of the current revision.", least=0, default=0)] = 0
    available_replicas: Annotated[int, number("Replicas that are available.", least=0, default=0)] = 0
    hpa_pod_selector: Annotated[SelectorText, doc("Selects the pods, for an autoscaler.")] = ""
    pod_gang_statuses: Annotated[tuple[PodGangSummary, ...], listed("The gangs of the set.", most=8192)] = ()
    current_generation_hash: Annotated[Hash, doc("The revision in force.")] = ""
    update_progress: Annotated[PodCliqueSetUpdateProgress | None, doc("How far the update is.")] = None


class PodCliqueSet(Kind, frozen=True):
    """A workload of cliques and scaling groups; each replica is scheduled as a gang."""

    GROUP: ClassVar = "grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "PodCliqueSet"
    PLURAL: ClassVar = "podcliquesets"

    spec: Annotated[PodCliqueSetSpec, doc("What is wanted.")]
    status: Annotated[PodCliqueSetStatus, doc("What is.")] = PodCliqueSetStatus()
