"""The resources that the pods of a gang request and hold, as shown in the status of its PodGroup.

Finished pods and reservations do not count: a pod holds its request once it has a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kube_apimachinery import quantity
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.kinds.podgroup import ResourcesStatus
from spinney.core.scheduling.gang.pod_shape import requests

Sums = dict[str, int]

_MEASURED_IN_BYTES = ("memory", "ephemeral-storage")


class ResourceUsage(NamedTuple):
    """Base units by resource: of all pods that are not finished, and of those among them that have a node."""

    requested: Sums
    allocated: Sums


def resource_usage(pods: Iterable[Pod]) -> ResourceUsage:
    """The usage of one gang. Consecutive equal pods are computed once."""
    found = ResourceUsage({}, {})
    before: Pod | None = None
    cost: Sums = {}
    for pod in pods:
        if pod.is_over:
            continue
        if before is None or not _cost_alike(before, pod):
            before, cost = pod, requests(pod)
        _add(found.requested, cost)
        if pod.spec.node_name:
            _add(found.allocated, cost)
    return found


def resources_status(found: ResourceUsage, preemptible: bool) -> dict[str, dict[str, str]]:
    """In the form of the PodGroup status; resources that are not requested are omitted."""
    requested, allocated = _texts(found.requested), _texts(found.allocated)
    kept = {} if preemptible else allocated
    return {"requested": requested, "allocated": allocated, "allocatedNonPreemptible": kept}


def status_changes(said: ResourcesStatus, wanted: Mapping[str, Mapping[str, str]]) -> Json:
    """The merge patch to the wanted status; empty if there is no change. Equal amounts may be written differently."""
    there = {
        "requested": said.requested,
        "allocated": said.allocated,
        "allocatedNonPreemptible": said.allocated_non_preemptible,
    }
    changed: Json = {}
    for name, amounts in there.items():
        gone = {resource: None for resource in amounts if resource not in wanted[name]}
        new = {key: text for key, text in wanted[name].items() if not _is_same(amounts.get(key), text)}
        if gone or new:
            changed[name] = {**gone, **new} if wanted[name] else None
    return changed


def _texts(sums: Sums) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in sorted(sums.items()) if amount and name != "pods"}


def _text(resource: str, amount: int) -> str:
    if resource == "cpu":
        return quantity.format_milli(amount)
    in_bytes = resource in _MEASURED_IN_BYTES or resource.startswith("hugepages-")
    return quantity.format_bytes(amount) if in_bytes else str(amount)


def _is_same(said: str | int | None, wanted: str) -> bool:
    return said is not None and quantity.is_valid(said) and quantity.compare(said, wanted) == 0


def _add(sums: Sums, more: Sums) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def _cost_alike(one: Pod, other: Pod) -> bool:
    mine, theirs = one.spec, other.spec
    return (mine.containers, mine.init_containers, mine.overhead, mine.resources) == (
        theirs.containers,
        theirs.init_containers,
        theirs.overhead,
        theirs.resources,
    )
