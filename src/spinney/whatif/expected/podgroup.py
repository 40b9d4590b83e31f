"""The PodGroup that the pod-grouper would put a planned pod into: the same rules with the same lookups."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spinney.api.builtin.pod import Pod as ScheduledPod
from spinney.api.changes import Json
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import chain_of, owner_of
from spinney.core.grouping.pod_grouping import Answer, group
from spinney.core.grouping.pods import Gate, Pod, PodSpec, PodStatus
from spinney.core.grouping.settings import GrouperSettings


def group_of(
    pod: Json, owners: Sequence[Json], gang: Json | None, lookups: Lookups, settings: GrouperSettings
) -> Answer:
    """`owners` from the nearest to the top one; `gang`: the PodGang that the pod names."""
    typed = msgspec.convert(pod, Pod, strict=False)
    above = tuple(map(owner_of, owners))
    return group(chain_of(typed, above, owner_of(gang) if gang is not None else None), lookups, settings)


def as_grouped(pod: ScheduledPod) -> Pod:
    """Convert a pod of the scheduler's cache to the pod-grouper's type."""
    spec = pod.spec
    gates = tuple(Gate(gate.name) for gate in spec.scheduling_gates)
    seen = PodSpec(spec.scheduler_name, spec.node_name, spec.priority_class_name, gates)
    return Pod(pod.metadata, seen, PodStatus(pod.status.phase))
