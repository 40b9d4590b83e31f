"""Topologies as trees of text: what is used and free in each domain, and which gangs are there, one line for each row.

Hosts and runs of equal domains are folded into one row where there are many. Names come from servers and files: a
terminal must not obey them.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import click

from spinney.cli.options import Screen
from spinney.cli.render.columns import plain
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.view.tree import CPU, Domain, Gang, Host, Outside, ResourceUsage, Tree, View, sum_of

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


def rows_of(tree: Tree, selection: RowSelection) -> Listing:
    """The rows of a tree; notes say what was left out."""
    asked = tree.depth(selection.level) if selection.level else None
    if selection.is_all or asked is not None:
        return Listing(tuple(_RowBuilder(tree, asked or len(tree.levels), selection).rows()))
    for depth in range(len(tree.levels), 0, -1):
        rows = tuple(_RowBuilder(tree, depth, selection).rows())
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

    def __init__(self, tree: Tree, depth: int, selection: RowSelection) -> None:
        self._tree = tree
        self._depth = depth
        self._selection = selection
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
        if self._selection.gang:
            yield from (([one], False) for one in domains if self._selection.gang in one.gangs)
            others = [one for one in domains if self._selection.gang not in one.gangs]
            if others:
                yield others, True
            return
        for _, equal in groupby(domains, key=self._sign):
            run = list(equal)
            if len(run) >= _RUN and not self._selection.is_all:
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
        if not self._selection.is_all or len(domain.hosts) <= 1:
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
        if self._selection.gang:
            gangs = {name: pods for name, pods in domain.gangs.items() if name == self._selection.gang}
        loose = domain.loose if domain.path and not self._selection.gang else 0
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


_MOST_NAMED = 4
_GANG_LEAST = 14
_NAME_LEAST = 4
_BETWEEN = ", "


@dataclass(frozen=True, slots=True)
class _Layout:
    """Columns: the name with its branch, the number of nodes, the bar, the figures, and gangs in what is left."""

    name: int
    nodes: int
    bar: int
    figures: int
    gangs: int


@dataclass(frozen=True, slots=True)
class _Beside:
    """What stands behind the figures: the resource, where it is not that of the tree, and gangs. `namespace`: of all of
    them, which is not said again; `gang`: the chosen one.
    """

    unit: str
    namespace: str
    gang: str


def shown(view: View, trees: Sequence[Tree], selection: RowSelection, screen: Screen) -> str:
    """Every tree with a heading; every line ends with a newline."""
    lines: list[str] = []
    for tree in trees:
        lines += [""] if lines else []
        lines += _tree(view, tree, selection, screen)
    return "\n".join(lines) + "\n"


def _tree(view: View, tree: Tree, selection: RowSelection, screen: Screen) -> Iterator[str]:
    yield from _heading(view, tree, selection, screen)
    if tree.root.nodes:
        yield ""
        listing = rows_of(tree, selection)
        namespace = _only_namespace(tree) if not selection.gang else ""
        layout = _layout(listing.rows, screen, view.resources)
        yield _cut(_head(layout, namespace, view.resource(tree), screen), screen.width)
        for row in listing.rows:
            unit = "" if row.resource == tree.resource else view.resources[row.resource]
            yield _line(row, layout, view.resources[row.resource], _Beside(unit, namespace, selection.gang), screen)
        yield from (["", *(_cut(note, screen.width) for note in listing.notes)] if listing.notes else ())
    yield from _outside(view, tree, screen)


def _heading(view: View, tree: Tree, selection: RowSelection, screen: Screen) -> Iterator[str]:
    arrow = " › " if screen.is_unicode else " > "
    levels = arrow.join(plain(level.name) for level in tree.levels)
    yield _cut(f"{_bold(plain(tree.name), screen)}  {levels}", screen.width + (8 if screen.color else 0))
    nodes = many(tree.root.nodes, "node")
    line_text = f"{nodes}, {'; '.join(_totals(view, tree))}" if tree.root.nodes else "no node carries all its keys"
    yield from _wrapped(line_text, screen.width)
    gang = view.gangs.get(selection.gang)
    if gang is not None:
        yield from _gang_heading(tree, gang, screen)


def _totals(view: View, tree: Tree) -> Iterator[str]:
    """Of the resource that the tree is told by, then of every other accelerator in it."""
    others = [at for at, name in enumerate(view.resources) if name != CPU and at != tree.resource]
    for at in (tree.resource, *others):
        room, resource = tree.root.rooms[at], view.resources[at]
        if at != tree.resource and not (room.capacity or room.used):
            continue
        figures = [f"{_amount(room.used, resource)} of {_amount(room.capacity, resource)} {resource} used"]
        figures += [f"{_amount(room.free, resource)} free"]
        figures += [f"{_amount(room.lost, resource)} on nodes that take no pods"] if room.lost else []
        yield ", ".join(figures)


def _gang_heading(tree: Tree, gang: Gang, screen: Screen) -> Iterator[str]:
    total = gang.bound + gang.waiting
    here = tree.root.gangs.get(gang.name, 0)
    where = _common(tree, gang.name)
    place = f", {here} of them in {where}" if here else ", none of them in this topology"
    yield from _wrapped(f"{plain(gang.name)}: {gang.bound} of {many(total, 'pod')} placed{place}", screen.width)
    if gang.waiting:
        line_text = f"{many(gang.waiting, 'pod')} without a node: spinney explain {plain(gang.name)}"
        yield from _wrapped(line_text, screen.width)


def _common(tree: Tree, gang: str) -> str:
    """The narrowest domain that holds all pods of a gang, with its level."""
    here = tree.root
    while True:
        inside = [below for below in here.domains if gang in below.gangs]
        if len(inside) != 1:
            break
        here = inside[0]
    if not here.path:
        return f"{sum(gang in below.gangs for below in here.domains)} {plural(tree.levels[0].name)}"
    return f"{tree.levels[len(here.path) - 1].name} {plain('/'.join(here.path))}"


def _layout(rows: Sequence[Row], screen: Screen, resources: Sequence[str]) -> _Layout:
    """Names get what they need up to a half of the screen, the bar an eighth, gangs the rest."""
    figures = max(len(_figures(row.room, resources[row.resource])) for row in rows)
    nodes = max(5, max(len(str(row.nodes)) for row in rows))
    bar = max(6, min(24, screen.width // 8))
    name = max(len("DOMAIN"), max(len(row.branch) + len(plain(row.name)) for row in rows))
    fixed = nodes + bar + figures + 4 * 2
    least = max(12, max(len(row.branch) for row in rows) + _NAME_LEAST)
    name = max(min(name, least), min(name, screen.width // 2, screen.width - fixed - _GANG_LEAST))
    return _Layout(name, nodes, bar, figures, max(0, screen.width - fixed - name))


def _head(layout: _Layout, namespace: str, resource: str, screen: Screen) -> str:
    used = f"{resource.rpartition('/')[2].upper()} USED".ljust(layout.bar + 2 + layout.figures)
    gangs = f"GANGS IN {middle_cut(plain(namespace), layout.gangs - 9, screen)}" if namespace else "GANGS"
    return f"{'DOMAIN'.ljust(layout.name)}  {'NODES'.rjust(layout.nodes)}  {used}  {gangs}".rstrip()


def _line(row: Row, layout: _Layout, resource: str, beside: _Beside, screen: Screen) -> str:
    name = row.branch + middle_cut(plain(row.name), layout.name - len(row.branch), screen)
    name = (name if screen.is_unicode else name.translate(_ASCII)).ljust(layout.name)
    figures = _figures(row.room, resource).rjust(layout.figures)
    room = layout.gangs - len(beside.unit) - len(_BETWEEN)
    unit = beside.unit if room >= _GANG_LEAST or not row.gangs else ""
    parts = [part for part in (unit, _gangs(row, beside, room if unit else layout.gangs, screen)) if part]
    text = _cut(_BETWEEN.join(parts), layout.gangs)
    if screen.color:
        name = click.style(name, bold=True) if beside.gang and beside.gang in row.gangs else name
        text = click.style(text, fg="red") if row.state and not row.gangs else text
    bar = _bar(row.room, layout.bar, screen)
    return f"{name}  {str(row.nodes).rjust(layout.nodes)}  {bar}  {figures}  {text}".rstrip()


def _gangs(row: Row, beside: _Beside, width: int, screen: Screen) -> str:
    """The largest first, as many as fit, then how many more; what is wrong with nodes comes before them."""
    namespace, chosen = beside.namespace, beside.gang
    times = TIMES if screen.is_unicode else "x"
    names = sorted(row.gangs, key=lambda name: (name != chosen, -row.gangs[name], name))
    parts = [f"{plain(name.removeprefix(f'{namespace}/'))} {times}{row.gangs[name]}" for name in names]
    parts += [f"{many(row.loose, 'pod')} of no gang"] if row.loose else []
    parts = parts + [row.state] * bool(row.state) if chosen else [row.state] * bool(row.state) + parts
    for kept in range(len(parts), 0, -1):
        more = f", +{len(parts) - kept}" if kept < len(parts) else ""
        text = ", ".join(parts[:kept])
        if len(text) + len(more) <= width:
            return text + more
        if kept == 1:
            return _shortened(text, width - len(more), screen) + more
    return ""


def _shortened(part: str, width: int, screen: Screen) -> str:
    """A name that is too long, with the number behind it as it is."""
    name, space, number = part.rpartition(" ")
    return middle_cut(name, width - len(number) - 1, screen) + space + number


def _bar(room: ResourceUsage, width: int, screen: Screen) -> str:
    """Used, lost, free; a share that is there at all has a cell where there is one to spare."""
    used_mark, lost_mark, free_mark = ("█", "×", "·") if screen.is_unicode else ("#", "x", ".")
    whole = max(room.capacity, room.used, 1)
    used = _share(room.used, whole, width)
    lost = min(_share(room.lost, whole, width), width - used)
    if room.free and used + lost == width and width > 1:
        used, lost = (used - 1, lost) if used else (used, lost - 1)
    cells = used_mark * used, lost_mark * lost, free_mark * (width - used - lost)
    if not screen.color:
        return "".join(cells)
    return click.style(cells[0], fg="cyan") + click.style(cells[1], fg="red") + click.style(cells[2], dim=True)


def _share(amount: int, whole: int, width: int) -> int:
    return min(width, max(1, (2 * amount * width + whole) // (2 * whole))) if amount else 0


def _figures(room: ResourceUsage, resource: str) -> str:
    return f"{_amount(room.used, resource)}/{_amount(room.capacity, resource)}"


def _amount(amount: int, resource: str) -> str:
    return str(amount // 1000) if resource == CPU else str(amount)


def _outside(view: View, tree: Tree, screen: Screen) -> Iterator[str]:
    """Nodes of other topologies are only counted; of all others those that lack the same keys are in one line."""
    elsewhere = _elsewhere(view, tree)
    counts = Counter(elsewhere[one.host.name] for one in tree.outside if one.host.name in elsewhere)
    if counts:
        yield ""
        line_text = [f"{many(count, 'node')} of {plain(name)}" for name, count in sorted(counts.items())]
        yield from _wrapped(f"outside: {enumerated(line_text)}", screen.width)
    ordered = sorted(tree.outside, key=lambda one: (len(one.misses), one.misses))
    rest = [one for one in ordered if one.host.name not in elsewhere]
    for misses, found in groupby(rest, key=lambda one: one.misses):
        nodes: list[Outside] = list(found)
        names = [plain(one.host.name) for one in nodes[:_MOST_NAMED]]
        more = [f"{len(nodes) - _MOST_NAMED} more"] if len(nodes) > _MOST_NAMED else []
        wants = enumerated([plain(key) for key in misses])
        yield ""
        yield from _wrapped(f"outside: {enumerated([*names, *more])} without {wants}", screen.width)


def _elsewhere(view: View, tree: Tree) -> dict[str, str]:
    """Nodes that other topologies hold, by the name of one of them."""
    others = [other for other in reversed(view.trees) if other.name != tree.name] if tree.outside else []
    return {host.name: other.name for other in others for host in other.root.all_hosts()}


def _only_namespace(tree: Tree) -> str:
    found = {name.partition("/")[0] for name in tree.root.gangs}
    return found.pop() if len(found) == 1 else ""


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "~"


def middle_cut(text: str, width: int, screen: Screen) -> str:
    """Both ends of a long name tell it from its neighbours."""
    if len(text) <= width:
        return text
    dots = "…" if screen.is_unicode else "~"
    end = (width - 1) // 2
    return text[: width - 1 - end] + dots + (text[-end:] if end else "")


def _bold(text: str, screen: Screen) -> str:
    return click.style(text, bold=True) if screen.color else text


_ASCII = str.maketrans({"├": "|", "└": "`", "─": "-", "│": "|", TIMES: "x"})
