"""The usage of queues as shown in their status.

Usage of a queue that does not exist is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from spinney.api.changes import Json
from spinney.api.kinds.queue import Queue, QueueStatus
from spinney.core.scheduling.gang.resource_status import ResourceUsage
from spinney.core.scheduling.queues.units import NOTHING, Shares, ShareUnits

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


def statuses(queues: Iterable[Queue], own: Mapping[str, Tally]) -> dict[str, Json]:
    """The wanted status of each queue: its own gangs and those of its descendants."""
    known = {queue.metadata.name: queue for queue in queues}
    total: dict[str, Tally] = dict.fromkeys(known, EMPTY)
    children: dict[str, list[str]] = {name: [] for name in known}
    for name, queue in sorted(known.items()):
        for each in _upwards(name, known):
            total[each] = total[each].plus(own.get(name, EMPTY))
        if queue.spec.parent_queue in children:
            children[queue.spec.parent_queue].append(name)
    return {name: _status(total[name], children[name]) for name in known}


def status_changes(said: QueueStatus, wanted: Json) -> Json:
    """The fields to write. A missing amount equals zero."""
    there = {
        "requested": said.requested,
        "allocated": said.allocated,
        "allocatedNonPreemptible": said.allocated_non_preemptible,
    }
    changed: Json = {
        name: wanted[name]
        for name, amounts in there.items()
        if any(str(amounts.get(resource, _ZERO)) != amount for resource, amount in wanted[name].items())
    }
    if list(said.child_queues) != wanted["childQueues"]:
        changed["childQueues"] = wanted["childQueues"]
    return changed


def _status(total: Tally, children: list[str]) -> Json:
    return {
        "requested": total.requested.resources(),
        "allocated": total.allocated.resources(),
        "allocatedNonPreemptible": total.non_preemptible.resources(),
        "childQueues": children,
    }


def _upwards(name: str, known: Mapping[str, Queue]) -> Iterator[str]:
    """The queue and its ancestors, each once, even if the parents form a cycle."""
    seen: set[str] = set()
    while name in known and name not in seen:
        seen.add(name)
        yield name
        name = known[name].spec.parent_queue


def _shares(sums: Mapping[str, int]) -> Shares:
    return ShareUnits(tuple(sums)).shares_of(tuple(sums.values()))
