"""Gangs as rows of a list: what command line and pages show of each, and the order in which they need attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import APP_PART_OF
from spinney.core.scheduling.reporting.messages import known
from spinney.core.view.explanation import GangExplanation

WAY_OUT = "It would fit "
DOMAIN_LINE = "node-group "
"""How a line about a single domain begins; such lines are shown as a table."""


@dataclass(frozen=True, slots=True)
class GangRow:
    """One gang. `reason` is what was reported of it, but for single domains; `workload`: whose gang it is.

    `waits_since`: when the oldest of its pods without a node was made, or the gang where it has no pods; empty if it
    does not wait.
    """

    namespace: str
    name: str
    state: str
    waits: bool
    reason: str
    queue: str
    topology: str
    workload: str
    bound: int
    pods: int
    score: float | None
    level: str
    domain: tuple[str, ...]
    created: str
    waits_since: str = ""
    best_score: float | None = None

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    def to_json(self) -> dict[str, Any]:
        shown = {"namespace": self.namespace, "name": self.name, "state": self.state, "waits": self.waits}
        shown |= {"bound": self.bound, "pods": self.pods, "queue": self.queue, "workload": self.workload}
        shown |= {"topology": self.topology, "level": self.level, "domain": list(self.domain), "score": self.score}
        shown |= {"bestScore": self.best_score} if self.best_score is not None else {}
        return {**shown, "created": self.created, "waitsSince": self.waits_since, "reason": self.reason}


def row_of(group: PodGroup, explained: GangExplanation, pods: Sequence[Pod] = ()) -> GangRow:
    """`pods`: those of the gang, where it is asked since when it waits."""
    whole = explained.places[0] if explained.places else None
    level = whole.level if whole is not None else ""
    created = group.metadata.creation_timestamp or ""
    waiting = {member.name for member in explained.members if not member.node}
    made = [pod.metadata.creation_timestamp or created for pod in pods if pod.metadata.name in waiting]
    return GangRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        state=explained.state,
        waits=explained.waits,
        reason=reason_of(explained),
        queue=explained.queue,
        topology=explained.topology,
        workload=workload_of(group),
        bound=sum(bool(member.node) for member in explained.members),
        pods=len(explained.members),
        score=explained.score,
        level=explained.short.get(level) or level.rpartition("/")[2],
        domain=whole.domain if whole is not None else (),
        created=created,
        waits_since=min(made, default=created) if explained.waits else "",
        best_score=explained.best_score,
    )


def reason_of(explained: GangExplanation) -> str:
    """Our own words of a report: what upstream would say is for programs, and comes first but for what never fits."""
    lines = [line for line in explained.lines if not line.startswith(DOMAIN_LINE)]
    ours = known(str(explained.explanation.get("reason", ""))).casefold()
    if len(lines) > 1 and lines[0].rstrip(".").casefold() == ours:
        return " ".join(line for line in lines[:2] if line is lines[0] or line.startswith(WAY_OUT))
    return " ".join(lines[1:] or lines)


def workload_of(group: PodGroup) -> str:
    """Whoever made it: its owner, or the set behind a PodGang."""
    owner = next(iter(group.metadata.owner_references), None)
    part_of = group.metadata.labels.get(APP_PART_OF)
    if owner is not None and owner.kind == PodGang.KIND and part_of:
        return f"{PodCliqueSet.KIND} {part_of}"
    return f"{owner.kind} {owner.name}" if owner is not None else ""


def urgency(row: GangRow) -> tuple[bool, str, str, str]:
    """Those that wait first, oldest first."""
    return not row.waits, row.created, row.namespace, row.name


SORTABLE: dict[str, Callable[[GangRow], Any]] = {
    "urgency": lambda row: (),
    "name": lambda row: (row.namespace, row.name),
    "state": lambda row: row.state,
    "pods": lambda row: -row.pods,
    "queue": lambda row: row.queue,
    "domain": lambda row: row.domain,
    "score": lambda row: (row.score is None, row.score or 0.0),
    "waiting": lambda row: (not row.waits_since, row.waits_since),
}
_AGES = ((86_400, "d"), (3600, "h"), (60, "m"))


def in_order(rows: Iterable[GangRow], sort_by: str) -> list[GangRow]:
    """What is equal stays in the order of urgency."""
    return sorted(sorted(rows, key=urgency), key=SORTABLE[sort_by])


def age(since: str, now_s: float) -> str:
    """As kubectl has it, in one unit: 45s, 12m, 3h, 2d; `-` for no time."""
    try:
        seconds = max(0, int(now_s - datetime.fromisoformat(since).timestamp()))
    except ValueError:
        return "-"
    return next((f"{seconds // length}{unit}" for length, unit in _AGES if seconds >= length), f"{seconds}s")
