"""Writes for a gang that the API server did not take, and what is told about them.

A gang that has its places and cannot have them is pending for a reason of its own: what the API server said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spinney.api.kinds.podgroup import PodGroupSpec
from spinney.core.placement.wording import many
from spinney.core.scheduling.reporting import texts
from spinney.core.scheduling.reporting.conditions import UNSCHEDULABLE_ON_NODE_POOL
from spinney.core.scheduling.reporting.record import decode, record
from spinney.core.scheduling.reporting.report import NORMAL, Event, PodReport, Reading, Report, Scene, State
from spinney.core.scheduling.reporting.telling import cut

_FAILED = (State.BINDING_ERROR, State.EVICTION_ERROR)


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """`write`: bind, evict, release or record. `event` tells it; `code` is that of HTTP.

    `pod` and `uid` are those of the pod that it is about; without a uid it is about the PodGroup.
    """

    write: str
    event: Event
    code: int
    pod: tuple[str, str] = ("", "")
    uid: str = ""


def failed(reading: Reading, failures: Sequence[WriteFailure], spec: PodGroupSpec, scene: Scene) -> Report:
    """The story of a gang for which something could not be written."""
    state = State.EVICTION_ERROR if failures[0].write == "evict" else State.BINDING_ERROR
    lines = _lines(failures)
    message = cut("\n".join(lines))
    said = {"nodePool": scene.node_pool, "status": "True", "reason": state.value, "message": message}
    reasons = [{"reason": state.value, "message": message}]
    return Report(
        state,
        message,
        condition=None if reading.gang.running else {"type": UNSCHEDULABLE_ON_NODE_POOL, **said, "reasons": reasons},
        group_event=Event(NORMAL, failures[0].event.reason, message),
        pods=tuple(_pods(reading, failures, state, message, spec)),
        explanation=record(state.value, lines, reason=lines[0]),
    )


def tells_failure(explanation: str) -> bool:
    """Whether a gang says that something could not be written: that stays told while it is tried again."""
    told = decode(explanation)
    return told is not None and told.get("state") in [state.value for state in _FAILED]


def _lines(failures: Sequence[WriteFailure]) -> list[str]:
    first, more = failures[0].event.message, len(failures) - 1
    return [first, f"{many(more, 'other write')} for it failed as well."] if more else [first]


def _pods(
    reading: Reading, failures: Sequence[WriteFailure], state: State, message: str, spec: PodGroupSpec
) -> list[PodReport]:
    """Each pod that was not bound hears its own error, the others that of the gang."""
    own = {each.uid: each.event for each in failures if each.write == "bind"}
    reason = texts.UNSCHEDULABLE if state is State.EVICTION_ERROR else texts.BINDING_ERROR
    marks = spec.mark_unschedulable is not False or state is State.BINDING_ERROR
    told = []
    for pod in [pod for pods in reading.waiting.values() for pod in pods]:
        event = own.get(pod.uid)
        said = (reason, cut(event.message) if event is not None else message)
        told.append(PodReport(pod.uid, pod.key, said if marks else None, event))
    return told
