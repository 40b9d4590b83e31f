"""A list of gangs on a page: which of them are asked for, and the address that asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from spinney.core.view.gang_list import SORTABLE, GangRow, in_order

PAGE = 50
WAITS, PLACED = "waits", "placed"
_LONGEST = 200
_WORDS = ("state", "queue", "namespace", "q", "sort")


def gang_address(namespace: str, name: str) -> str:
    return f"/gangs/{quote(namespace, safe='')}/{quote(name, safe='')}"


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for, as it stands in the address. `state`: `waits`, `placed`, or a word of the scheduler.

    `sort`: a key of the list of gangs, empty for those that wait first; `-` before it turns it round.
    """

    state: str = ""
    queue: str = ""
    namespace: str = ""
    q: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> Query:
        words = {name: asked.get(name, "").strip()[:_LONGEST] for name in _WORDS}
        if words["sort"].removeprefix("-") not in SORTABLE:
            words["sort"] = ""
        page = asked.get("page", "")
        return cls(**words, page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1)

    @property
    def address(self) -> str:
        shown = {name: getattr(self, name) for name in _WORDS}
        asked = {name: value for name, value in shown.items() if value}
        if self.page > 1:
            asked["page"] = str(self.page)
        return f"/gangs?{urlencode(asked)}" if asked else "/gangs"

    def on(self, page: int) -> Query:
        return replace(self, page=page)

    def sorted_by(self, key: str) -> Query:
        """The same, by another key from its first page; by the same key the other way round."""
        return replace(self, page=1, sort=f"-{key}" if self.sort == key else key)

    def order(self, rows: Iterable[GangRow]) -> list[GangRow]:
        found = in_order(rows, self.sort.removeprefix("-") or "urgency")
        return found[::-1] if self.sort.startswith("-") else found

    def wants(self, row: GangRow) -> bool:
        if self.state and self.state not in (row.state, WAITS if row.waits else PLACED):
            return False
        if (self.queue and self.queue != row.queue) or (self.namespace and self.namespace != row.namespace):
            return False
        return not self.q or _mentions(row, self.q.casefold())


def _mentions(row: GangRow, word: str) -> bool:
    texts = (row.title, row.workload, row.reason, row.queue, "/".join(row.domain))
    return any(word in each.casefold() for each in texts)


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the gangs that were asked for, and what else could be asked for."""

    query: Query
    rows: Sequence[GangRow]
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


def listing(rows: Iterable[GangRow], query: Query) -> Listing:
    """Those that wait first, oldest first, unless asked otherwise; a page behind the last one is the last one."""
    every = list(rows)
    found = query.order(row for row in every if query.wants(row))
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
