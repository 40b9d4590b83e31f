"""PodCliqueScalingGroup: cliques that are scaled together."""

from __future__ import annotations

from typing import Annotated, ClassVar

from spinney.api.kinds.podclique import LastErrors
from spinney.api.meta import (
    MOST_PODS,
    Conditions,
    Count,
    Generation,
    Hash,
    Index,
    Kind,
    NameList,
    SelectorText,
    Slim,
    Timestamp,
    doc,
    listed,
    number,
)


class PodCliqueScalingGroupSpec(Slim, frozen=True, kw_only=True):
    replicas: Annotated[
        int, number("How many replicas of the group are wanted.", least=0, most=MOST_PODS, default=1)
    ] = 1
    min_available: Annotated[
        int, number("How many replicas of the group belong to the base gang.", least=0, most=MOST_PODS, default=1)
    ] = 1
    clique_names: Annotated[NameList, doc("The cliques of the group, by their names in the set.")]


class ReplicaIndicesSelectedToUpdate(Slim, frozen=True):
    current: Annotated[Index, doc("The replica that is being replaced.")]
    completed: Annotated[tuple[Index, ...], listed("The replicas that have been replaced.", most=16384)] = ()


class PodCliqueScalingGroupUpdateProgress(Slim, frozen=True):
    update_started_at: Annotated[Timestamp, doc("When the update began.")]
    pod_clique_set_generation_hash: Annotated[Hash, doc("The revision of the set that is rolled out.")]
    update_ended_at: Annotated[Timestamp | None, doc("When the last replica was replaced.")] = None
    updated_pod_cliques_count: Annotated[int, number("PodCliques of the new revision.", least=0, default=0)] = 0
    total_pod_cliques_count: Annotated[int, number("PodCliques that should exist.", least=0, default=0)] = 0
    ready_replica_indices_selected_to_update: Annotated[
        ReplicaIndicesSelectedToUpdate | None, doc("Ready replicas that were chosen for replacement.")
    ] = None


class PodCliqueScalingGroupStatus(Slim, frozen=True):
    replicas: Annotated[Count, doc("Replicas that exist.")] = 0
    scheduled_replicas: Annotated[int, number("Replicas whose cliques have nodes.", least=0, default=0)] = 0
    available_replicas: Annotated[int, number("Replicas that are available.", least=0, default=0)] = 0
    updated_replicas: Annotated[int, number("Replicas of the current revision.", least=0, default=0)] = 0
    selector: Annotated[SelectorText, doc("Selects the pods, for an autoscaler.")] = ""
    observed_generation: Annotated[Generation | None, doc("The generation that was reconciled last.")] = None
    last_errors: Annotated[LastErrors, doc("Failures of the last reconciliation.")] = ()
    conditions: Annotated[Conditions, doc("Observations.")] = ()
    current_pod_clique_set_generation_hash: Annotated[Hash, doc("The revision of the set in force.")] = ""
    update_progress: Annotated[PodCliqueScalingGroupUpdateProgress | None, doc("How far the update is.")] = None


class PodCliqueScalingGroup(Kind, frozen=True):
    """Cliques that are scaled together; made by the operator for each group of a set replica."""

    GROUP: ClassVar = "grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "PodCliqueScalingGroup"
    PLURAL: ClassVar = "podcliquescalinggroups"

    spec: Annotated[PodCliqueScalingGroupSpec, doc("What is wanted.")]
    status: Annotated[PodCliqueScalingGroupStatus, doc("What is.")] = PodCliqueScalingGroupStatus()
