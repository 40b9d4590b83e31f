"""What the pods of a gang request and hold, and the sums by queue, as shown in the status of PodGroups and queues.

Finished pods and reservations do not count: a pod holds its request once it has a node. Usage of a queue that does not
exist is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kube_apimachinery import quantity
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.kinds.podgroup import ResourcesStatus
from spinney.api.kinds.queue import Queue, QueueStatus
from spinney.core.scheduling.gang.pod_shape import requests
from spinney.core.scheduling.queues.tree import NOTHING, QueueFigures, Shares, ShareUnits

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


def podgroup_status_changes(current: ResourcesStatus, wanted: Mapping[str, Mapping[str, str]]) -> Json:
    """The merge patch to the wanted status; empty if there is no change. Equal amounts may be written differently."""
    there = {
        "requested": current.requested,
        "allocated": current.allocated,
        "allocatedNonPreemptible": current.allocated_non_preemptible,
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


def _is_same(current: str | int | None, wanted: str) -> bool:
    return current is not None and quantity.is_valid(current) and quantity.compare(current, wanted) == 0


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


_ZERO = "0"


class Tally(NamedTuple):
    """All pods that are not finished; of them those with a node; of these the non-preemptible ones."""

    requested: Shares = NOTHING
    allocated: Shares = NOTHING
    non_preemptible: Shares = NOTHING

    def plus(self, other: Tally) -> Tally:
        return self._with(other, 1)

    def minus(self, other: Tally) -> Tally:
        return self._with(other, -1)

    def _with(self, other: Tally, times: int) -> Tally:
        return Tally(*[mine.plus(theirs, times) for mine, theirs in zip(self, other, strict=True)])


EMPTY = Tally()


def tally(found: ResourceUsage, preemptible: bool) -> Tally:
    """The tally of the pods of one gang."""
    requested, allocated = _shares(found.requested), _shares(found.allocated)
    return Tally(requested, allocated, NOTHING if preemptible else allocated)


def statuses(queues: Iterable[Queue], own: Mapping[str, Tally], figures: Mapping[str, QueueFigures]) -> dict[str, Json]:
    """The wanted status of each queue: its own gangs and those of its descendants.

    `figures`: what upstream's CRD has no fields for; left out for queues that have none.
    """
    known = {queue.metadata.name: queue for queue in queues}
    total: dict[str, Tally] = dict.fromkeys(known, EMPTY)
    children: dict[str, list[str]] = {name: [] for name in known}
    for name, queue in sorted(known.items()):
        for each in _upwards(name, known):
            total[each] = total[each].plus(own.get(name, EMPTY))
        if queue.spec.parent_queue in children:
            children[queue.spec.parent_queue].append(name)
    return {name: _status(total[name], children[name]) | _extensions(figures.get(name)) for name in known}


def queue_status_changes(current: QueueStatus, wanted: Json) -> Json:
    """The fields to write. A missing amount equals zero."""
    there = {
        "requested": current.requested,
        "allocated": current.allocated,
        "allocatedNonPreemptible": current.allocated_non_preemptible,
        "fairShare": current.fair_share,
        "asked": current.asked,
        "borrowed": current.borrowed,
    }
    changed: Json = {
        name: wanted[name]
        for name, amounts in there.items()
        if name in wanted
        and any(str(amounts.get(resource, _ZERO)) != amount for resource, amount in wanted[name].items())
    }
    if list(current.child_queues) != wanted["childQueues"]:
        changed["childQueues"] = wanted["childQueues"]
    return changed


def _status(total: Tally, children: list[str]) -> Json:
    return {
        "requested": total.requested.resources(),
        "allocated": total.allocated.resources(),
        "allocatedNonPreemptible": total.non_preemptible.resources(),
        "childQueues": children,
    }


EXTENSIONS = ("fairShare", "asked", "borrowed")
"""The fields of a status that our CRD adds to upstream's."""


def _extensions(found: QueueFigures | None) -> Json:
    if found is None:
        return {}
    amounts = (found.fair_share, found.asked, found.borrowed)
    return {name: amount.resources() for name, amount in zip(EXTENSIONS, amounts, strict=True)}


def _upwards(name: str, known: Mapping[str, Queue]) -> Iterator[str]:
    """The queue and its ancestors, each once, even if the parents form a cycle."""
    seen: set[str] = set()
    while name in known and name not in seen:
        seen.add(name)
        yield name
        name = known[name].spec.parent_queue


def _shares(sums: Mapping[str, int]) -> Shares:
    return ShareUnits(tuple(sums)).shares_of(tuple(sums.values()))
