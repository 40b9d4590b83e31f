"""A topology as nested boxes with a cell for each node: what the tree page and the pictures of gangs draw.

Geometry is left to templates and scripts. Boxes are numbered in the order in which they stand: as long as nodes and
topologies stay, so do the numbers. Drawings and findings that only nodes and topologies can change are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

from spinney.core.placement.explain.reasons import many
from spinney.core.view.lint import Lint, lint
from spinney.core.view.tree import CPU, Domain, Host, Path, ResourceUsages, Tree, View, sum_of
from spinney.serve.dashboard.data_sources import Key
from spinney.serve.dashboard.model import Model

COLOURS = 8
PATTERNS = ("", "s", "h")
"""Plain, with slanted and with level lines: twenty-four fills."""
MOST_CELLS = 2000
"""Of a domain with more nodes only boxes are drawn, each of which can be opened."""
_MOST_BOXES = 1000
_COLUMNS = ((3, 3), (8, 4), (9, 3), (16, 4), (20, 6), (42, 6), (80, 8))
_MOST_COLUMNS = 12
_MILLI = 1000

Planned = Mapping[str, Mapping[str, Mapping[str, int]]]
"""What planned pods would hold: by node, gang and resource in base units; `pods` is how many there would be."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a drawing counts. `parts`: so many base units are one of what is shown."""

    resource: str

    @property
    def parts(self) -> int:
        return _MILLI if self.resource == CPU else 1

    @property
    def word(self) -> str:
        kind = self.resource.rpartition("/")[2]
        return {"cpu": "CPU", "gpu": "GPU"}.get(kind, kind)

    def shown(self, amount: int) -> int:
        return amount // self.parts


class Share(NamedTuple):
    """What a gang holds of a node. `fill` depends on its name alone; `start`: where it begins in the cell."""

    gang: str
    fill: str
    start: int
    amount: int


def fill_of(gang: str) -> str:
    """The colour of a gang, or one of the patterns of the page, as an SVG has it."""
    pattern, colour = divmod(crc32(gang.encode()) % (COLOURS * len(PATTERNS)), COLOURS)
    return f"url(#{PATTERNS[pattern]}{colour})" if pattern else f"var(--g{colour})"


