"""What the pods of queues ask for and hold, as the status of each queue shows it.

Never invents a queue: what is asked of one that is not there is nobody's.
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
    """All pods that are not over; of them those with a node; of these the ones that nobody may preempt."""

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
    """Of the pods of one gang."""
    requested, allocated = _shares(found.requested), _shares(found.allocated)
    return Tally(requested, allocated, NOTHING if preemptible else allocated)


def statuses(queues: Iterable[Queue], own: Mapping[str, Tally]) -> dict[str, Json]:
    """What the status of each queue should say: of its own gangs and of those below it."""
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
    """The fields that are to be written. What is not there says nothing is asked for or held."""
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
    """The queue and those above it, each once, whatever the parents say."""
    seen: set[str] = set()
    while name in known and name not in seen:
        seen.add(name)
        yield name
        name = known[name].spec.parent_queue


def _shares(sums: Mapping[str, int]) -> Shares:
    return ShareUnits(tuple(sums)).shares_of(tuple(sums.values()))
