"""Builds the report of a gang from its outcome: a decision, failed writes, or a missing PodGroup.

The first line is in KAI's wording, the others are our own: why, and what would fit. The same lines go everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroupSpec
from spinney.api.placement.result import Decision, Explanation
from spinney.core.placement.explain.reasons import enumerated, many, sentence
from spinney.core.scheduling.reporting import messages
from spinney.core.scheduling.reporting.messages import UNSCHEDULABLE, beyond_minimum, fit_lines, known
from spinney.core.scheduling.reporting.report import (
    NORMAL,
    UNSCHEDULABLE_ON_NODE_POOL,
    WARNING,
    ClusterSummary,
    Event,
    GangView,
    Member,
    PodReport,
    QueueRefusal,
    Report,
    State,
    decode,
    record,
)

LONGEST_MESSAGE = 1024
"""The maximum length of an event message."""

_FIT = "PodSchedulingErrors"
_MISTAKE = "InvalidPodGroup"
_BACKING_OFF = 1
_WOULD_FIT = "; it would fit "


def report(
    reading: GangView,
    verdict: Decision | QueueRefusal | None,
    spec: PodGroupSpec,
    summary: ClusterSummary,
    denied: str = "",
    hindrance: str = "",
) -> Report:
    """`verdict` None: nothing was decided, because the gang has a mistake or is not complete.

    `denied`: why the queue admits no pods beyond the minimum. `hindrance`: why it takes nothing from other queues.
    """
    if reading.mistake:
        body = record(State.MISTAKE.value, [reading.mistake], reason=reading.mistake)
        reasons = _reasons(_MISTAKE, reading.mistake)
        return _refused(reading, State.MISTAKE, [reading.mistake], reasons, body, spec, summary)
    if verdict is None:
        return _not_ready(reading, spec)
    if not isinstance(verdict, Decision):
        return _over_queue(reading, verdict, spec, summary)
    if verdict.outcome == "placed":
        return _placed(reading, verdict, spec, denied)
    return _unplaced(reading, verdict, spec, summary, hindrance)


def awaiting_volumes(reading: GangView) -> Report:
    """Its nodes are chosen and reserved; no pod is bound before the volumes of all are ready."""
    line = "its place is chosen, and it waits for its volumes to be made there"
    pods = [
        PodReport(pod.uid, pod.key, (messages.UNSCHEDULABLE, line)) for pods in reading.waiting.values() for pod in pods
    ]
    body = record(State.PIPELINED.value, [line], reason=line)
    return Report(State.PIPELINED, line, pods=tuple(pods), explanation=body)


def _not_ready(reading: GangView, spec: PodGroupSpec) -> Report:
    """Without a condition on the PodGroup: an incomplete gang is not unschedulable."""
    why = cut(reading.not_ready)
    body = record(State.NOT_READY.value, [why], reason=why)
    marked = (messages.UNSCHEDULABLE, why) if _marks(spec) else None
    pods = [PodReport(pod.uid, pod.key, marked) for pods in reading.waiting.values() for pod in pods]
    event = Event(NORMAL, messages.NOT_READY, why)
    return Report(State.NOT_READY, why, group_event=event, pods=(*pods, *_held(reading, spec)), explanation=body)


def _held(reading: GangView, spec: PodGroupSpec) -> Iterator[PodReport]:
    """Pods that take no part in the decision have their own reason."""
    for pod in reading.held:
        why = cut(pod.reason)
        event = Event(WARNING, messages.UNSCHEDULABLE, why)
        yield PodReport(pod.uid, pod.key, (messages.UNSCHEDULABLE, why) if _marks(spec) else None, event)


def _marks(spec: PodGroupSpec) -> bool:
    return spec.mark_unschedulable is not False


def _over_queue(reading: GangView, refusal: QueueRefusal, spec: PodGroupSpec, summary: ClusterSummary) -> Report:
    reasons = _reasons(refusal.reason, refusal.message, _plain(refusal.details))
    body = record(State.OVER_QUEUE.value, [refusal.message], reason=refusal.message, queueReason=refusal.reason)
    return _refused(reading, State.OVER_QUEUE, [refusal.message], reasons, body, spec, summary)


def _unplaced(
    reading: GangView, decision: Decision, spec: PodGroupSpec, summary: ClusterSummary, hindrance: str
) -> Report:
    first = fit_lines(reading, decision, spec, summary)
    found = decision.explanation
    lines = _in_order(first, found) + ([f"{hindrance}."] if hindrance else [])
    state = _state(reading, decision)
    reasons = _reasons(_MISTAKE if state is State.MISTAKE else _FIT, "\n".join(first))
    return _refused(reading, state, lines, reasons, record(state.value, lines, found), spec, summary)


def _in_order(first: list[str], found: Explanation | None) -> list[str]:
    """Where not one pod would fit on empty nodes, that comes before what KAI would say of the room."""
    if found is None:
        return first
    ours = _ours(found, "\n".join(first))
    hopeless = found.never_fits and not any(one.holds for one in found.best)
    return ours + first if hopeless else first + ours


def _state(reading: GangView, decision: Decision) -> State:
    match decision.outcome:
        case "invalid":
            return State.MISTAKE
        case "exhausted":
            return State.EXHAUSTED
        case _:
            found = decision.explanation
            untied = reading.gang.tied_to is not None and found is not None and not found.best
            return State.TIED if untied else State.UNSCHEDULABLE


def _refused(
    reading: GangView,
    state: State,
    lines: Sequence[str],
    reasons: list[Json],
    body: Json,
    spec: PodGroupSpec,
    summary: ClusterSummary,
) -> Report:
    prefix = f"Node-Pool '{summary.node_pool}': " if spec.scheduling_backoff == _BACKING_OFF else ""
    message = cut(prefix + "\n".join(lines))
    fields = {"nodePool": summary.node_pool, "status": "True", "reason": messages.UNSCHEDULABLE, "message": message}
    event = Event(WARNING, messages.UNSCHEDULABLE, message)
    marked = (messages.UNSCHEDULABLE, message) if _marks(spec) else None
    pods = [PodReport(pod.uid, pod.key, marked, event) for pods in reading.waiting.values() for pod in pods]
    return Report(
        state,
        message,
        # A group that has pods allocated keeps the condition from before.
        condition=None if reading.gang.running else {"type": UNSCHEDULABLE_ON_NODE_POOL, **fields, "reasons": reasons},
        group_event=Event(NORMAL, messages.UNSCHEDULABLE, message),
        pods=(*pods, *_held(reading, spec)),
        explanation=body,
    )


def _placed(reading: GangView, decision: Decision, spec: PodGroupSpec, denied: str) -> Report:
    if decision.waits:
        return _pipelined(reading, decision)
    left, held = list(_left(reading, decision)), tuple(_held(reading, spec))
    if not left and not held:
        return Report(State.SCHEDULED, "", clears=True, score=decision.score)
    late = len(left) + len(held)
    beyond = f"{many(late, 'pod')} beyond the minimum {'waits' if late == 1 else 'wait'}"
    why = denied or (reading.held[0].reason if not left else "")
    line = cut(f"{beyond}: {why}") if why else f"{beyond} for room beside the others"
    return Report(
        State.PARTLY,
        line,
        clears=True,
        pods=(*(_beyond(pod, _marks(spec), denied) for pod in left), *held),
        explanation=record(State.PARTLY.value, [line], reason=line),
        score=decision.score,
    )


def _beyond(pod: Member, marks: bool, denied: str) -> PodReport:
    message = cut(beyond_minimum(pod.key, denied) if denied else beyond_minimum(pod.key))
    event = Event(WARNING, messages.UNSCHEDULABLE, message)
    return PodReport(pod.uid, pod.key, (messages.UNSCHEDULABLE, message) if marks else None, event)


def _pipelined(reading: GangView, decision: Decision) -> Report:
    """Nothing is bound before the victims are gone; each pod gets an event with its node."""
    places = {(one.pods, one.index): one.node for one in decision.placements}
    pods = [
        PodReport(pod.uid, pod.key, event=messages.pipelined(pod.key, places[path, index]))
        for path, waiting in reading.waiting.items()
        for index, pod in enumerate(waiting)
        if (path, index) in places
    ]
    nodes = many(len(set(places.values())), "node")
    line = f"its place on {nodes} is chosen, and it waits for {_victims(decision)} to leave"
    return Report(
        State.PIPELINED,
        line,
        pods=tuple(pods),
        explanation=record(State.PIPELINED.value, [line], reason=line, nodes=sorted(set(places.values()))[:16]),
    )


def _victims(decision: Decision) -> str:
    going = [*(one.gang for one in decision.victims), *(one.gang for one in decision.moves)]
    return f"{many(len(going), 'pod')} of {enumerated(sorted(set(going)))}" if going else "pods that are ending there"


def _left(reading: GangView, decision: Decision) -> Iterator[Member]:
    """Waiting pods without a placement."""
    places = {(one.pods, one.index) for one in decision.placements}
    for path, pods in reading.waiting.items():
        for index, pod in enumerate(pods):
            if (path, index) not in places:
                yield pod


def _ours(found: Explanation, first: str) -> list[str]:
    """The reason, unless the first line already contains it, and what would fit."""
    why, _, ways = known(sentence(found)).partition(_WOULD_FIT)
    lines = [] if known(found.reason) in first else [f"The{why[3:]}." if why.startswith("the ") else f"{why}."]
    return [*lines, f"It would fit {ways}."] if ways else lines


def _reasons(reason: str, message: str, details: Json | None = None) -> list[Json]:
    fields: Json = {"reason": reason, "message": message}
    return [{**fields, "details": {"queueDetails": details}} if details else fields]


def _plain(details: Any) -> Json | None:
    if details is None:
        return None
    plain: Json = msgspec.json.decode(msgspec.json.encode(details))
    inner: Json = plain.get("queueDetails", plain)
    return inner


def cut(text: str) -> str:
    """Truncated to the maximum length of a message."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


