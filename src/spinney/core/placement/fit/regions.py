"""Search regions: the nodes of a decision, split into regions that can be searched one after the other.

A gang whose root has a required level lies in one domain, so every such domain that could hold it by count is a region,
tightest first. Never leaves out a node that a placement could use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.fit.counting import Counting, Profile
from spinney.core.placement.gang.gang_tree import GangTree, Level

SMALL = 256  # up to this many nodes, splitting costs more than it saves


class Region(NamedTuple):
    """Slots of a search space, and those of them that new pods may use (None: all)."""

    slots: list[int]
    usable: frozenset[int] | None = None


def find_regions(
    counting: Counting, parts: GangTree, asked: Profile, scope: list[int] | None, waiting: bool, spread: bool
) -> Iterator[Region]:
    """Regions in best-fit order; together they contain every possible placement."""
    inventory = counting.inventory
    pinned = sorted({inventory.seat(member.node, member.zone) for member in parts.gang.running})
    if scope is not None:
        yield Region(sorted({*scope, *pinned}), frozenset(scope))
        return
    root = parts.all[0].required
    if len(inventory.slots()) <= SMALL:
        yield Region(sorted(inventory.slots()))
    elif root is None:
        yield Region(sorted({*_promising(counting, asked, waiting), *pinned}))
    else:
        yield from _domains(counting, parts, asked, root, pinned, waiting, spread)


def _promising(counting: Counting, asked: Profile, waiting: bool) -> list[int]:
    """Nodes on which at least one pod of the gang fits."""
    inventory = counting.inventory
    fits = np.zeros(len(inventory.idle), np.bool_)
    for shape in asked.all_shapes:
        fits |= inventory.counts(shape, waiting).per_node > 0
    return [int(slot) for slot in np.flatnonzero(fits)]


def _domains(
    counting: Counting, parts: GangTree, asked: Profile, root: Level, pinned: list[int], waiting: bool, spread: bool
) -> Iterator[Region]:
    tree = counting.inventory.trees[root.topology]
    ids = np.flatnonzero(counting.could_hold(parts, asked, parts.all[0], root.depth, waiting))
    if pinned:
        homes = {tree.domain_of(root.depth)[slot] for slot in pinned}
        if len(homes) > 1 or NOWHERE in homes:
            return
        ids = ids[ids == homes.pop()]
    room = counting.inventory.room(asked.filters, asked.wanted)
    keys: list[npt.NDArray[np.signedinteger]] = [tree.rank(root.depth)[ids]]
    for resource in reversed(asked.wanted):
        amounts = room.at(root.topology, root.depth, resource)[ids]
        keys.append(-amounts if spread else amounts)
    if asked.elastic:
        keys.append(-_extras(counting, asked, root, waiting)[ids])
    slots = (list(tree.members(root.depth, int(ids[at]))) for at in np.lexsort(keys))
    yield from map(Region, _distinct(slots, counting, parts, asked, root, waiting))


def _distinct(
    found: Iterator[list[int]], counting: Counting, parts: GangTree, asked: Profile, root: Level, waiting: bool
) -> Iterator[list[int]]:
    """Only the first of several domains that differ only in their names: a placement in another one is as good.

    Compares the nodes in the order of their names: free amounts, the pods each could hold, and the domains below the
    root that they share. Where more matters (host ports, anti-affinity, NUMA zones, another tree) all domains count as
    different.
    """
    levels = {level.topology for part in parts.all for level in (part.required, part.preferred) if level is not None}
    choosy = any(leaf.pods is not None and (leaf.pods.anti_affinity or leaf.pods.host_ports) for leaf in parts.leaves)
    if choosy or len(levels) > 1 or counting.inventory.divided:
        yield from found
        return
    inventory, tree = counting.inventory, counting.inventory.trees[root.topology]
    fits = [inventory.counts(shape, waiting).per_node for shape in asked.all_shapes]
    below = [tree.domain_of(depth) for depth in range(root.depth + 1, len(tree.levels) + 1)]
    seen: set[object] = set()
    for slots in found:
        amounts = tuple([tuple(inventory.free(slot, waiting)) for slot in slots])
        symmetry_class = (
            amounts,
            *(each[slots].tobytes() for each in fits),
            *(_shared([ids[slot] for slot in slots]) for ids in below),
        )
        if symmetry_class not in seen:
            seen.add(symmetry_class)
            yield slots


def _shared(ids: list[int]) -> tuple[int, ...]:
    """Which nodes share a domain: each domain is numbered by its first node; a node in no domain gets NOWHERE."""
    first: dict[int, int] = {}
    return tuple([NOWHERE if each == NOWHERE else first.setdefault(each, at) for at, each in enumerate(ids)])


def _extras(counting: Counting, asked: Profile, root: Level, waiting: bool) -> npt.NDArray[np.int64]:
    """By domain id: how many elastic pods beyond the minimum it could take, by count."""
    needs = dict(asked.shapes[0])
    total = np.zeros(counting.inventory.trees[root.topology].domains(root.depth), np.int64)
    for shape, extra in asked.extras.items():
        left = counting.inventory.counts(shape, waiting).at(root.topology, root.depth) - needs.get(shape, 0)
        total += np.clip(left, 0, extra)
    return total
