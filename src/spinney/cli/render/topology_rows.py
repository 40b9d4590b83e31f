"""Which rows a tree is shown by: how deep it goes, runs of equal domains summed up, others folded.

Chooses and counts; never draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from spinney.core.placement.explain.reasons import many
from spinney.core.view.tree import Domain, Host, ResourceUsage, Tree, sum_of

MOST_ROWS = 60
"""A tree with more rows is folded a level up, unless it is asked for."""
TIMES = "×"
_RUN = 3


@dataclass(frozen=True, slots=True)
class RowSelection:
    """What to show: down to a level (empty: as deep as can be read), everything as it is, or one gang."""

    level: str = ""
    is_all: bool = False
    gang: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One domain, or a run of equal ones with the figures of each of them. `resource`: what the figures count."""

    branch: str
    name: str
    nodes: int
    room: ResourceUsage
    resource: int
    gangs: Mapping[str, int] = field(default_factory=dict)
    loose: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def rows_of(tree: Tree, wish: RowSelection) -> Listing:
    """The rows of a tree; notes say what was left out."""
    asked = tree.depth(wish.level) if wish.level else None
    if wish.is_all or asked is not None:
        return Listing(tuple(_RowBuilder(tree, asked or len(tree.levels), wish).rows()))
    for depth in range(len(tree.levels), 0, -1):
        rows = tuple(_RowBuilder(tree, depth, wish).rows())
        if len(rows) <= MOST_ROWS:
            break
    notes = _folded(tree, depth)
    if len(rows) > MOST_ROWS:
        more = many(len(rows) - MOST_ROWS, "more row")
        return Listing(rows[:MOST_ROWS], (*notes, f"{more}: --all shows everything"))
    return Listing(rows, notes)


def _folded(tree: Tree, depth: int) -> tuple[str, ...]:
    if depth == len(tree.levels):
        return ()
    names = ", ".join(plural(level.name) for level in tree.levels[depth:])
    return (f"{names} are folded: --level {tree.levels[-1].name} or --all shows them",)


def plural(level: str) -> str:
    return level if level.endswith("s") else f"{level}s"


_NO_NAME = '""'
"""A domain may be named by a label without a value."""


class _RowBuilder:
    """Rows down to a depth."""

    def __init__(self, tree: Tree, depth: int, wish: RowSelection) -> None:
        self._tree = tree
        self._depth = depth
        self._wish = wish
        self._signs: dict[int, Any] = {}

    def rows(self) -> Iterator[Row]:
        yield self._row(self._tree.root, "", "(all)")
        yield from self._below(self._tree.root, "")

    def _below(self, domain: Domain, indent: str) -> Iterator[Row]:
        if len(domain.path) >= self._depth:
            yield from self._hosts(domain, indent)
            return
        groups = list(self._groups(domain.domains))
        for at, (group, is_other) in enumerate(groups):
            is_last = at == len(groups) - 1
            branch, deeper = indent + ("└─ " if is_last else "├─ "), indent + ("   " if is_last else "│  ")
            if is_other:
                yield self._others(group, branch)
            elif len(group) == 1:
                yield self._row(group[0], branch, group[0].name or _NO_NAME)
                yield from self._below(group[0], deeper)
            else:
                name = f"{len(group)} {TIMES} {_span(group[0].name, group[-1].name)}"
                yield self._row(group[0], branch, name)
                yield from self._each(group[0], deeper)

    def _groups(self, domains: Sequence[Domain]) -> Iterator[tuple[list[Domain], bool]]:
        """Runs of equal domains; of one gang: the domains that hold it, then all others together."""
        if self._wish.gang:
            yield from (([one], False) for one in domains if self._wish.gang in one.gangs)
            others = [one for one in domains if self._wish.gang not in one.gangs]
            if others:
                yield others, True
            return
        for _, equal in groupby(domains, key=self._sign):
            run = list(equal)
            if len(run) >= _RUN and not self._wish.is_all:
                yield run, False
            else:
                yield from (([one], False) for one in run)

    def _each(self, domain: Domain, indent: str) -> Iterator[Row]:
        """What every domain of a run holds, where that can be said without names."""
        below = domain.domains
        if len(domain.path) >= self._depth or not below or len({self._sign(one) for one in below}) > 1:
            return
        level = self._level(below[0])
        if len(below) == 1 and below[0].nodes == 1 and not below[0].domains:
            return
        name = f"{len(below)} {TIMES} {level}" if len(below) > 1 else level
        yield self._row(below[0], f"{indent}└─ ", name)
        yield from self._each(below[0], f"{indent}   ")

    def _hosts(self, domain: Domain, indent: str) -> Iterator[Row]:
        """Hosts of a topology whose narrowest level is broader than they are, if everything is to be seen."""
        if not self._wish.is_all or len(domain.hosts) <= 1:
            return
        for host in domain.hosts:
            branch = indent + ("└─ " if host is domain.hosts[-1] else "├─ ")
            at = self._tree.own_resource(host.rooms)
            yield Row(branch, host.name, 1, host.rooms[at], at, host.gangs, host.loose, host.state)

    def _others(self, domains: Sequence[Domain], branch: str) -> Row:
        rooms = sum_of(domains, len(self._tree.root.rooms))
        at = self._tree.own_resource(rooms)
        name = (
            f"{len(domains)} other {plural(self._level(domains[0])) if len(domains) > 1 else self._level(domains[0])}"
        )
        return Row(branch, name, sum(one.nodes for one in domains), rooms[at], at)

    def _row(self, domain: Domain, branch: str, name: str) -> Row:
        gangs = domain.gangs if domain.path else {}
        if self._wish.gang:
            gangs = {name: pods for name, pods in domain.gangs.items() if name == self._wish.gang}
        loose = domain.loose if domain.path and not self._wish.gang else 0
        at = self._tree.own_resource(domain.rooms)
        return Row(branch, name, domain.nodes, domain.rooms[at], at, gangs, loose, state_of(domain))

    def _level(self, domain: Domain) -> str:
        return self._tree.levels[len(domain.path) - 1].name

    def _sign(self, domain: Domain) -> Any:
        """Equal for domains that look the same as far down as they are shown."""
        known = self._signs.get(id(domain))
        if known is None:
            below = tuple(self._sign(one) for one in domain.domains) if len(domain.path) < self._depth else ()
            facts = (domain.nodes, state_of(domain), domain.rooms, tuple(domain.gangs.items()), domain.loose)
            known = self._signs[id(domain)] = (facts, below)
        return known


def _span(first: str, last: str) -> str:
    """From one name to another, what they have in common said once: rack-r0..r7."""
    same = 0
    for at, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            break
        if not one.isalnum():
            same = at + 1
    return f"{first}..{last[same:]}"


def state_of(domain: Domain) -> str:
    """What is wrong with nodes: of one its state, of many how many take no pods."""
    if not domain.unusable:
        return ""
    if domain.nodes == 1:
        hosts: list[Host] = list(domain.all_hosts())
        return hosts[0].state
    return f"{domain.unusable} of {domain.nodes} {'takes' if domain.unusable == 1 else 'take'} no pods"