_FAILED = (State.BINDING_ERROR, State.EVICTION_ERROR)


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """`write`: bind, evict, release or record. `event`: describes it; `code`: the HTTP status code.

    `pod` and `uid`: the pod that it is about; without a uid it is about the PodGroup.
    """

    write: str
    event: Event
    code: int
    pod: tuple[str, str] = ("", "")
    uid: str = ""


def failed(reading: GangView, failures: Sequence[WriteFailure], spec: PodGroupSpec, summary: ClusterSummary) -> Report:
    """The report of a gang for which a write was refused."""
    state = State.EVICTION_ERROR if failures[0].write == "evict" else State.BINDING_ERROR
    lines = _lines(failures)
    message = cut("\n".join(lines))
    fields = {"nodePool": summary.node_pool, "status": "True", "reason": state.value, "message": message}
    reasons = [{"reason": state.value, "message": message}]
    return Report(
        state,
        message,
        condition=None if reading.gang.running else {"type": UNSCHEDULABLE_ON_NODE_POOL, **fields, "reasons": reasons},
        group_event=Event(NORMAL, failures[0].event.reason, message),
        pods=tuple(_pods(reading, failures, state, message, spec)),
        explanation=record(state.value, lines, reason=lines[0]),
    )


def is_write_failure(explanation: str) -> bool:
    """Whether the explanation reports a refused write: it stays while the write is retried."""
    body = decode(explanation)
    return body is not None and body.get("state") in [state.value for state in _FAILED]


