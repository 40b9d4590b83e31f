"""The PriorityClasses that workloads of the scheduler expect: what a kind is worth that says nothing itself.

From 100 on a gang is not preemptible. Never the global default: pods of other schedulers have nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALUES: Mapping[str, int] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_FOR = {
    "train": "Batch workloads that may be preempted; the class of most kinds",
    "build-preemptible": "Interactive workloads that may be preempted",
    "build": "Interactive workloads, such as notebooks",
    "inference": "Services, such as Deployments",
}


def priority_classes() -> list[dict[str, Any]]:
    """As manifests, the least important first."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": _FOR[name],
        }
        for name, value in VALUES.items()
    ]
