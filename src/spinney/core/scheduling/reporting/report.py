"""Reports on gangs as values: conditions with their transitions, events, and the explanation with its encoding.

Makes no write: the status writer writes a report, and leaves out what was reported before. Numbers in a message do not
count: a domain that holds three pods instead of two is no change.

The explanation is bounded, versioned JSON in an annotation of the PodGroup: the text of the events and the numbers
behind it. It is never larger than the limit: long lists are cut and say how long they were. Reading never fails on
untrusted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import msgspec

from kube_apimachinery.quantity import read_number
from kube_apimachinery.times import format_time
from spinney.api.builtin.pod import PodCondition
from spinney.api.changes import Json
from spinney.api.documents import DocumentError, read_json
from spinney.api.kinds.podgroup import SchedulingCondition
from spinney.api.placement.problem import Gang, Topology
from spinney.api.placement.result import Decision, Explanation, Result
from spinney.api.placement.writing import write_result
from spinney.core.expansion.objects import to_builtins

VERSION = 1
LIMIT = 8192
"""Maximum size of the annotation, in bytes."""
AT = "at"
"""When it was decided what the annotation says; added by whoever writes it."""
_AT_BYTES = 32

_MOST = 8
_MOST_VICTIMS = 16
_LONGEST = 512
_GIVEN_UP = ("occupied", "fitsIf", "blocked", "best", "lines")
"""Fields that are left out, in this order, while the whole is too large."""


def record(state: str, lines: Iterable[str], found: Explanation | None = None, **more: Any) -> Json:
    """`lines` are those of the message; the rest are the numbers they are made of."""
    body: Json = {"version": VERSION, "state": state, "lines": [_cut(line) for line in lines][:_MOST]}
    if found is not None:
        body |= _figures(found)
    return _bounded(body | {name: value for name, value in more.items() if value})


def encode(body: Json) -> str:
    return msgspec.json.encode(body).decode()


def decode(text: str) -> Json | None:
    """None: there is no explanation, or not one of a known version."""
    try:
        body = read_json(text) if text else None
    except DocumentError:
        return None
    return body if isinstance(body, dict) and body.get("version") == VERSION else None


def _figures(found: Explanation) -> Json:
    written = write_result(Result((Decision("", "infeasible", explanation=found),)))["gangs"][0]["explanation"]
    blocked: Json = written["blocked"]
    occupied = blocked.pop("occupied", {})
    body: Json = {"reason": _cut(found.reason), "group": found.group, "level": found.level}
    body |= {"considered": found.considered, "best": written["best"][:_MOST]}
    body |= {"blocked": _most(blocked), "occupied": _most(occupied), "fitsIf": [_way(way) for way in written["fitsIf"]]}
    return {name: value for name, value in body.items() if value not in (None, [], {})}


def _most(counts: Mapping[str, int]) -> Json:
    """The largest counts; the rest as one sum."""
    order = sorted(counts, key=lambda name: (-counts[name], name))
    kept: Json = {_cut(name): counts[name] for name in order[:_MOST]}
    rest = sum(counts[name] for name in order[_MOST:])
    return kept | {"others": rest} if rest else kept


def _way(way: Json) -> Json:
    victims = way.get("victims")
    if victims is None:
        return way
    gangs = sorted({victim["gang"] for victim in victims})
    return {"victims": victims[:_MOST_VICTIMS], "victimCount": len(victims), "gangs": gangs[:_MOST]}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _bounded(body: Json) -> Json:
    for name in _GIVEN_UP:
        if len(msgspec.json.encode(body)) <= LIMIT - _AT_BYTES:
            return body
        if name in body:
            body = {key: value for key, value in body.items() if key != name}
            body["leftOut"] = [*body.get("leftOut", ()), name]
    return body


NORMAL, WARNING = "Normal", "Warning"
DEFAULT_NODE_POOL = "default"


class State(Enum):
    """The state of a gang in one word, for programs."""

    SCHEDULED = "Scheduled"
    PARTLY = "PartlyScheduled"  # the minimum has its nodes, some pods beyond it have none
    PIPELINED = "Pipelined"  # its nodes are chosen; pods on them have to terminate first
    NOT_READY = "NotReady"
    MISTAKE = "Mistake"
    OVER_QUEUE = "QueueRefused"
    TIED = "Tied"  # waits for the base gang whose domain it has to share
    EXHAUSTED = "BudgetExhausted"
    BINDING_ERROR = "BindingError"  # it has nodes, and the API server refuses its binds
    EVICTION_ERROR = "EvictionError"  # it needs victims, and the API server refuses their eviction
    UNSCHEDULABLE = "Unschedulable"


class Member(Protocol):
    """A pod without a node."""

    @property
    def uid(self) -> str: ...

    @property
    def key(self) -> tuple[str, str]: ...


class HeldMember(Member, Protocol):
    """A pod without a node that takes no part in decisions, with the reason."""

    @property
    def reason(self) -> str: ...


class GangView(Protocol):
    """The part of a parsed gang that a report needs."""

    @property
    def gang(self) -> Gang: ...

    @property
    def waiting(self) -> Mapping[str, Sequence[Member]]: ...

    @property
    def held(self) -> Sequence[HeldMember]: ...

    @property
    def not_ready(self) -> str: ...

    @property
    def mistake(self) -> str: ...


class QueueRefusal(Protocol):
    """A refusal by a queue: the reason in a word, the sentence, and the numbers of the queue."""

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def details(self) -> object: ...


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """What a report needs beside its gang: existing topologies, number of nodes, and the name of their pool."""

    topologies: Mapping[str, Topology]
    nodes: int = 0
    node_pool: str = DEFAULT_NODE_POOL


@dataclass(frozen=True, slots=True)
class Event:
    """An event about a PodGroup or a pod."""

    type: str
    reason: str
    message: str
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PodReport:
    """A report on one pod: reason and message of PodScheduled=False, and an event."""

    uid: str
    key: tuple[str, str]
    condition: tuple[str, str] | None = None
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report on one gang. `condition` lacks what depends on the one before: its transition number and time.

    `clears`: remove the condition that it is not scheduled. `explanation` None: there is nothing to explain.
    """

    state: State
    message: str
    condition: Json | None = None
    clears: bool = False
    group_event: Event | None = None
    pods: tuple[PodReport, ...] = ()
    explanation: Json | None = None
    score: float | None = None


