"""PodGroup: one gang, as the scheduler sees it: a tree of sub-groups with minima and topology constraints (K3)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.meta import (
    Count,
    Hash,
    Kind,
    LabelKey,
    Message,
    Name,
    Removed,
    Resources,
    Slim,
    Timestamp,
    doc,
    listed,
    number,
    one_of,
    text,
)

_MISSPELT = Removed(
    "topologyConstraints",
    "object",
    "topologyConstraints is not a field of a PodGroup; did you mean topologyConstraint?",
)


class PodGroupTopologyConstraint(Slim, frozen=True):
    topology: Annotated[Name, doc("The Topology; empty means no constraint.")] = ""
    required_topology_level: Annotated[
        LabelKey, doc("All pods share one domain of this node label, or none is scheduled.")
    ] = ""
    preferred_topology_level: Annotated[
        LabelKey, doc("All pods share one domain of this node label where that is possible.")
    ] = ""


class SubGroup(Slim, frozen=True):
    """A part of the gang: a leaf has pods, any other has sub-groups."""

    REMOVED: ClassVar = (_MISSPELT,)

    name: Annotated[str, text("Unique in the PodGroup.", least=1, most=253)]
    min_member: Annotated[int | None, number("How many pods of a leaf must be scheduled together.", least=0)] = None
    min_sub_group: Annotated[int | None, number("How many direct sub-groups must be scheduled together.", least=0)] = (
        None
    )
    parent: Annotated[Name | None, doc("The sub-group that this one is a part of; the root if not set.")] = None
    topology_constraint: Annotated[PodGroupTopologyConstraint | None, doc("Packs the pods of this sub-group.")] = None


class PodGroupSpec(Slim, frozen=True):
    REMOVED: ClassVar = (_MISSPELT,)

    min_member: Annotated[
        int | None, number("How many pods must be scheduled together when there are no sub-groups.", least=0)
    ] = None
    min_sub_group: Annotated[int | None, number("How many direct sub-groups must be scheduled together.", least=0)] = (
        None
    )
    queue: Annotated[Name, doc("The queue whose quota is used.")] = ""
    priority_class_name: Annotated[Name, doc("The PriorityClass of the gang.")] = ""
    preemptibility: Annotated[
        str,
        one_of("Whether the gang may be preempted; by priority if not set.", "preemptible", "non-preemptible", ""),
    ] = ""
    parallelism: Annotated[Count, doc("Not used; kept for older writers.")] = 0
    completions: Annotated[Count, doc("Not used; kept for older writers.")] = 0
    backoff_limit: Annotated[Count, doc("Not used; kept for older writers.")] = 0
    mark_unschedulable: Annotated[bool | None, doc("Whether pods are marked unschedulable, too; true if not set.")] = (
        None
    )
    scheduling_backoff: Annotated[
        int | None,
        number("Failed cycles before the gang is marked unschedulable: 1, or -1 for never.", least=-1, most=1),
    ] = None
    topology_constraint: Annotated[PodGroupTopologyConstraint, doc("Packs the whole gang.")] = (
        PodGroupTopologyConstraint()
    )
    sub_groups: Annotated[
        tuple[SubGroup, ...], listed("The parts of the gang, a tree by their parents.", most=8192)
    ] = ()


class PodGroupCondition(Slim, frozen=True):
    """A condition in the older form, all parts optional."""

    type: Annotated[LabelKey, doc("What is observed.")] = ""
    status: Annotated[str, text("Whether it holds.", most=16)] = ""
    transition_id: Annotated[Hash, doc("A counter of changes.")] = field(default="", name="transitionID")
    last_transition_time: Annotated[Timestamp | None, doc("When it changed last.")] = None
    reason: Annotated[str, text("Why, for programs.", most=1024)] = ""
    message: Annotated[Message, doc("Why, for people.")] = ""


class QueueDetails(Slim, frozen=True):
    """The numbers behind a refusal by quota."""

    name: Annotated[Name, doc("The queue.")] = ""
    queue_requested_resources: Annotated[Resources, doc("Requested in the queue.")] = field(default_factory=dict)
    queue_deserved_resources: Annotated[Resources, doc("Deserved by the queue.")] = field(default_factory=dict)
    queue_allocated_resources: Annotated[Resources, doc("Allocated in the queue.")] = field(default_factory=dict)
    queue_allocated_non_preemptible_resources: Annotated[
        Resources, doc("Allocated in the queue by what cannot be preempted.")
    ] = field(default_factory=dict)
    queue_resource_limits: Annotated[Resources, doc("The limits of the queue.")] = field(default_factory=dict)
    pod_group_requested_resources: Annotated[Resources, doc("Requested by the gang.")] = field(default_factory=dict)
    pod_group_requested_non_preemptible_resources: Annotated[
        Resources, doc("Requested by the gang and not preemptible.")
    ] = field(default_factory=dict)


class ExplanationDetails(Slim, frozen=True):
    queue_details: Annotated[QueueDetails | None, doc("The numbers of the queue.")] = None


class Explanation(Slim, frozen=True):
    reason: Annotated[str, text("Why, for programs.", most=1024)] = ""
    message: Annotated[Message, doc("Why, for people.")] = ""
    details: Annotated[ExplanationDetails | None, doc("The numbers behind it.")] = None


class SchedulingCondition(Slim, frozen=True):
    """Why the gang is not scheduled on a node pool."""

    type: Annotated[LabelKey, doc("What is observed.")] = ""
    node_pool: Annotated[Name, doc("The node pool.")] = ""
    reason: Annotated[str, text("Why, for programs.", most=1024)] = ""
    message: Annotated[Message, doc("Why, for people.")] = ""
    reasons: Annotated[tuple[Explanation, ...], listed("All reasons.", most=256)] = ()
    last_transition_time: Annotated[Timestamp | None, doc("When it changed last.")] = None
    status: Annotated[str, text("Whether it holds.", most=16)] = ""
    transition_id: Annotated[Hash, doc("A counter of changes; the newest condition is the last.")] = field(
        default="", name="transitionID"
    )


class ResourcesStatus(Slim, frozen=True):
    allocated: Annotated[Resources, doc("Allocated to pods of the gang.")] = field(default_factory=dict)
    allocated_non_preemptible: Annotated[Resources, doc("Allocated and not preemptible.")] = field(default_factory=dict)
    requested: Annotated[Resources, doc("Requested by pods of the gang.")] = field(default_factory=dict)


class PodGroupStatus(Slim, frozen=True):
    phase: Annotated[str, text("How far the gang is.", most=64)] = ""
    conditions: Annotated[tuple[PodGroupCondition, ...], listed("Observations.", most=64)] = ()
    running: Annotated[Count, doc("Pods that run.")] = 0
    succeeded: Annotated[Count, doc("Pods that succeeded.")] = 0
    failed: Annotated[Count, doc("Pods that failed.")] = 0
    pending: Annotated[Count, doc("Pods that are pending.")] = 0
    scheduling_conditions: Annotated[
        tuple[SchedulingCondition, ...], listed("Why the gang is not scheduled, per node pool.", most=64)
    ] = ()
    resources_status: Annotated[ResourcesStatus, doc("What the gang uses.")] = ResourcesStatus()


class PodGroup(Kind, frozen=True):
    """One gang, as the scheduler sees it."""

    GROUP: ClassVar = "scheduling.run.ai"
    VERSION: ClassVar = "v2alpha2"
    KIND: ClassVar = "PodGroup"
    PLURAL: ClassVar = "podgroups"

    spec: Annotated[PodGroupSpec, doc("Minima, constraints, queue and priority.")] = PodGroupSpec()
    status: Annotated[PodGroupStatus, doc("How far the gang is, and why not further.")] = PodGroupStatus()
