"""What both versions of a DynamoGraphDeployment share."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from spinney.api.domains import DOMAINS
from spinney.api.meta import (
    Conditions,
    Count,
    Generation,
    Hash,
    Name,
    NameList,
    Slim,
    Timestamp,
    doc,
    number,
    one_of,
    text,
)

COMPONENT_NAME_PATTERN = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"
DOMAIN_PATTERN = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
COMPONENT_LIMIT = 25
BACKENDS = ("sglang", "vllm", "trtllm")

Domain = Annotated[str, one_of(None, *DOMAINS), text(most=63, pattern=DOMAIN_PATTERN)]


class ComponentTopologyConstraint(Slim, frozen=True):
    pack_domain: Annotated[Domain, doc("Each replica of the component is placed inside one domain of this level.")]


class Multinode(Slim, frozen=True):
    node_count: Annotated[int, number("How many nodes one replica spans.", least=2, default=2)] = 2


class ModelReference(Slim, frozen=True):
    name: Annotated[str, text("The model.", least=1, most=512)]
    revision: Annotated[str, text("Its revision.", most=253)] = ""


class RestartStrategy(Slim, frozen=True):
    type: Annotated[
        str, one_of("One component after the other, or all at once.", "Sequential", "Parallel", default="Sequential")
    ] = "Sequential"
    order: Annotated[NameList, doc("The order of a sequential restart.")] = ()


class Restart(Slim, frozen=True):
    id: Annotated[str, text("A new value asks for a restart.", least=1, most=253)]
    strategy: Annotated[RestartStrategy | None, doc("How to restart.")] = None


class RestartStatus(Slim, frozen=True):
    observed_id: Annotated[str, text("The restart that is carried out.", most=253)] = field(
        default="", name="observedID"
    )
    phase: Annotated[str, text("How far it is.", most=64)] = ""
    in_progress: Annotated[NameList, doc("The components that are being restarted.")] = ()


class CheckpointStatus(Slim, frozen=True):
    checkpoint_name: Annotated[Name, doc("The checkpoint object.")] = ""
    checkpoint_id: Annotated[Hash, doc("The artifact of the checkpoint.")] = field(default="", name="checkpointID")
    identity_hash: Annotated[Hash, doc("The identity of the checkpoint.")] = ""
    ready: Annotated[bool, doc("Whether pods can be restored from it.")] = False


class ReplicaStatus(Slim, frozen=True, kw_only=True):
    """The numbers of one component, in its own replicas."""

    component_kind: Annotated[
        str,
        one_of(
            "The kind of the object behind it.", "PodClique", "PodCliqueScalingGroup", "Deployment", "LeaderWorkerSet"
        ),
    ]
    component_names: Annotated[NameList, doc("The objects behind it; two during an update.")] = ()
    runtime_namespace: Annotated[Name, doc("The namespace in which the runtime finds it.")] = ""
    replicas: Annotated[Count, doc("Replicas that exist.")]
    updated_replicas: Annotated[Count, doc("Replicas of the current revision.")]
    ready_replicas: Annotated[int | None, number("Replicas that are ready.", least=0)] = None
    available_replicas: Annotated[int | None, number("Replicas that are available.", least=0)] = None
    scheduled_replicas: Annotated[int | None, number("Replicas that have nodes.", least=0)] = None


class Placement(Slim, frozen=True):
    score: Annotated[float | None, number("How close together the pods are, 0 to 1.", least=0, most=1)] = None
    state: Annotated[
        str, one_of("How far the score can be trusted.", "Reported", "Partial", "Unsupported", "Unknown", "")
    ] = ""


class RollingUpdateTimes(Slim, frozen=True):
    phase: Annotated[str, one_of("How far the update is.", "Pending", "InProgress", "Completed", "Failed", "")] = ""
    start_time: Annotated[Timestamp | None, doc("When it began.")] = None
    end_time: Annotated[Timestamp | None, doc("When it was done.")] = None


ObservedGeneration = Annotated[Generation, doc("The generation that was reconciled last.")]
State = Annotated[
    str,
    one_of("The state in one word.", "initializing", "pending", "successful", "failed", default="initializing"),
]
ConditionList = Annotated[Conditions, doc("Observations: Ready, TopologyConstraintsEnforced, TopologyLevelsAvailable.")]
