"""What nodes would hold if nothing ran on them: allocatable amounts of nodes, and of the zones of divided ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Amounts, Node
from spinney.core.inventory.counts import LARGEST_ROOM, Shape
from spinney.core.inventory.inventory import Inventory

_EXACT = 1 << 53
"""Up to here sums of doubles are exact."""

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class EmptyNodes:
    """The capacity of some slots: distinct rows of amounts, and by slot the number of its row."""

    inventory: Inventory
    nodes: Flags
    rows: list[Amounts | None] = field(init=False)
    codes: Numbers = field(init=False)

    def __post_init__(self) -> None:
        inventory = self.inventory
        self.codes = inventory.capacity.codes().astype(np.int64)
        known = dict(inventory.capacity.numbers)
        for slot, divided in inventory.divided.items():
            if slot != divided.slot:
                row = _zone_amounts(inventory.node(divided.slot), inventory.zone(slot))
                self.codes[slot] = known.setdefault(row, len(known))
        self.rows = list(known)

    def fit(self, shape: Shape) -> Numbers:
        """By slot: how many pods of a shape fit on the empty node."""
        most = 1 if shape.single or shape.ports else LARGEST_ROOM
        fit = [0 if row is None else min(most, _times(row, shape.request)) for row in self.rows]
        return np.array(fit, np.int64)[self.codes] * self.nodes

    def amounts(self, resource: int) -> Numbers | None:
        """By slot: how much of a resource the empty node has; None: too much to be summed up."""
        amounts = [0 if row is None else row[resource] for row in self.rows]
        if max(amounts) > LARGEST_ROOM:
            return None
        return np.array(amounts, np.int64)[self.codes] * self.nodes

    def largest(self, resource: int) -> int:
        """The most of a resource that any node has."""
        used = [self.rows[code] for code in set(self.codes[self.nodes].tolist())]
        return max((row[resource] for row in used if row is not None), default=0)

    def admitted(self, shape: Shape) -> Flags:
        return self.inventory.masks.of(shape.filter).array() & self.nodes


def _zone_amounts(node: Node, name: str) -> Amounts:
    """What a zone has; of a resource that zones do not account for, what its node has."""
    zone = next(zone for zone in node.zones if zone.name == name)
    counted = [any(amounts) for amounts in zip(*(each.allocatable for each in node.zones), strict=True)]
    return tuple(
        min(own, whole) if known else whole
        for own, whole, known in zip(zone.allocatable, node.allocatable, counted, strict=True)
    )


def _times(row: Amounts, request: Amounts) -> int:
    return min((have // want for have, want in zip(row, request, strict=True) if want), default=LARGEST_ROOM)


def sums_by(domain: npt.NDArray[np.int32], held: Numbers, domains: int) -> Numbers:
    """Sums of amounts by domain id; `domain`: by slot, -1 for none."""
    if int(held.max(initial=0)) * len(held) < _EXACT:
        return np.bincount(domain + 1, held, domains + 1)[1:].astype(np.int64)
    sums = np.zeros(domains + 1, np.int64)
    np.add.at(sums, domain + 1, held)
    return sums[1:]
