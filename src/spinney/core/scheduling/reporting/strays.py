"""What pods are told that no PodGroup speaks for."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.reporting.report import WARNING, Event, PodReport
from spinney.core.scheduling.reporting.texts import UNSCHEDULABLE


def stray_reports(group: tuple[str, str], pods: Iterable[Pod]) -> list[PodReport]:
    """`group` is what they name: a PodGroup that is not there, or none at all."""
    why = f"PodGroup {'/'.join(group)} does not exist" if group[1] else "the pod is in no PodGroup yet"
    event = Event(WARNING, UNSCHEDULABLE, why)
    return [
        PodReport(pod.metadata.uid, (pod.metadata.namespace, pod.metadata.name), (UNSCHEDULABLE, why), event)
        for pod in pods
    ]
