"""Distributing equal pods over nodes: best fit, level by level down to the node.

Does not decide whether the pods fit (the capacities do), only which nodes are used first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spinney.core.placement.search.search_space import SearchSpace, bits


class LevelMasks(NamedTuple):
    """The domain masks per level, broad to narrow, and the depth down to which pods should use few domains.

    `parents`: where nodes are compared with each other at once, the masks by which ties are broken, narrow to broad.
    """

    levels: Sequence[Sequence[int]] = ()
    preferred_depth: int = 0
    parents: Sequence[Sequence[int]] = ()

    def around(self, mask: int) -> list[int]:
        """The domains that contain a node."""
        return [domain for level in self.parents for domain in level if domain & mask]


def fill(
    space: SearchSpace,
    kind: int,
    mask: int,
    count: int,
    caps: Mapping[int, int],
    level_masks: LevelMasks,
    spread: bool,
    used: int = 0,
) -> dict[int, int]:
    """Put `count` pods on nodes of the mask; the capacities there must sum up to at least `count`.

    `used` are nodes that the gang uses anyway: pods that prefer to be together go there first.
    """
    chosen: dict[int, int] = {}
    node_preference = space.types[kind].node_preference
    if spread:
        _spread(space, kind, mask, count, dict(caps), level_masks, chosen)
    elif node_preference is not None:
        nodes = [node for node in bits(mask) if caps.get(node, 0)]
        _in_order(
            sorted(nodes, key=lambda n: (_negative(node_preference[n]), space.room(1 << n), n)), count, caps, chosen
        )
    else:
        _descend(space, mask, count, caps, level_masks, 0, chosen, used)
    return chosen


def _negative(node_preference: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-value for value in node_preference)


def _in_order(order: Sequence[int], count: int, caps: Mapping[int, int], chosen: dict[int, int]) -> None:
    for node in order:
        if count <= 0:
            return
        here = min(count, caps[node])
        chosen[node] = chosen.get(node, 0) + here
        count -= here


def _descend(
    space: SearchSpace,
    mask: int,
    count: int,
    caps: Mapping[int, int],
    level_masks: LevelMasks,
    depth: int,
    chosen: dict[int, int],
    used: int,
) -> None:
    """Fill the tightest child that holds all the pods, else one child after the other.

    Down to the preferred level the child that holds most comes first (few domains), below it the tightest one.
    """
    if depth == len(level_masks.levels):
        children = [1 << node for node in bits(mask) if caps.get(node, 0)]
    else:
        children = _split(mask, level_masks.levels[depth])
        if len(children) == 1:
            _descend(space, children[0], count, caps, level_masks, depth + 1, chosen, used)
            return
    few = depth < level_masks.preferred_depth
    holds = {child: sum(caps.get(node, 0) for node in bits(child)) for child in children}
    order = [child for child in children if holds[child]]
    order.sort(key=lambda child: (few and not child & used, _rooms(space, child, level_masks), child & -child))
    while count > 0:
        chosen_child = next((child for child in order if holds[child] >= count), None)
        if chosen_child is None:
            chosen_child = max(order, key=lambda child: (bool(child & used), holds[child])) if few else order[0]
        order.remove(chosen_child)
        here = min(count, holds[chosen_child])
        if depth == len(level_masks.levels):
            node = chosen_child.bit_length() - 1
            chosen[node] = chosen.get(node, 0) + here
        else:
            _descend(space, chosen_child, here, caps, level_masks, depth + 1, chosen, used)
        count -= here


def _split(mask: int, domains: Sequence[int]) -> list[int]:
    """What a mask has of each domain, and of none of them."""
    children = [domain & mask for domain in domains if domain & mask]
    for child in children:
        mask &= ~child
    return [*children, mask] if mask else children


def _rooms(space: SearchSpace, child: int, level_masks: LevelMasks) -> list[tuple[int, ...]]:
    """The room of a child, then of the domains around it."""
    return [space.room(each) for each in (child, *level_masks.around(child))]


def _spread(
    space: SearchSpace,
    kind: int,
    mask: int,
    count: int,
    caps: dict[int, int],
    level_masks: LevelMasks,
    chosen: dict[int, int],
) -> None:
    """Place pods one by one, each on the node with the most free capacity."""
    asked = dict(space.types[kind].request)
    node_preference = space.types[kind].node_preference
    room = {node: list(space.room(1 << node)) for node in bits(mask) if caps.get(node, 0)}
    parents = {node: [[-a for a in space.room(each)] for each in level_masks.around(1 << node)] for node in room}
    for _ in range(count):
        node = min(
            (node for node in room if caps[node]),
            key=lambda n: (
                _negative(node_preference[n]) if node_preference else (),
                [-amount for amount in room[n]],
                parents[n],
                n,
            ),
        )
        chosen[node] = chosen.get(node, 0) + 1
        caps[node] -= 1
        for at, resource in enumerate(space.wanted):
            room[node][at] -= asked.get(resource, 0)
