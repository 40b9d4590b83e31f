"""Gangs whose pods are still being made: seen without reading them, for most looks at a new gang come too early."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroupSpec


def is_gathering(spec: PodGroupSpec, pods: Sequence[Pod]) -> bool:
    """Whether there are certainly too few pods to begin with, none of which has begun.

    False only means that the gang has to be read.
    """
    return len(pods) < _least(spec) and not any(pod.spec.node_name or pod.status.phase == "Succeeded" for pod in pods)


def _least(spec: PodGroupSpec) -> int:
    """No gang of this shape begins with fewer pods; 0: not known."""
    if not spec.sub_groups:
        return spec.min_member or 0
    if spec.min_sub_group is not None or any(each.min_sub_group is not None for each in spec.sub_groups):
        return 0
    return sum([each.min_member or 0 for each in spec.sub_groups])
