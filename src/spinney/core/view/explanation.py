"""The explanation of a workload as values: what its gangs wait for, or where they are placed.

Built only from objects: messages are the scheduler's, domains come from node labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup, PodGroupTopologyConstraint
from spinney.api.labels import (
    DOMAIN,
    EXPLANATION,
    KAI_STALE_TIMESTAMP,
    KAI_SUBGROUP_NAME,
    NUMA_ZONE,
    PLACEMENT_SCORE,
    PLAN,
    RANK,
    SEGMENT,
)
from spinney.core.scheduling.gang.subgroup_tree import DEEPEST
from spinney.core.scheduling.reporting.report import POD_SCHEDULED, UNSCHEDULABLE_ON_NODE_POOL, State, decode
from spinney.core.view.node_state import lines_of
from spinney.core.view.queue_list import QueueRow

Json = dict[str, Any]

RECORDED = "PlanRecorded"
NOT_REPORTED = "Unknown"
FINISHED = "Finished"
_NOT_REPORTED_TEXT = "the scheduler has not said anything about it yet: is one running that takes its pods?"


@dataclass(frozen=True, slots=True)
class Levels:
    """The keys of a topology, broad to narrow, and short names of some."""

    keys: tuple[str, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)

    def path(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The domain path of a node with these labels, down to the first missing key."""
        path: list[str] = []
        for key in self.keys:
            if key not in labels:
                break
            path.append(labels[key])
        return tuple(path)


@dataclass(frozen=True, slots=True)
class Member:
    """A pod. `waits_for` is the message of its own condition, if it differs from the gang's."""

    name: str
    group: str = ""
    node: str = ""
    domain: tuple[str, ...] = ()
    rank: str = ""
    segment: str = ""
    zone: str = ""
    waits_for: str = ""

    def to_json(self) -> Json:
        shown: Json = {"name": self.name, "group": self.group, "node": self.node, "domain": list(self.domain)}
        shown |= {"rank": self.rank, "segment": self.segment, "zone": self.zone, "waitsFor": self.waits_for}
        return {key: value for key, value in shown.items() if value}


@dataclass(frozen=True, slots=True)
class Place:
    """The placement of a sub-group: the narrowest domain that holds its pods. The name is empty for the whole gang."""

    group: str
    required: str
    level: str
    domain: tuple[str, ...]
    bound: int
    pods: int
    nodes: int

    def to_json(self) -> Json:
        shown: Json = {"group": self.group, "required": self.required, "level": self.level}
        shown |= {"domain": list(self.domain), "bound": self.bound, "pods": self.pods, "nodes": self.nodes}
        return shown


