"""What a scheduling cycle reads, and whom it tells: the seams between decisions and whoever carries them out.

A running scheduler's snapshot are its caches; a what-if has one in memory. Nothing here waits or writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from spinney.api.builtin.claims import ResourceClaim
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PodDisruptionBudget
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import POD_GROUP_NAME
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.reporting.report import Event, PodReport, Report
from spinney.core.scheduling.volumes import Volumes

Key = tuple[str, str]
"""(namespace, name) of a PodGroup or a pod."""


class Snapshot(Protocol):
    """The objects as they are now."""

    @property
    def budgets(self) -> Iterable[PodDisruptionBudget]: ...

    def podgroup(self, key: Key) -> PodGroup | None: ...

    def pod(self, key: Key) -> Pod | None: ...

    def pods_of(self, group: Key) -> Sequence[Pod]:
        """This scheduler's pods in the PodGroup, sorted by name."""
        ...

    def is_fresh(self, group: Key) -> bool:
        """Whether it shows our last writes to a PodGroup and its pods."""
        ...

    @property
    def volume_lookups(self) -> Volumes: ...

    def resource_claim(self, namespace: str, name: str) -> ResourceClaim | None: ...

    def has_config_map(self, namespace: str, name: str) -> bool: ...

    def unreadable(self, namespace: str, name: str) -> str:
        """What of a gang cannot be decoded, as a sentence; "" if nothing."""
        ...

    def is_limited(self, namespace: str, priority_class: str) -> bool:
        """Whether a quota of the namespace limits pods of the priority class."""
        ...


class Reports(Protocol):
    """Takes reports; they are written when nothing more urgent is to do."""

    def put(self, key: Key, report: Report) -> None:
        """Submit a report on a PodGroup; it replaces those that are not written yet."""
        ...

    def put_ungrouped(self, reports: Iterable[PodReport]) -> None:
        """Submit reports on pods that are in no PodGroup."""
        ...

    def forget(self, key: Key) -> None:
        """Drop pending reports on a PodGroup."""
        ...

    def note(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> None:
        """Submit an event."""
        ...


class DecisionMetrics(Protocol):
    """Counts what a cycle does."""

    def cycle(self, took_s: float, reading_s: float = 0.0) -> None: ...

    def decided(self, outcome: str, took_s: float) -> None: ...


def group_of(pod: Pod) -> Key:
    """The PodGroup that a pod names; the name is empty if it names none."""
    return (pod.metadata.namespace, pod.metadata.annotations.get(POD_GROUP_NAME, ""))
