"""Topologies as values: levels with what nodes say about them, who uses them, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spinney.core.view.lint import Problem
from spinney.core.view.tree import Tree
from spinney.serve.dashboard.boxes import Unit, unit_of
from spinney.serve.dashboard.data_sources import TopologyUse
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.render_cache import RenderCache


@dataclass(frozen=True, slots=True)
class LevelRow:
    name: str
    key: str
    domains: int


@dataclass(frozen=True, slots=True)
class TopologyRow:
    name: str
    kinds: tuple[str, ...]
    levels: tuple[LevelRow, ...]
    nodes: int
    outside: int
    unit: Unit
    total: int
    used: int


@dataclass(frozen=True, slots=True)
class TopologiesPage:
    topologies: tuple[TopologyRow, ...]
    uses: tuple[TopologyUse, ...]
    problems: tuple[Problem, ...]


def topologies_page(model: Model, kept: RenderCache, uses: Sequence[TopologyUse]) -> TopologiesPage:
    view = model.trees()
    rows = tuple(_row(tree, unit_of(view, tree)) for tree in view.trees)
    return TopologiesPage(rows, tuple(uses), kept.lint().problems)


def _row(tree: Tree, unit: Unit) -> TopologyRow:
    levels = [
        LevelRow(level.name, level.key, sum(1 for _ in tree.root.at(depth)))
        for depth, level in enumerate(tree.levels, start=1)
    ]
    room = tree.room(tree.root)
    shown = (unit.shown(room.capacity), unit.shown(room.used))
    return TopologyRow(tree.name, tree.kinds, tuple(levels), tree.root.nodes, len(tree.outside), unit, *shown)
