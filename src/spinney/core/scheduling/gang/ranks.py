"""Ranks: numbers the pods of a gang along the topology, so that near ranks are near in the topology (K11).

Never changes the rank of a running pod: others may already use it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from itertools import count, islice

from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import distance

Path = tuple[str, ...]
_Place = tuple[bool, Path, str]


def ranks(
    inventory: Inventory,
    topology: str | None,
    seats: Sequence[tuple[str, str]],
    kept: Mapping[str, int] | None = None,
    blocks: Mapping[str, Hashable] | None = None,
) -> dict[str, int]:
    """A rank for every assignment (pod uid, node), ordered by domain path and node name, equal ones as given.

    `kept`: ranks of running members, by uid; list those members in `seats` as well. New pods then get free ranks, the
    nearest to the rank of their nearest neighbour. `blocks`: pods of one block (segment) get consecutive ranks.
    """
    placed = {uid: _place(inventory, topology, node) for uid, node in seats}
    order = _in_order(seats, placed, blocks or {})
    held = {uid: kept[uid] for uid, _ in seats if uid in kept} if kept else {}
    if not held:
        return {uid: rank for rank, uid in enumerate(order)}
    return _fitted_in(order, placed, held)


def _place(inventory: Inventory, topology: str | None, node: str) -> _Place:
    """Nodes outside the topology come last."""
    tree = inventory.tree(topology) if topology else None
    slot = inventory.find(node)
    if tree is None or slot is None:
        return True, (), node
    path = tuple(tree.locate(inventory.node(slot).labels))
    return not path, path, node


def _in_order(
    seats: Sequence[tuple[str, str]], placed: Mapping[str, _Place], blocks: Mapping[str, Hashable]
) -> list[str]:
    order = sorted((uid for uid, _ in seats), key=placed.__getitem__)
    if not blocks:
        return order
    gathered: dict[Hashable, list[str]] = {}
    for uid in order:
        gathered.setdefault(blocks.get(uid, ("", uid)), []).append(uid)
    return [uid for block in gathered.values() for uid in block]


def _fitted_in(order: Sequence[str], placed: Mapping[str, _Place], held: Mapping[str, int]) -> dict[str, int]:
    found = dict(held)
    taken = set(held.values())
    unused = (rank for rank in count() if rank not in taken)
    free = list(islice(unused, len(order) - len(held)))
    targets = _targets(order, placed, held)
    for uid in order:
        if uid not in held:
            found[uid] = _nearest(free, targets[uid])
    return found


def _targets(order: Sequence[str], placed: Mapping[str, _Place], held: Mapping[str, int]) -> dict[str, int]:
    """For each new pod the rank of the nearest running one in the tree: one of its two neighbours in order."""
    before = _beside(order, held)
    after = _beside(order[::-1], held)
    targets: dict[str, int] = {}
    for uid in order:
        beside = [near for near in (before[uid], after[uid]) if near is not None]
        nearest = min(beside, key=lambda near: _apart(placed[uid], placed[near]))
        targets[uid] = held[nearest]
    return targets


def _beside(order: Sequence[str], held: Mapping[str, int]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    last = None
    for uid in order:
        if uid in held:
            last = uid
        found[uid] = last
    return found


def _apart(one: _Place, other: _Place) -> tuple[bool, int, bool]:
    return one[0] != other[0], distance(one[1], other[1]), one[2] != other[2]


def _nearest(free: list[int], target: int) -> int:
    """Take the free number nearest to the target, the lower of two."""
    at = bisect_left(free, target)
    if at == len(free) or (at > 0 and target - free[at - 1] <= free[at] - target):
        at -= 1
    return free.pop(at)
