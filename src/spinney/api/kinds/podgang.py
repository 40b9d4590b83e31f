"""PodGang: pods that are scheduled together or not at all, as the operator hands them to a scheduler."""

from __future__ import annotations

from typing import Annotated, ClassVar

from spinney.api.meta import Conditions, Kind, LabelKey, Name, Removed, Slim, doc, listed, number, one_of


class NamespacedName(Slim, frozen=True):
    namespace: Annotated[Name, doc("The namespace.")]
    name: Annotated[Name, doc("The name.")]


class PackConstraint(Slim, frozen=True):
    """Levels by their node-label keys."""

    required: Annotated[LabelKey, doc("All pods share one domain of this node label, or none is scheduled.")] = ""
    preferred: Annotated[LabelKey, doc("All pods share one domain of this node label where that is possible.")] = ""


class GangTopologyConstraint(Slim, frozen=True):
    pack_constraint: Annotated[PackConstraint | None, doc("Packs the pods.")] = None


class GangPodGroup(Slim, frozen=True, kw_only=True):
    """The pods of one clique inside the gang."""

    name: Annotated[Name, doc("The PodClique.")]
    pod_references: Annotated[tuple[NamespacedName, ...], listed("The pods, in order of their names.", most=65536)]
    min_replicas: Annotated[int, number("How many of them must be scheduled together.", least=0)]
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Packs the pods of the clique.")] = None


class TopologyConstraintGroupConfig(Slim, frozen=True, kw_only=True):
    """Pod groups that share a constraint of their own: one replica of a scaling group."""

    name: Annotated[Name, doc("The replica of the scaling group.")]
    pod_group_names: Annotated[tuple[Name, ...], listed("Its pod groups.", most=8192)]
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Packs the pods of these groups.")] = None


class PodGangSpec(Slim, frozen=True):
    REMOVED: ClassVar = (
        Removed(
            "spreadConstraints",
            "array",
            "spreadConstraints has been removed; the pods of a gang are packed, not spread",
        ),
    )

    podgroups: Annotated[tuple[GangPodGroup, ...], listed("The members of the gang.", most=8192)]
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Packs the whole gang.")] = None
    topology_constraint_group_configs: Annotated[
        tuple[TopologyConstraintGroupConfig, ...], listed("Constraints between gang and pod group.", most=8192)
    ] = ()
    priority_class_name: Annotated[Name, doc("The PriorityClass of the gang.")] = ""
    reuse_reservation_ref: Annotated[
        NamespacedName | None, doc("A gang whose place this one should take if it can.")
    ] = None


class PodGangStatus(Slim, frozen=True):
    phase: Annotated[str, one_of("How far the gang is.", "Pending", "Starting", "Running")] = "Pending"
    conditions: Annotated[
        Conditions, doc("Observations: Initialized, Scheduled, Ready, Unhealthy, DisruptionTarget.")
    ] = ()
    placement_score: Annotated[
        float | None, number("How close together the pods are; 1 is as close as the topology allows.", least=0, most=1)
    ] = None


class PodGang(Kind, frozen=True):
    """Pods that are scheduled together or not at all."""

    GROUP: ClassVar = "scheduler.grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "PodGang"
    PLURAL: ClassVar = "podgangs"

    spec: Annotated[PodGangSpec, doc("Who belongs to the gang and how close they must be.")]
    status: Annotated[PodGangStatus, doc("How far the gang is.")] = PodGangStatus()
