"""The reader: a document in the exchange format, text or plain values, to a `Problem`."""

from __future__ import annotations

import math
from typing import Any

from spinney.api import documents
from spinney.api.documents import DocumentError, Limits
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate, Options, Problem, Topology
from spinney.api.placement.reading.errors import Path, Unreadable, refused
from spinney.api.placement.reading.fields import Scale, distinct, one_of, whole
from spinney.api.placement.reading.gangs import read_gangs
from spinney.api.placement.reading.nodes import read_nodes
from spinney.api.placement.reading.structure import structured
from spinney.api.placement.reading.wire import WireConsolidate, WireOptions, WireTopology

PROBLEM = Limits(bytes=1024 * 1024 * 1024, depth=500, values=100_000_000, aliased=1_000_000, text_keys=True)
"""A cluster of a hundred thousand nodes with all that runs on it, and groups in groups."""


def decode_json(body: bytes) -> Any:
    """The value of a JSON text; raises Unreadable."""
    try:
        return documents.read_json(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def decode_text(body: bytes) -> Any:
    """The value of a JSON or YAML text in UTF-8; raises Unreadable, with the line where one is known."""
    try:
        return documents.read_document(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def line_of(body: bytes, path: Path) -> int | None:
    """The line where a field is written, if it can be found."""
    return documents.line_of(body, path)


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