def _lines(failures: Sequence[WriteFailure]) -> list[str]:
    first, more = failures[0].event.message, len(failures) - 1
    return [first, f"{many(more, 'other write')} for it failed as well."] if more else [first]


def _pods(
    reading: GangView, failures: Sequence[WriteFailure], state: State, message: str, spec: PodGroupSpec
) -> list[PodReport]:
    """A pod that was not bound gets its own error, the others that of the gang."""
    own = {each.uid: each.event for each in failures if each.write == "bind"}
    reason = messages.UNSCHEDULABLE if state is State.EVICTION_ERROR else messages.BINDING_ERROR
    marks = spec.mark_unschedulable is not False or state is State.BINDING_ERROR
    reports = []
    for pod in [pod for pods in reading.waiting.values() for pod in pods]:
        event = own.get(pod.uid)
        fields = (reason, cut(event.message) if event is not None else message)
        reports.append(PodReport(pod.uid, pod.key, fields if marks else None, event))
    return reports


def ungrouped_reports(group: tuple[str, str], pods: Iterable[Pod]) -> list[PodReport]:
    """`group`: the PodGroup that they name, which does not exist; or the empty name."""
    why = f"PodGroup {'/'.join(group)} does not exist" if group[1] else "the pod is in no PodGroup yet"
    event = Event(WARNING, UNSCHEDULABLE, why)
    return [
        PodReport(pod.metadata.uid, (pod.metadata.namespace, pod.metadata.name), (UNSCHEDULABLE, why), event)
        for pod in pods
    ]
