"""What would not fit on empty nodes either: pods that no node is large enough for, parts that no domain can hold.

Counts allocatable amounts only, never what is free. Each answer is a necessary condition that fails: a proof. None
proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spinney.core.inventory.counts import Shape
from spinney.core.placement.empty_nodes import EmptyNodes, Numbers, sums_by
from spinney.core.placement.explain.context import RefusalContext, shape_of
from spinney.core.placement.explain.exclusions import excluded
from spinney.core.placement.gang.gang_tree import Level, Part

NODE, ZONE, EITHER = "node", "NUMA zone", "node or NUMA zone"


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A pod set may use none of the nodes that are large enough for its pod. `causes`: nodes per reason."""

    part: Part
    nodes: int
    causes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """No node is large enough for a pod. `asked`, `largest`: where one resource alone is more than any node has.

    `unit`: what has to hold a pod.
    """

    part: Part
    asked: Mapping[str, int]
    largest: Mapping[str, int]
    unit: str


@dataclass(frozen=True, slots=True)
class TooMany:
    """No domain of a level (None: all nodes together) holds a part when it is empty; `holds`: what the largest does.

    `resource` empty: `asked` and `holds` are pods of one size, else amounts of the resource.
    """

    part: Part
    level: Level | None
    asked: int
    holds: int
    resource: str = ""


Never = KeptOut | TooLarge | TooMany


def never_fits(context: RefusalContext) -> Never | None:
    """The first proof that the chosen parts would not fit on empty nodes."""
    if not context.inventory.slots():
        return None
    empty = EmptyNodes(context.inventory, context.nodes)
    single = (_one_pod(context, empty, leaf, shape) for shape, leaf in _one_of_each(context.active).items())
    together = (_together(context, empty, part) for part in _bound(context))
    return next((found for found in (*single, *together) if found is not None), None)


def _one_of_each(leaves: list[Part]) -> dict[Shape, Part]:
    found: dict[Shape, Part] = {}
    for leaf in leaves:
        found.setdefault(shape_of(leaf), leaf)
    return found


def _one_pod(context: RefusalContext, empty: EmptyNodes, leaf: Part, shape: Shape) -> KeptOut | TooLarge | None:
    """Why no pod of a pod set fits on any empty node that it may use."""
    fit = empty.fit(shape)
    if (fit[empty.admitted(shape)] > 0).any():
        return None
    home = context.inventory.home
    large = {home(slot): slot for slot in np.flatnonzero(fit > 0).tolist()}
    if large:
        return KeptOut(leaf, len(large), excluded(context, shape.filter, np.array(sorted(large.values()), np.int64)))
    names = context.inventory.resources
    most = {at: empty.largest(at) for at in context.asked.wanted}
    lacks = [at for at in context.asked.wanted if shape.request[at] > most[at]]
    asked = {names[at]: shape.request[at] for at in lacks or context.asked.wanted if shape.request[at]}
    return TooLarge(leaf, asked, {names[at]: most[at] for at in lacks}, _unit(context))


def _unit(context: RefusalContext) -> str:
    slots = set(np.flatnonzero(context.nodes).tolist())
    zones = len(slots & context.inventory.divided.keys())
    return NODE if not zones else ZONE if zones == len(slots) else EITHER


def _bound(context: RefusalContext) -> Iterator[Part]:
    """The whole, and the chosen parts with a required level; of equal ones the first."""
    seen: set[int] = set()
    stack = [0]
    while stack:
        part = context.parts.all[stack.pop()]
        stack.extend(reversed(context.children.get(part.index, ())))
        if (part.index == 0 or part.required is not None) and (part.kind not in seen or context.pinned(part)):
            seen.add(part.kind)
            yield part


def _together(context: RefusalContext, empty: EmptyNodes, part: Part) -> TooMany | None:
    """The first sum over a part that is more than every domain of its required level has when it is empty."""
    inside = {leaf.index for leaf in context.parts.below(part)}
    leaves = [leaf for leaf in context.active if leaf.index in inside]
    domains = _domains(context, part)
    if not leaves or (domains is not None and not len(domains)):
        return None
    return _pods(context, empty, part, leaves, domains) or _amounts(context, empty, part, leaves, domains)


def _domains(context: RefusalContext, part: Part) -> Numbers | None:
    """The domains that a part may use: one if members of it run; None: it is not bound to a domain."""
    level = part.required
    if level is None:
        return None
    domain_of = context.inventory.trees[level.topology].domain_of(level.depth)
    pinned = {domain_of[slot] for slot in context.pinned(part)}
    found = context.domains(level)
    return found[np.isin(found, list(pinned))] if pinned else found


def _pods(
    context: RefusalContext, empty: EmptyNodes, part: Part, leaves: list[Part], domains: Numbers | None
) -> TooMany | None:
    """Pods of one shape."""
    for shape in _one_of_each(leaves):
        alike = [leaf for leaf in leaves if shape_of(leaf) == shape]
        need = sum(context.needs[leaf.index] for leaf in alike)
        held = empty.fit(shape) * empty.admitted(shape)
        whose = alike[0] if len(alike) == 1 < len(leaves) else part
        found = _most(context, whose, part.required, need, held, domains)
        if found is not None:
            return found
    return None


def _amounts(
    context: RefusalContext, empty: EmptyNodes, part: Part, leaves: list[Part], domains: Numbers | None
) -> TooMany | None:
    """One resource, summed up over pods of all shapes."""
    usable = np.zeros(len(context.nodes), np.bool_)
    for shape in _one_of_each(leaves):
        usable |= empty.admitted(shape)
    for at in context.asked.wanted:
        need = sum(context.needs[leaf.index] * shape_of(leaf).request[at] for leaf in leaves)
        there = empty.amounts(at)
        if there is None:
            continue
        name = context.inventory.resources[at]
        found = _most(context, part, part.required, need, there * usable, domains, name)
        if found is not None:
            return found
    return None


def _most(
    context: RefusalContext,
    part: Part,
    level: Level | None,
    need: int,
    held: Numbers,
    domains: Numbers | None,
    resource: str = "",
) -> TooMany | None:
    """Whether the largest domain has less than is needed; `held`: by slot."""
    if level is None or domains is None:
        whole = int(held.sum())
        return TooMany(part, None, need, whole, resource) if whole < need else None
    tree = context.inventory.trees[level.topology]
    sums = sums_by(np.asarray(tree.domain_array(level.depth)), held, tree.domains(level.depth))
    most = int(sums[domains].max())
    return TooMany(part, level, need, most, resource) if most < need else None
