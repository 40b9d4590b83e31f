"""The operator's projection of a pod, and the predicates that decisions use.

Never written back, and never wider than what is read: there is one for each pod of every set.
"""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.kinds.podclique import PodClique
from spinney.api.meta import ObjectMeta, Slim


class Gate(Slim, frozen=True):
    name: str = ""


class PodSpec(Slim, frozen=True):
    node_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()


class PodCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""


class Terminated(Slim, frozen=True):
    exit_code: int = 0


class Running(Slim, frozen=True):
    """That it runs is all there is to know."""


class ContainerState(Slim, frozen=True):
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Slim, frozen=True):
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Slim, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_gone(pod: Pod) -> bool:
    """No longer counted: its index is free."""
    return is_terminating(pod) or is_finished(pod)


def is_scheduled(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def has_scheduled(cliques: Iterable[PodClique], pods: Iterable[Iterable[Pod]]) -> bool:
    """Whether any pod has a node: by the status of its PodClique, or by a pod that is ahead of it."""
    return any(each.status.scheduled_replicas for each in cliques) or any(
        is_scheduled(pod) and not is_finished(pod) for found in pods for pod in found
    )


def is_ready(pod: Pod) -> bool:
    return _holds(pod, "Ready")


def is_disrupted(pod: Pod) -> bool:
    """The pod has the DisruptionTarget condition: it is about to be evicted."""
    return _holds(pod, "DisruptionTarget")


def is_started(pod: Pod) -> bool:
    """All containers have started once; a pod that is still starting is given time."""
    statuses = pod.status.container_statuses
    return bool(statuses) and all(status.started for status in statuses)


def has_failed(pod: Pod) -> bool:
    """A container ended with an error and does not run again yet."""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ends = (status.state.terminated, status.last_state.terminated)
        if status.state.running is None and any(end is not None and end.exit_code != 0 for end in ends):
            return True
    return False


def _holds(pod: Pod, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in pod.status.conditions)
