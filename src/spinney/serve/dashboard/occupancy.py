"""How full every node is, as arrays over all nodes: of the accelerator that there is most of, else of processors.

As of one moment; nothing in here changes the inventory it is read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.state import Inventory
from spinney.core.view.tree import CPU, is_accelerator
from spinney.serve.dashboard.boxes import Unit

Amounts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """By node. `leaving` is a part of `used`; `sound`: takes new pods."""

    unit: Unit
    total: Amounts
    used: Amounts
    leaving: Amounts
    ready: npt.NDArray[np.bool_]
    sound: npt.NDArray[np.bool_]

    @property
    def free(self) -> Amounts:
        """What new pods could have now."""
        found: Amounts = np.where(self.sound, np.maximum(self.total - self.used, 0), 0)
        return found


def occupancy(inventory: Inventory) -> Occupancy:
    slots = sorted(slot for slot in inventory.slots() if inventory.home(slot) == slot)
    nodes = [inventory.node(slot) for slot in slots]
    offered = np.array([node.allocatable for node in nodes], np.int64).reshape(len(nodes), len(inventory.resources))
    at = _most(inventory.resources, offered)
    total = offered[:, at]
    idle = np.array([inventory.idle[slot][at] for slot in slots], np.int64)
    return Occupancy(
        Unit(inventory.resources[at]),
        total,
        total - idle,
        np.array([inventory.releasing[slot][at] for slot in slots], np.int64),
        np.array([node.ready for node in nodes], np.bool_),
        np.array([node.ready and not node.unschedulable for node in nodes], np.bool_),
    )


def _most(resources: Sequence[str], offered: Amounts) -> int:
    """The accelerator that there is most of; of equals the first by name."""
    sums = offered.sum(axis=0).tolist()
    kinds = [at for at, name in enumerate(resources) if is_accelerator(name) and sums[at]]
    return min(kinds, key=lambda at: (-sums[at], resources[at]), default=resources.index(CPU))