@dataclass(frozen=True, slots=True)
class GangExplanation:
    """One gang. `explanation`: the figures that the scheduler wrote to the PodGroup, if it is pending.

    `best_score`: what its bound pods could have at most on empty nodes, where that was asked and the score is not 1.
    """

    name: str
    state: str
    waits: bool
    lines: tuple[str, ...] = ()
    queue: str = ""
    topology: str = ""
    score: float | None = None
    best_score: float | None = None
    explanation: Json = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    members: tuple[Member, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        shown: Json = {"podGroup": self.name, "state": self.state, "waits": self.waits, "lines": list(self.lines)}
        shown |= {"queue": self.queue, "topology": self.topology, "score": self.score, "explanation": self.explanation}
        shown |= {"bestScore": self.best_score} if self.best_score is not None else {}
        shown["groups"] = [place.to_json() for place in self.places]
        shown["pods"] = [member.to_json() for member in self.members]
        return shown


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """The workload, its gangs ordered by name, and what could not be read.

    `suspended`: no pods are created for it until it is resumed. `queues`: those of gangs that wait, and those above
    them that have a quota or limit, if any has.
    """

    kind: str
    namespace: str
    name: str
    gangs: tuple[GangExplanation, ...]
    notes: tuple[str, ...] = ()
    suspended: bool = False
    queues: tuple[QueueRow, ...] = ()

    def to_json(self) -> Json:
        shown: Json = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        shown["gangs"] = [gang.to_json() for gang in self.gangs]
        shown |= {"queues": [queue.to_json() for queue in self.queues]} if self.queues else {}
        shown |= {"suspended": True} if self.suspended else {}
        return {**shown, "notes": list(self.notes)} if self.notes else shown


def explain_gang(
    group: PodGroup, pods: Sequence[Pod], nodes: Mapping[str, Node], levels: Mapping[str, Levels]
) -> GangExplanation:
    live = sorted((pod for pod in pods if _lives(pod)), key=lambda pod: pod.metadata.name)
    reported = decode(group.metadata.annotations.get(EXPLANATION, "")) or {}
    ended = bool(pods) and all(pod.status.phase in _OVER for pod in pods)
    state, lines = (FINISHED, ("all its pods have ended",)) if ended else _state(group, live, reported, bool(pods))
    topology = group.spec.topology_constraint.topology or next(iter(_constraints(group).values()), _NONE).topology
    here = levels.get(topology, Levels())
    members = tuple(_member(pod, nodes, here, lines) for pod in live)
    places = tuple(_places(group, members, here))
    return GangExplanation(
        name=f"{group.metadata.namespace}/{group.metadata.name}",
        state=state,
        waits=any(not member.node for member in members) or not (members or ended),
        lines=(*lines, *_staleness(group), *_broken(places, here), *lines_of(live, nodes)),
        queue=group.spec.queue,
        topology=topology,
        score=_score(group),
        explanation=reported,
        places=places,
        members=members,
        short=here.short,
    )


def lone_pod(pod: Pod) -> WorkloadExplanation:
    """The explanation of a pod that is in no gang."""
    scheduled = pod.condition(POD_SCHEDULED)
    words = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    why = () if pod.spec.node_name else (words or "it is in no PodGroup, so that no gang scheduler looks at it",)
    state = State.SCHEDULED.value if pod.spec.node_name else NOT_REPORTED
    member = Member(pod.metadata.name, node=pod.spec.node_name)
    title = f"{pod.metadata.namespace}/{pod.metadata.name}"
    gang = GangExplanation(title, state, waits=not pod.spec.node_name, lines=why, members=(member,))
    return WorkloadExplanation("Pod", pod.metadata.namespace, pod.metadata.name, (gang,))


_NONE = PodGroupTopologyConstraint()
_OVER = ("Succeeded", "Failed")


def _lives(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in _OVER


def _state(group: PodGroup, pods: Sequence[Pod], reported: Json, had_any: bool) -> tuple[str, tuple[str, ...]]:
    """The state and its reasons: from the explanation, else from the condition, else from the pods.

    `had_any`: there are pods, even if all of them are finished.
    """
    if reported:
        return str(reported.get("state", NOT_REPORTED)), _split(reported.get("lines") or [reported.get("reason", "")])
    scheduled = next(
        (one for one in reversed(group.status.scheduling_conditions) if one.type == UNSCHEDULABLE_ON_NODE_POOL), None
    )
    if scheduled is not None:
        return State.UNSCHEDULABLE.value, _split([scheduled.message])
    if pods and all(pod.spec.node_name for pod in pods):
        return State.SCHEDULED.value, ()
    if PLAN in group.metadata.annotations:
        return RECORDED, (_recorded(pods),)
    gated = sum(bool(pod.spec.scheduling_gates) for pod in pods)
    if gated:
        return State.NOT_READY.value, (f"{gated} of its {len(pods)} pods are gated",)
    if pods:
        return NOT_REPORTED, (_NOT_REPORTED_TEXT,)
    return State.NOT_READY.value, ("all its pods are ending" if had_any else "it has no pods yet",)


def _split(lines: Sequence[object]) -> tuple[str, ...]:
    """One line each: messages in KAI's wording hold several."""
    return tuple(each.strip() for line in lines for each in str(line).split("\n"))


def _recorded(pods: Sequence[Pod]) -> str:
    """The message for a recorded plan: only its scheduler has the key to verify it, so the bound pods are counted."""
    bound = sum(bool(pod.spec.node_name) for pod in pods)
    return f"a plan is recorded, which only its scheduler can verify; {bound} of its {len(pods)} pods are bound"


def _staleness(group: PodGroup) -> tuple[str, ...]:
    since = group.metadata.annotations.get(KAI_STALE_TIMESTAMP)
    return (f"it is stale: it runs with fewer pods than it needs together, since {since}",) if since else ()


def _broken(places: Sequence[Place], levels: Levels) -> tuple[str, ...]:
    """Groups whose required level no longer holds because node labels have changed."""
    return tuple(
        f"{place.group or 'the gang'} asks for one {place.required}, but its pods run in more than one: labels of "
        "nodes have changed"
        for place in places
        if place.domain and place.required in levels.keys and len(place.domain) <= levels.keys.index(place.required)
    )


def _score(group: PodGroup) -> float | None:
    """The placement score; None if the value is not a valid score, so not written by the scheduler."""
    try:
        score = float(group.metadata.annotations[PLACEMENT_SCORE])
    except (KeyError, ValueError):
        return None
    return score if 0.0 <= score <= 1.0 else None


def _member(pod: Pod, nodes: Mapping[str, Node], levels: Levels, reported: Sequence[str]) -> Member:
    notes, node = pod.metadata.annotations, nodes.get(pod.spec.node_name)
    domain = levels.path(node.metadata.labels) if node is not None else tuple(notes.get(DOMAIN, "").split("/"))
    scheduled = pod.condition(POD_SCHEDULED)
    own = (
        ""
        if scheduled is None or pod.spec.node_name or _split([scheduled.message]) == tuple(reported)
        else scheduled.message
    )
    return Member(
        name=pod.metadata.name,
        group=pod.metadata.labels.get(KAI_SUBGROUP_NAME, ""),
        node=pod.spec.node_name,
        domain=domain if pod.spec.node_name and domain != ("",) else (),
        rank=notes.get(RANK, ""),
        segment=notes.get(SEGMENT, ""),
        zone=notes.get(NUMA_ZONE, ""),
        waits_for=own,
    )


def _constraints(group: PodGroup) -> dict[str, PodGroupTopologyConstraint]:
    own = {"": group.spec.topology_constraint}
    own |= {each.name: each.topology_constraint or _NONE for each in group.spec.sub_groups}
    return {name: each for name, each in own.items() if each.topology}


def _places(group: PodGroup, members: Sequence[Member], levels: Levels) -> list[Place]:
    """One for the whole gang, and one for each of its sub-groups."""
    parents = {each.name: each.parent or "" for each in group.spec.sub_groups}
    asked = _constraints(group)
    found = [_place("", asked, members, levels)]
    inside: dict[str, list[Member]] = {}
    for member in members:
        for name in _line(member.group, parents):
            inside.setdefault(name, []).append(member)
    return [*found, *(_place(name, asked, inside.get(name, ()), levels) for name in parents)]


def _line(name: str, parents: Mapping[str, str]) -> list[str]:
    """A sub-group and its ancestors, up to the deepest nesting that can be placed."""
    line: list[str] = []
    while name and name not in line and len(line) < DEEPEST:
        line.append(name)
        name = parents.get(name, "")
    return line


def _place(
    name: str, asked: Mapping[str, PodGroupTopologyConstraint], members: Sequence[Member], levels: Levels
) -> Place:
    bound = [member for member in members if member.node]
    domain = _common([member.domain for member in bound])
    level = levels.keys[len(domain) - 1] if domain and len(domain) <= len(levels.keys) else ""
    required = asked.get(name, _NONE).required_topology_level
    return Place(name, required, level, domain, len(bound), len(members), len({member.node for member in bound}))


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The common prefix of all paths."""
    if not paths:
        return ()
    first, last = min(paths), max(paths)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: min(same, len(last))]