UNSCHEDULABLE_ON_NODE_POOL = "UnschedulableOnNodePool"
POD_SCHEDULED = "PodScheduled"

_NUMBER = re.compile(r"\d+")


def alike(one: str, other: str) -> bool:
    """Whether two messages are equal but for numbers."""
    return one == other or _NUMBER.sub("#", one) == _NUMBER.sub("#", other)


def current(before: Sequence[SchedulingCondition], node_pool: str) -> SchedulingCondition | None:
    """The last condition of a node pool."""
    kind = UNSCHEDULABLE_ON_NODE_POOL
    return next((one for one in reversed(before) if one.node_pool == node_pool and one.type == kind), None)


def next_conditions(
    before: Sequence[SchedulingCondition], report: Report, node_pool: str, now_s: float
) -> list[Json] | None:
    """The whole list after a report, the newest last; None: no change."""
    old = current(before, node_pool)
    others = [to_builtins(one) for one in before if one is not old]
    if report.clears:
        return None if old is None else others
    wanted = report.condition
    if wanted is None or (old is not None and (old.message, old.reason) == (wanted["message"], wanted["reason"])):
        return None
    if old is not None and alike(old.message, wanted["message"]):
        unmoved = {"transitionID": old.transition_id, "lastTransitionTime": old.last_transition_time}
        return [*others, {**wanted, **unmoved}]
    number = 1 + max([read_number(one.transition_id) or 0 for one in before], default=0)
    return [*others, {**wanted, "transitionID": str(number), "lastTransitionTime": format_time(now_s)}]


def pod_condition(before: PodCondition | None, wanted: tuple[str, str], now_s: float) -> Json | None:
    """PodScheduled=False with reason and message; None: no change."""
    reason, message = wanted
    if before is not None and (before.status, before.reason) == ("False", reason) and alike(before.message, message):
        return None
    return {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now_s),
    }
