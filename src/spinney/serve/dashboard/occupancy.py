"""How full every node is, as arrays over all nodes: of each accelerator that there is, else of processors.

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


def occupancies(inventory: Inventory) -> list[Occupancy]:
    """One at least; of the accelerator that there is most of first."""
    slots = sorted(slot for slot in inventory.slots() if inventory.home(slot) == slot)
    nodes = [inventory.node(slot) for slot in slots]
    ready = np.array([node.ready for node in nodes], np.bool_)
    sound = np.array([node.ready and not node.unschedulable for node in nodes], np.bool_)
    found = []
    for at in accelerators(inventory.resources, [node.allocatable for node in nodes]):
        total = np.array([node.allocatable[at] for node in nodes], np.int64)
        idle = np.array([inventory.idle[slot][at] for slot in slots], np.int64)
        leaving = np.array([inventory.releasing[slot][at] for slot in slots], np.int64)
        found.append(Occupancy(Unit(inventory.resources[at]), total, total - idle, leaving, ready, sound))
    return found


def accelerators(resources: Sequence[str], offered: Sequence[Sequence[int]]) -> list[int]:
    """Those that nodes offer, most of all first, equals by name; processors where there are none."""
    sums = {at: sum([each[at] for each in offered]) for at, name in enumerate(resources) if is_accelerator(name)}
    kinds = sorted((at for at in sums if sums[at]), key=lambda at: (-sums[at], resources[at]))
    return kinds or [resources.index(CPU)]
