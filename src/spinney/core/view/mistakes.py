"""Workloads whose mistake keeps them from becoming gangs: what pods without a PodGroup were told by the pod-grouper.

A misspelt level or an unknown topology, for example. Named after whoever made the pods, for there is no gang to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.labels import KAI_QUEUE, POD_GROUP_NAME
from spinney.core.grouping.user_feedback import SCHEDULED, WARNING
from spinney.core.scheduling.reporting.report import State
from spinney.core.view.explanation import GangExplanation, Member
from spinney.core.view.gang_list import GangRow

Key = tuple[str, str]


def is_mistaken(pod: Pod) -> bool:
    """Whether a mistake of its workload keeps the pod out of any gang."""
    ends = pod.metadata.deletion_timestamp is not None or pod.is_over
    grouped = POD_GROUP_NAME in pod.metadata.annotations
    scheduled = pod.condition(SCHEDULED)
    return scheduled is not None and scheduled.reason == WARNING and not (grouped or pod.spec.node_name or ends)


def maker(pod: Pod) -> tuple[str, str]:
    """Kind and name of whoever made the pod; of the pod itself if nobody did."""
    owner = pod.metadata.controller
    return (owner.kind, owner.name) if owner is not None else ("Pod", pod.metadata.name)


def workload_of_pod(pod: Pod) -> Key:
    return pod.metadata.namespace, maker(pod)[1]


def by_workload(pods: Iterable[Pod]) -> dict[Key, list[Pod]]:
    """Pods that are kept out, by namespace and name of whoever made them, each in the order of their names."""
    found: dict[Key, list[Pod]] = {}
    for pod in sorted(filter(is_mistaken, pods), key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
        found.setdefault(workload_of_pod(pod), []).append(pod)
    return found


def explain_mistake(pods: Sequence[Pod]) -> GangExplanation:
    """The explanation of a workload that is no gang; `pods`: those of it that are kept out."""
    messages = [scheduled.message for pod in pods if (scheduled := pod.condition(SCHEDULED)) is not None]
    namespace, name = workload_of_pod(pods[0])
    return GangExplanation(
        name=f"{namespace}/{name}",
        state=State.MISTAKE.value,
        waits=True,
        lines=tuple(dict.fromkeys(messages)),
        queue=pods[0].metadata.labels.get(KAI_QUEUE, ""),
        members=tuple(Member(pod.metadata.name) for pod in pods),
    )


def mistake_row(pods: Sequence[Pod]) -> GangRow:
    """The same as a row of the list of gangs."""
    explained = explain_mistake(pods)
    namespace, name = workload_of_pod(pods[0])
    made = min((pod.metadata.creation_timestamp or "" for pod in pods), default="")
    return GangRow(
        namespace=namespace,
        name=name,
        state=explained.state,
        waits=True,
        reason=" ".join(explained.lines),
        queue=explained.queue,
        topology="",
        workload=" ".join(maker(pods[0])),
        bound=0,
        pods=len(pods),
        score=None,
        level="",
        domain=(),
        created=made,
        waits_since=made,
    )