@dataclass(frozen=True, slots=True)
class Cell:
    """A node: its size, what is used of it, and what of that by the chosen gang, which has so many `pods` there.

    `state`: why it takes no pods. `unit`: what is counted, where that is not what the drawing counts. `shares`: gangs
    in their colours, if none is chosen. `words`: all of it as a sentence.
    """

    id: str
    name: str
    total: int
    used: int
    gang: int = 0
    state: str = ""
    pods: int = 0
    unit: str = ""
    shares: tuple[Share, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A domain with those below it, or with its cells; figures as those of a cell. Without either it can be opened.

    `unusable`: how many of its nodes take no pods. `path` is empty for nodes that are in no domain.
    """

    id: str
    level: str
    name: str
    depth: int
    nodes: int
    unusable: int
    path: Path
    total: int
    used: int
    gang: int
    pods: int
    unit: str
    kids: tuple[Box, ...] = ()
    cells: tuple[Cell, ...] = ()

    @property
    def columns(self) -> int:
        return next((columns for most, columns in _COLUMNS if len(self.cells) <= most), _MOST_COLUMNS)

    @property
    def closed(self) -> bool:
        return not self.kids and not self.cells


def unit_of(view: View, tree: Tree) -> Unit:
    return Unit(view.resource(tree))


def path_text(path: Path) -> str:
    """A path as it stands in an address."""
    return "/".join(quote(name, safe="") for name in path)


def path_of(text: str) -> Path:
    return tuple(map(unquote, text.split("/"))) if text else ()


class Drawing:
    """Boxes of one domain of a tree, drawn again and again: what has not changed is not drawn anew.

    Good for one structure: as long as nodes and topologies stay as they are. `chosen`: a gang that stands out; without
    one, or with `planned` pods, gangs have colours.
    """

    def __init__(
        self, tree: Tree, resources: Sequence[str], chosen: str = "", planned: Planned | None = None, depth: int = 0
    ) -> None:
        self._units = [Unit(resource) for resource in resources]
        self._deepest = deepest(tree)
        self._drawn_depth = depth or self._deepest
        self._has_cells = not depth
        self._chosen = chosen
        self._planned = planned
        self._drawn: dict[Path, _Drawn] = {}
        self._tree = tree
        self._boxes = 0
        self._cells = 0

    def boxes(self, tree: Tree, at: Domain) -> tuple[Box, ...]:
        """The domains below one of them, or itself if it is among the narrowest; nodes in no domain come last."""
        self._tree = tree
        self._boxes = self._cells = 0
        depth = len(at.path)
        parts = at.domains if depth < self._drawn_depth else (at,)
        found = [self._box(domain, len(domain.path)) for domain in parts]
        if tree.outside and not at.path:
            hosts = [one.host for one in tree.outside]
            found.append(self._leaf("not in this topology", "", Domain((), sum_of(hosts, len(self._units)), 0), hosts))
        return tuple(found)

    def _box(self, domain: Domain, depth: int) -> Box:
        known = self._drawn.get(domain.path)
        if known is not None and known.domain is domain:
            self._boxes += known.boxes
            self._cells += known.cells
            return known.box
        before = (self._boxes, self._cells)
        box = self._branch(domain, depth)
        self._drawn[domain.path] = _Drawn(domain, box, self._boxes - before[0], self._cells - before[1])
        return box

    def _branch(self, domain: Domain, depth: int) -> Box:
        level = self._tree.levels[depth - 1].name
        if depth >= self._drawn_depth:
            return self._leaf(domain.name, level, domain, list(domain.all_hosts()))
        number = self._number()
        kids = tuple([self._box(below, depth + 1) for below in domain.domains])
        figures = self._figures(domain.rooms, kids)
        return Box(number, level, domain.name, depth, domain.nodes, domain.unusable, domain.path, *figures, kids=kids)

    def _leaf(self, name: str, level: str, domain: Domain, hosts: list[Host]) -> Box:
        number = self._number()
        cells = tuple([self._cell(host) for host in hosts])
        figures = self._figures(domain.rooms, cells)
        unusable = sum(bool(cell.state) for cell in cells)
        shown = cells if self._has_cells or not domain.path else ()
        depth = max(1, len(domain.path))
        return Box(number, level, name, depth, len(cells), unusable, domain.path, *figures, cells=shown)

    def _figures(self, rooms: ResourceUsages, parts: Sequence[Box | Cell]) -> tuple[int, int, int, int, str]:
        """Size, use, the share of the chosen gang, its pods, and the unit. Shares in other units are not added up."""
        at = self._tree.own_resource(rooms)
        room, unit, word = rooms[at], self._units[at], self._word(at)
        gang = sum([part.gang for part in parts if part.unit == word])
        planned = gang if self._planned is not None else 0
        used = min(unit.shown(min(room.used, room.capacity)) + planned, unit.shown(room.capacity))
        return unit.shown(room.capacity), used, gang, sum([part.pods for part in parts]), word

    def _word(self, resource: int) -> str:
        """Empty for what the drawing counts; a name that tells it from that for anything else."""
        if resource == self._tree.resource:
            return ""
        own, main = self._units[resource], self._units[self._tree.resource]
        return own.word if own.word != main.word else own.resource

    def _cell(self, host: Host) -> Cell:
        at = self._tree.own_resource(host.rooms)
        room, unit = host.rooms[at], self._units[at]
        self._cells += 1
        total, used = unit.shown(room.capacity), unit.shown(min(room.used, room.capacity))
        planned = (self._planned or {}).get(host.name, {})
        gang, pods = unit.shown(host.held.get(self._chosen, (0,) * (at + 1))[at]), host.gangs.get(self._chosen, 0)
        shares = () if self._chosen or self._planned is not None else _shares(unit, _held(host, at))
        if planned:
            shares = _shares(unit, {name: asks.get(unit.resource, 0) for name, asks in planned.items()})
            gang, pods = sum(each.amount for each in shares), sum(asks["pods"] for asks in planned.values())
            used = min(used + gang, total)
        cell = Cell(f"n{self._cells}", host.name, total, used, gang, host.state, pods, self._word(at), shares)
        word = cell.unit or self._units[self._tree.resource].word
        return replace(cell, words=_words(cell, word, host, planned, self._chosen))

    def _number(self) -> str:
        self._boxes += 1
        return f"b{self._boxes}"


def _held(host: Host, at: int) -> dict[str, int]:
    return {gang: amounts[at] for gang, amounts in host.held.items()}


def _shares(unit: Unit, held: Mapping[str, int]) -> tuple[Share, ...]:
    found: list[Share] = []
    start = 0
    for gang in sorted(held):
        if amount := unit.shown(held[gang]):
            found.append(Share(gang, fill_of(gang), start, amount))
            start += amount
    return tuple(found)


def _words(cell: Cell, unit: str, host: Host, planned: Mapping[str, Mapping[str, int]], chosen: str) -> str:
    """What is read out, and shown under the drawing."""
    parts = [f"{cell.used} of {cell.total} {unit} {'used or planned' if planned else 'used'}"]
    parts += [f"{many(asks['pods'], 'pod')} planned for {name}" for name, asks in sorted(planned.items())]
    if chosen and cell.pods:
        parts.append(f"{cell.gang} by the chosen gang" if cell.gang else f"{many(cell.pods, 'pod')} of the chosen gang")
    parts += [f"{many(pods, 'pod')} of {name}" for name, pods in host.gangs.items() if name != chosen]
    parts += [host.state] if host.state else []
    parts += [f"taint {taint}" for taint in host.taints]
    return f"{cell.name}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A domain as it was drawn, and how many numbers that took."""

    domain: Domain
    box: Box
    boxes: int
    cells: int


def deepest(tree: Tree) -> int:
    """The level whose boxes have cells: the last one, unless each domain of it is one node."""
    last = len(tree.levels)
    return last - 1 if last > 1 and all(domain.nodes <= 1 for domain in tree.root.at(last)) else last


def depth_of(tree: Tree, at: Domain) -> int:
    """Down to which level boxes without cells are drawn of a domain; 0: cells are drawn."""
    outside = 0 if at.path else len(tree.outside)
    if at.nodes + outside <= MOST_CELLS or len(at.path) >= deepest(tree):
        return 0
    levels = range(deepest(tree), len(at.path) + 1, -1)
    few = (depth for depth in levels if sum(1 for _ in at.at(depth - len(at.path))) <= _MOST_BOXES)
    return next(few, len(at.path) + 1)


def filling(found: Iterable[Box]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """What may change while boxes stay as they are: of a box what is used and held; of a cell also its state, how
    many pods of the chosen gang are there, the shares of gangs, and its words.
    """
    for box in found:
        yield box.id, (box.used, box.gang)
        for cell in box.cells:
            yield cell.id, (cell.used, cell.gang, cell.state, cell.pods, cell.shares, cell.words)
        yield from filling(box.kids)


def pruned(found: Iterable[Box]) -> tuple[Box, ...]:
    """Only where the chosen gang is; the neighbours of its nodes stay."""
    return tuple([replace(box, kids=pruned(box.kids)) for box in found if box.pods])


def cells(found: Iterable[Box]) -> int:
    return sum(len(box.cells) + cells(box.kids) for box in found)


MOST_NAMED = 24


def legend(found: Iterable[Box]) -> list[tuple[str, str]]:
    """The gangs that are drawn in colours, by name, each with its colour; of many those that hold most."""
    held: dict[str, int] = {}
    for cell in _cells(found):
        for share in cell.shares:
            held[share.gang] = held.get(share.gang, 0) + share.amount
    most = sorted(held, key=lambda gang: (-held[gang], gang))[:MOST_NAMED]
    return [(gang, fill_of(gang)) for gang in sorted(most)]


def _cells(found: Iterable[Box]) -> Iterator[Cell]:
    for box in found:
        yield from box.cells
        yield from _cells(box.kids)


_MOST_DRAWINGS = 8


class RenderCache:
    """Drawings by domain and chosen gang, the least used of which are forgotten; and what is wrong with topologies."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._drawings: dict[tuple[int, str, Key | None, Path, int], Drawing] = {}
        self._lint: tuple[int, Lint] | None = None

    def boxes(
        self, view: View, tree: Tree, gang: Key | None, at: Domain | None = None, depth: int = 0
    ) -> tuple[Box, ...]:
        """All of the tree, or a domain of it, with boxes without cells down to a level if one is given."""
        root = at or tree.root
        wanted = (self._model.structure, tree.name, gang, root.path, depth)
        drawing = self._drawings.pop(wanted, None) or Drawing(tree, view.resources, "/".join(gang or ()), depth=depth)
        self._drawings[wanted] = drawing
        while len(self._drawings) > _MOST_DRAWINGS:
            del self._drawings[next(iter(self._drawings))]
        return drawing.boxes(tree, root)

    def lint(self) -> Lint:
        if self._lint is None or self._lint[0] != self._model.structure:
            seen = self._model.views
            found = lint(list(seen.nodes), seen.counting, list(seen.topologies))
            self._lint = (self._model.structure, found)
        return self._lint[1]
