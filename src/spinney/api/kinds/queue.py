"""Queue: a share of the cluster; queues form a tree, gangs are in its leaves."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.meta import (
    Duration,
    Kind,
    LabelKey,
    Message,
    Name,
    Resources,
    Slim,
    Timestamp,
    doc,
    listed,
    number,
    text,
)


class QueueResource(Slim, frozen=True):
    """A share of one resource; -1 is unlimited."""

    quota: Annotated[float, number("What the queue deserves.", least=-1)] = 0
    over_quota_weight: Annotated[float, number("Its weight when what is left over is divided.", least=0)] = 0
    limit: Annotated[float, number("What the queue may never exceed.", least=-1)] = 0


class QueueResources(Slim, frozen=True):
    gpu: Annotated[QueueResource, doc("In devices.")] = QueueResource()
    cpu: Annotated[QueueResource, doc("In thousandths of a core.")] = QueueResource()
    memory: Annotated[QueueResource, doc("In megabytes.")] = QueueResource()


class QueueSpec(Slim, frozen=True):
    display_name: Annotated[str, text("A name for people.", most=253)] = ""
    parent_queue: Annotated[Name, doc("The queue whose share this one divides.")] = ""
    resources: Annotated[QueueResources | None, doc("The shares.")] = None
    priority: Annotated[int | None, number("Queues of higher priority are served first; 100 if not set.")] = None
    preempt_min_runtime: Annotated[Duration, doc("How long a gang runs before it can be preempted.")] = ""
    reclaim_min_runtime: Annotated[Duration, doc("How long a gang runs before its resources can be reclaimed.")] = ""


class QueueCondition(Slim, frozen=True):
    type: Annotated[LabelKey, doc("What is observed.")] = ""
    status: Annotated[str, text("Whether it holds.", most=16)] = ""
    last_transition_time: Annotated[Timestamp | None, doc("When it changed last.")] = None
    reason: Annotated[str, text("Why, for programs.", most=1024)] = ""
    message: Annotated[Message, doc("Why, for people.")] = ""


class QueueStatus(Slim, frozen=True):
    conditions: Annotated[tuple[QueueCondition, ...], listed("Observations.", most=32)] = ()
    child_queues: Annotated[tuple[Name, ...], listed("Queues that divide this share.", most=4096)] = ()
    allocated: Annotated[Resources, doc("Allocated here and below.")] = field(default_factory=dict)
    allocated_non_preemptible: Annotated[Resources, doc("Allocated here and below and not preemptible.")] = field(
        default_factory=dict
    )
    requested: Annotated[Resources, doc("Requested here and below.")] = field(default_factory=dict)
    fair_share: Annotated[Resources, doc("What the queue should have now.")] = field(default_factory=dict)
    asked: Annotated[Resources, doc("Held here and below, and needed by the gangs that wait.")] = field(
        default_factory=dict
    )
    borrowed: Annotated[Resources, doc("Held here and below beyond the quota.")] = field(default_factory=dict)


class Queue(Kind, frozen=True):
    """A share of the cluster."""

    GROUP: ClassVar = "scheduling.run.ai"
    VERSION: ClassVar = "v2"
    KIND: ClassVar = "Queue"
    PLURAL: ClassVar = "queues"
    NAMESPACED: ClassVar = False

    spec: Annotated[QueueSpec, doc("The share.")] = QueueSpec()
    status: Annotated[QueueStatus, doc("What of it is used.")] = QueueStatus()
