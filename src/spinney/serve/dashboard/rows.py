"""Gangs as rows of a list: what is shown of each, which of them are asked for, and the address that asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import APP_PART_OF
from spinney.core.view.explanation import GangExplanation

PAGE = 50
WAITS, PLACED = "waits", "placed"
_LONGEST = 200
DOMAIN_LINE = "node-group "
"""How a line about a single domain begins; such lines are shown as a table."""


@dataclass(frozen=True, slots=True)
class Row:
    """One gang. `reason` is what it was told, but for single domains; `workload`: whose gang it is."""

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

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def address(self) -> str:
        return gang_address(self.namespace, self.name)


def gang_address(namespace: str, name: str) -> str:
    return f"/gangs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def row_of(group: PodGroup, explained: GangExplanation) -> Row:
    whole = explained.places[0] if explained.places else None
    level = whole.level if whole is not None else ""
    return Row(
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
        created=group.metadata.creation_timestamp or "",
    )


def reason_of(explained: GangExplanation) -> str:
    """The first line is for programs where there are others."""
    lines = [line for line in explained.lines if not line.startswith(DOMAIN_LINE)]
    return " ".join(lines[1:] or lines)


def workload_of(group: PodGroup) -> str:
    """Whoever made it: its owner, or the set behind a PodGang."""
    owner = next(iter(group.metadata.owner_references), None)
    part_of = group.metadata.labels.get(APP_PART_OF)
    if owner is not None and owner.kind == PodGang.KIND and part_of:
        return f"{PodCliqueSet.KIND} {part_of}"
    return f"{owner.kind} {owner.name}" if owner is not None else ""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for, as it stands in the address. `state`: `waits`, `placed`, or a word of the scheduler."""

    state: str = ""
    queue: str = ""
    namespace: str = ""
    q: str = ""
    page: int = 1

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> Query:
        words = {name: asked.get(name, "").strip()[:_LONGEST] for name in ("state", "queue", "namespace", "q")}
        page = asked.get("page", "")
        return cls(**words, page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1)

    @property
    def address(self) -> str:
        shown = {name: getattr(self, name) for name in ("state", "queue", "namespace", "q")}
        asked = {name: value for name, value in shown.items() if value}
        if self.page > 1:
            asked["page"] = str(self.page)
        return f"/gangs?{urlencode(asked)}" if asked else "/gangs"

    def on(self, page: int) -> Query:
        return replace(self, page=page)

    def wants(self, row: Row) -> bool:
        if self.state and self.state not in (row.state, WAITS if row.waits else PLACED):
            return False
        if (self.queue and self.queue != row.queue) or (self.namespace and self.namespace != row.namespace):
            return False
        return not self.q or _mentions(row, self.q.casefold())


def _mentions(row: Row, word: str) -> bool:
    said = (row.title, row.workload, row.reason, row.queue, "/".join(row.domain))
    return any(word in each.casefold() for each in said)


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the gangs that were asked for, and what else could be asked for."""

    query: Query
    rows: Sequence[Row]
    found: int
    all: int
    pages: int
    states: Sequence[str]
    queues: Sequence[str]
    namespaces: Sequence[str]

    @property
    def first(self) -> int:
        return (self.query.page - 1) * PAGE + 1 if self.found else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.found else 0


def listing(rows: Iterable[Row], query: Query) -> Listing:
    """Those that wait first, oldest first; a page behind the last one is the last one."""
    every = list(rows)
    found = sorted((row for row in every if query.wants(row)), key=urgency)
    pages = max(1, -(-len(found) // PAGE))
    query = query.on(min(query.page, pages))
    return Listing(
        query,
        found[(query.page - 1) * PAGE : query.page * PAGE],
        len(found),
        len(every),
        pages,
        sorted({row.state for row in every}),
        sorted({row.queue for row in every if row.queue}),
        sorted({row.namespace for row in every}),
    )


def urgency(row: Row) -> tuple[bool, str, str, str]:
    return not row.waits, row.created, row.namespace, row.name
