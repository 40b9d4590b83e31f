"""From a gang and what was decided about it to its report.

The first line is in upstream's words, the others are ours: why, and what would fit. The same lines go everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroupSpec
from spinney.api.placement.result import Decision, Explanation
from spinney.core.placement.wording import enumerated, many, sentence
from spinney.core.scheduling.reporting import texts
from spinney.core.scheduling.reporting.conditions import UNSCHEDULABLE_ON_NODE_POOL
from spinney.core.scheduling.reporting.fit_texts import beyond_minimum, fit_lines, known
from spinney.core.scheduling.reporting.record import record
from spinney.core.scheduling.reporting.report import (
    NORMAL,
    WARNING,
    Event,
    Member,
    PodReport,
    QueueRefusal,
    Reading,
    Report,
    Scene,
    State,
)

LONGEST_MESSAGE = 1024
"""As long as the message of an event may be."""

_FIT = "PodSchedulingErrors"
_MISTAKE = "InvalidPodGroup"
_BACKS_OFF = 1
_WOULD_FIT = "; it would fit "


def report(
    reading: Reading, verdict: Decision | QueueRefusal | None, spec: PodGroupSpec, scene: Scene, denied: str = ""
) -> Report:
    """`verdict` None: nothing was decided, for the gang has a mistake or is not complete.

    `denied`: why the queue will not have more pods than the minimum.
    """
    if reading.mistake:
        told = record(State.MISTAKE.value, [reading.mistake], reason=reading.mistake)
        reasons = _reasons(_MISTAKE, reading.mistake)
        return _refused(reading, State.MISTAKE, [reading.mistake], reasons, told, spec, scene)
    if verdict is None:
        return _not_ready(reading, spec)
    if not isinstance(verdict, Decision):
        return _over_queue(reading, verdict, spec, scene)
    if verdict.outcome == "placed":
        return _placed(reading, verdict, spec, denied)
    return _unplaced(reading, verdict, spec, scene)


def awaiting_volumes(reading: Reading) -> Report:
    """Its places are chosen and kept; nobody is bound before the volumes of all are there."""
    line = "its place is chosen, and it waits for its volumes to be made there"
    pods = [
        PodReport(pod.uid, pod.key, (texts.UNSCHEDULABLE, line)) for pods in reading.waiting.values() for pod in pods
    ]
    told = record(State.PIPELINED.value, [line], reason=line)
    return Report(State.PIPELINED, line, pods=tuple(pods), explanation=told)


def _not_ready(reading: Reading, spec: PodGroupSpec) -> Report:
    """No condition of the group: a gang that is not complete is not what cannot be scheduled."""
    why = cut(reading.not_ready)
    told = record(State.NOT_READY.value, [why], reason=why)
    marked = (texts.UNSCHEDULABLE, why) if _marks(spec) else None
    pods = [PodReport(pod.uid, pod.key, marked) for pods in reading.waiting.values() for pod in pods]
    event = Event(NORMAL, texts.NOT_READY, why)
    return Report(State.NOT_READY, why, group_event=event, pods=(*pods, *_held(reading, spec)), explanation=told)


def _held(reading: Reading, spec: PodGroupSpec) -> Iterator[PodReport]:
    """Pods that no decision is about have their own reason."""
    for pod in reading.held:
        why = cut(pod.reason)
        event = Event(WARNING, texts.UNSCHEDULABLE, why)
        yield PodReport(pod.uid, pod.key, (texts.UNSCHEDULABLE, why) if _marks(spec) else None, event)


def _marks(spec: PodGroupSpec) -> bool:
    return spec.mark_unschedulable is not False


def _over_queue(reading: Reading, refusal: QueueRefusal, spec: PodGroupSpec, scene: Scene) -> Report:
    reasons = _reasons(refusal.reason, refusal.message, _plain(refusal.details))
    told = record(State.OVER_QUEUE.value, [refusal.message], reason=refusal.message, queueReason=refusal.reason)
    return _refused(reading, State.OVER_QUEUE, [refusal.message], reasons, told, spec, scene)


def _unplaced(reading: Reading, decision: Decision, spec: PodGroupSpec, scene: Scene) -> Report:
    first = fit_lines(reading, decision, spec, scene)
    found = decision.explanation
    lines = first + (_ours(found, first[0]) if found is not None else [])
    state = _state(reading, decision)
    reasons = _reasons(_MISTAKE if state is State.MISTAKE else _FIT, "\n".join(first))
    return _refused(reading, state, lines, reasons, record(state.value, lines, found), spec, scene)


def _state(reading: Reading, decision: Decision) -> State:
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
    reading: Reading,
    state: State,
    lines: Sequence[str],
    reasons: list[Json],
    told: Json,
    spec: PodGroupSpec,
    scene: Scene,
) -> Report:
    prefix = f"Node-Pool '{scene.node_pool}': " if spec.scheduling_backoff == _BACKS_OFF else ""
    message = cut(prefix + "\n".join(lines))
    said = {"nodePool": scene.node_pool, "status": "True", "reason": texts.UNSCHEDULABLE, "message": message}
    event = Event(WARNING, texts.UNSCHEDULABLE, message)
    marked = (texts.UNSCHEDULABLE, message) if _marks(spec) else None
    pods = [PodReport(pod.uid, pod.key, marked, event) for pods in reading.waiting.values() for pod in pods]
    return Report(
        state,
        message,
        # A group that has pods allocated keeps what was said before it had them.
        condition=None if reading.gang.running else {"type": UNSCHEDULABLE_ON_NODE_POOL, **said, "reasons": reasons},
        group_event=Event(NORMAL, texts.UNSCHEDULABLE, message),
        pods=(*pods, *_held(reading, spec)),
        explanation=told,
    )


def _placed(reading: Reading, decision: Decision, spec: PodGroupSpec, denied: str) -> Report:
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
    event = Event(WARNING, texts.UNSCHEDULABLE, message)
    return PodReport(pod.uid, pod.key, (texts.UNSCHEDULABLE, message) if marks else None, event)


def _pipelined(reading: Reading, decision: Decision) -> Report:
    """Nothing is bound before the others have left; each pod is told where it will go."""
    seats = {(one.pods, one.index): one.node for one in decision.placements}
    pods = [
        PodReport(pod.uid, pod.key, event=texts.pipelined(pod.key, seats[path, index]))
        for path, waiting in reading.waiting.items()
        for index, pod in enumerate(waiting)
        if (path, index) in seats
    ]
    nodes = many(len(set(seats.values())), "node")
    line = f"its place on {nodes} is chosen, and it waits for {_who_leaves(decision)} to leave"
    return Report(
        State.PIPELINED,
        line,
        pods=tuple(pods),
        explanation=record(State.PIPELINED.value, [line], reason=line, nodes=sorted(set(seats.values()))[:16]),
    )


def _who_leaves(decision: Decision) -> str:
    going = [*(one.gang for one in decision.victims), *(one.gang for one in decision.moves)]
    return f"{many(len(going), 'pod')} of {enumerated(sorted(set(going)))}" if going else "pods that are ending there"


def _left(reading: Reading, decision: Decision) -> Iterator[Member]:
    """Waiting pods that got no place."""
    seats = {(one.pods, one.index) for one in decision.placements}
    for path, pods in reading.waiting.items():
        for index, pod in enumerate(pods):
            if (path, index) not in seats:
                yield pod


def _ours(found: Explanation, first: str) -> list[str]:
    """The reason, unless the first line is made of it, and what would help."""
    why, _, ways = known(sentence(found)).partition(_WOULD_FIT)
    lines = [] if known(found.reason) in first else [f"The{why[3:]}." if why.startswith("the ") else f"{why}."]
    return [*lines, f"It would fit {ways}."] if ways else lines


def _reasons(reason: str, message: str, details: Json | None = None) -> list[Json]:
    said: Json = {"reason": reason, "message": message}
    return [{**said, "details": {"queueDetails": details}} if details else said]


def _plain(details: Any) -> Json | None:
    if details is None:
        return None
    plain: Json = msgspec.json.decode(msgspec.json.encode(details))
    inner: Json = plain.get("queueDetails", plain)
    return inner


def cut(text: str) -> str:
    """As long as a message may be."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."
