"""A topology as nested boxes with a cell for each node: what the tree page and the picture of a gang draw.

Geometry is left to templates and scripts. Boxes are numbered in the order in which they stand: as long as nodes and
topologies stay, so do the numbers. Drawings and findings that only nodes and topologies can change are cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.gang.pod_shape import requests
from spinney.core.view.lint import Lint, lint
from spinney.core.view.tree import CPU, Domain, Host, Path, ResourceUsages, Tree, View, sum_of
from spinney.serve.dashboard.data_sources import Key
from spinney.serve.dashboard.model import Model

_COLUMNS = ((3, 3), (8, 4), (9, 3), (16, 4), (20, 6), (42, 6), (80, 8))
_MOST_COLUMNS = 12
_MILLI = 1000

Held = Mapping[str, Mapping[str, int]]
"""What pods of the chosen gang hold, by node and resource in base units; `pods` is how many there are."""


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


@dataclass(frozen=True, slots=True)
class Cell:
    """A node: its size, what is used of it, and what of that by the chosen gang, which has so many `pods` there.

    `state`: why it takes no pods. `unit`: what is counted, where that is not what the drawing counts.
    """

    id: str
    name: str
    total: int
    used: int
    gang: int = 0
    state: str = ""
    pods: int = 0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A domain with those below it, or with its cells; figures as those of a cell."""

    id: str
    level: str
    name: str
    depth: int
    nodes: int
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


def unit_of(view: View, tree: Tree) -> Unit:
    return Unit(view.resource(tree))


def held_by(pods: Iterable[Pod]) -> Held:
    held: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.is_over:
            held.setdefault(pod.spec.node_name, Counter()).update(requests(pod))
    return held


class Drawing:
    """Boxes of one tree with one gang chosen, drawn again and again: what has not changed is not drawn anew.

    Good for one structure: as long as nodes and topologies stay as they are.
    """

    def __init__(self, tree: Tree, resources: Sequence[str]) -> None:
        self._units = [Unit(resource) for resource in resources]
        self._deepest = _deepest(tree)
        self._drawn: dict[Path, _Drawn] = {}
        self._tree = tree
        self._held: Held = {}
        self._boxes = 0
        self._cells = 0

    def boxes(self, tree: Tree, held: Held) -> tuple[Box, ...]:
        """The domains of the broadest level; nodes that are not in the topology come last."""
        self._tree, self._held = tree, held
        self._boxes = self._cells = 0
        found = [self._box(domain, 1) for domain in tree.root.domains]
        if tree.outside:
            hosts = [one.host for one in tree.outside]
            rooms = sum_of(hosts, len(self._units))
            found.append(self._leaf("not in this topology", "", 1, hosts, rooms))
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
        if depth >= self._deepest:
            return self._leaf(domain.name, level, depth, list(domain.all_hosts()), domain.rooms)
        number = self._number()
        kids = tuple([self._box(below, depth + 1) for below in domain.domains])
        return Box(number, level, domain.name, depth, domain.nodes, *self._figures(domain.rooms, kids), kids=kids)

    def _leaf(self, name: str, level: str, depth: int, hosts: list[Host], rooms: ResourceUsages) -> Box:
        number = self._number()
        cells = tuple([self._cell(host) for host in hosts])
        return Box(number, level, name, depth, len(cells), *self._figures(rooms, cells), cells=cells)

    def _figures(self, rooms: ResourceUsages, parts: Sequence[Box | Cell]) -> tuple[int, int, int, int, str]:
        """Size, use, the share of the chosen gang, its pods, and the unit. Shares in other units are not added up."""
        at = self._tree.own_resource(rooms)
        room, unit, word = rooms[at], self._units[at], self._word(at)
        gang = sum([part.gang for part in parts if part.unit == word])
        used = unit.shown(min(room.used, room.capacity))
        return unit.shown(room.capacity), used, gang, sum([part.pods for part in parts]), word

    def _word(self, resource: int) -> str:
        """Empty for what the drawing counts; a name that tells it from that for anything else."""
        if resource == self._tree.resource:
            return ""
        own, main = self._units[resource], self._units[self._tree.resource]
        return own.word if own.word != main.word else own.resource

    def _cell(self, host: Host) -> Cell:
        at = self._tree.own_resource(host.rooms)
        room, unit, held = host.rooms[at], self._units[at], self._held.get(host.name, {})
        self._cells += 1
        return Cell(
            f"n{self._cells}",
            host.name,
            unit.shown(room.capacity),
            unit.shown(min(room.used, room.capacity)),
            unit.shown(held.get(unit.resource, 0)),
            host.state,
            held.get("pods", 0),
            self._word(at),
        )

    def _number(self) -> str:
        self._boxes += 1
        return f"b{self._boxes}"


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A domain as it was drawn, and how many numbers that took."""

    domain: Domain
    box: Box
    boxes: int
    cells: int


def _deepest(tree: Tree) -> int:
    """The level whose boxes have cells: the last one, unless each domain of it is one node."""
    last = len(tree.levels)
    return last - 1 if last > 1 and all(domain.nodes <= 1 for domain in tree.root.at(last)) else last


def filling(found: Iterable[Box]) -> Iterator[tuple[str, tuple[int | str, ...]]]:
    """What may change while boxes stay as they are: of a box what is used and held; of a cell also its state, and how
    many pods of the chosen gang are there.
    """
    for box in found:
        yield box.id, (box.used, box.gang)
        for cell in box.cells:
            yield cell.id, (cell.used, cell.gang, cell.state, cell.pods)
        yield from filling(box.kids)


def pruned(found: Iterable[Box]) -> tuple[Box, ...]:
    """Only where the chosen gang is; the neighbours of its nodes stay."""
    return tuple([replace(box, kids=pruned(box.kids)) for box in found if box.pods])


def cells(found: Iterable[Box]) -> int:
    return sum(len(box.cells) + cells(box.kids) for box in found)


_MOST_DRAWINGS = 8


class RenderCache:
    """Drawings by tree and chosen gang, the least used of which are forgotten; and what is wrong with topologies."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._drawings: dict[tuple[int, str, Key | None], Drawing] = {}
        self._lint: tuple[int, Lint] | None = None

    def boxes(self, view: View, tree: Tree, gang: Key | None) -> tuple[Box, ...]:
        wanted = (self._model.structure, tree.name, gang)
        drawing = self._drawings.pop(wanted, None) or Drawing(tree, view.resources)
        self._drawings[wanted] = drawing
        while len(self._drawings) > _MOST_DRAWINGS:
            del self._drawings[next(iter(self._drawings))]
        pods = self._model.pods_of(gang) if gang is not None else []
        return drawing.boxes(tree, held_by(pods))

    def lint(self) -> Lint:
        if self._lint is None or self._lint[0] != self._model.structure:
            seen = self._model.views
            found = lint(list(seen.nodes), seen.counting, list(seen.topologies))
            self._lint = (self._model.structure, found)
        return self._lint[1]
