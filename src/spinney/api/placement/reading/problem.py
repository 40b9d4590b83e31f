"""A document in the exchange format to a `Problem`.

Raises `Unreadable` and nothing else. What the format calls `invalid` is read: the engine gives that answer.
"""

from __future__ import annotations

import math
from typing import Any

from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate, Options, Problem, Topology
from spinney.api.placement.reading.amounts import Scale
from spinney.api.placement.reading.checks import distinct, one_of, whole
from spinney.api.placement.reading.gangs import read_gangs
from spinney.api.placement.reading.nodes import read_nodes
from spinney.api.placement.reading.structure import structured
from spinney.api.placement.reading.unreadable import Path, refused
from spinney.api.placement.reading.wire import WireConsolidate, WireOptions, WireTopology

_DEFAULTS = Consolidate()


def read_problem(document: Any) -> Problem:
    """The problem in a document of plain JSON values."""
    wire = structured(document)
    distinct(wire.resources, ("resources",))
    scale = Scale(wire.resources)
    topologies = _topologies(wire.topologies or ())
    nodes = read_nodes(wire.nodes, wire.resources, scale)
    return Problem(
        resources=wire.resources,
        topologies=topologies,
        nodes=nodes,
        gangs=read_gangs(wire.gangs, scale, {one.name: frozenset(zone.name for zone in one.zones) for one in nodes}),
        options=_options(wire.options),
    )


def _topologies(wire: tuple[WireTopology, ...]) -> tuple[Topology, ...]:
    distinct([one.name for one in wire], ("topologies",), "name")
    for index, one in enumerate(wire):
        distinct(one.levels or (), ("topologies", index, "levels"))
    return tuple(Topology(one.name, one.levels or (), bool(one.zones and one.levels)) for one in wire)


def _options(wire: WireOptions | None) -> Options:
    if wire is None:
        return Options()
    return Options(
        strategy=one_of(wire.strategy, "binpack", ("binpack", "spread"), ("options", "strategy")),
        budget=whole(wire.budget, DEFAULT_BUDGET, ("options", "budget")),
        preempt=bool(wire.preempt),
        extras=one_of(wire.extras, "place", ("place", "skip"), ("options", "extras")),
        consolidate=_consolidate(wire.consolidate, ("options", "consolidate")) if wire.consolidate else None,
    )


def _consolidate(wire: WireConsolidate, path: Path) -> Consolidate:
    loss = _DEFAULTS.max_loss if wire.max_loss is None else wire.max_loss
    if not (math.isfinite(loss) and loss >= 0):
        raise refused((*path, "maxLoss"), loss, "a number of 0 or more")
    return Consolidate(max_moves=whole(wire.max_moves, _DEFAULTS.max_moves, (*path, "maxMoves")), max_loss=loss)
