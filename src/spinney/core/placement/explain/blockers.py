"""What keeps pods off nodes: nodes per reason, and nodes per gang that occupies them.

A node is blocked when it takes no pod of the gang; it is counted once, under the first reason that applies.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.api.placement.result import Blocked
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.filters import condition, out_of_company
from spinney.core.placement.explain.context import Flags, Numbers, RefusalContext

MOST_GANGS = 10
MOST_MEMBERS = 200_000
"""With more live pods no gang is named: going through all of them would take longer than the decision."""


def find_blockers(context: RefusalContext, slots: Numbers) -> Blocked:
    """The reasons and the occupying gangs for some slots."""
    return Blocked(dict(sorted(_reasons(context, slots).items())), _occupied(context, slots))


def _reasons(context: RefusalContext, slots: Numbers) -> Counter[str]:
    """Blocked nodes per reason; of several shapes, the one closest to fitting on a node determines the reason."""
    found: Counter[str] = Counter()
    rest = _one_for_each_node(context, slots)
    shapes = sorted(context.shapes, key=lambda shape: [shape.request[r] for r in context.asked.wanted])
    for shape in shapes:
        admitted = context.inventory.masks.of(shape.filter).array()[rest]
        found += _insufficient(context, shape, rest[admitted])
        rest = rest[~admitted]
    if shapes and len(rest):
        found += _excluded(context, shapes[0].filter, rest)
    return found


def _one_for_each_node(context: RefusalContext, slots: Numbers) -> Numbers:
    """The slots that take no pod; for a divided node without any usable zone, one of its slots."""
    useful = context.useful()
    rest = slots[~useful[slots]]
    if not context.inventory.divided:
        return rest
    home = context.inventory.home
    busy = {home(slot) for slot in slots[useful[slots]].tolist()}
    first = {home(slot): slot for slot in reversed(rest.tolist()) if home(slot) not in busy}
    return np.array(sorted(first.values()), np.int64)


def _insufficient(context: RefusalContext, shape: Shape, slots: Numbers) -> Counter[str]:
    """Nodes that the filter admits but that lack resources or host ports; scarce resources are checked first."""
    found: Counter[str] = Counter()
    free_arrays = context.inventory.free_arrays
    free_arrays.refresh()
    for resource in context.asked.wanted:
        lacks = free_arrays.free(resource, True)[slots] < shape.request[resource]
        if shape.request[resource] and lacks.any():
            found[f"insufficient {context.inventory.resources[resource]}"] = int(lacks.sum())
            slots = slots[~lacks]
    clashes = sum(context.inventory.port_use.clash(slot, shape.ports, True) for slot in slots.tolist())
    if clashes:
        found["host port"] = clashes
    return found


def _excluded(context: RefusalContext, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    """Nodes that the filter excludes: by their condition, by their labels, else by affinity."""
    masks = context.inventory.masks
    well = masks.compute(NodeFilter(tolerations=wanted.tolerations))[slots]
    found = _conditions(context, wanted.tolerations, slots[~well])
    slots = slots[well]
    selected = _selected(context, wanted)[slots]
    found["node selector"] += int((~selected).sum())
    found += _unaffine(context, wanted, slots[selected])
    return +found


def _unaffine(context: RefusalContext, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    if not wanted.company:
        return Counter({"node affinity": len(slots)})
    node = context.inventory.node
    return Counter(out_of_company(wanted, node(slot)) or "node affinity" for slot in slots.tolist())


def _selected(context: RefusalContext, wanted: NodeFilter) -> Flags:
    return context.inventory.masks.compute(NodeFilter(selector=wanted.selector, tolerations=wanted.tolerations))


def _conditions(context: RefusalContext, tolerations: tuple[Toleration, ...], slots: Numbers) -> Counter[str]:
    known: dict[object, str] = {}
    found: Counter[str] = Counter()
    for slot in slots.tolist():
        node = context.inventory.node(slot)
        key = (node.taints, node.unschedulable, node.ready)
        if key not in known:
            known[key] = condition(tolerations, *key) or ""
        found[known[key]] += 1
    return found


def _occupied(context: RefusalContext, slots: Numbers) -> dict[str, int]:
    """The gangs that have pods on most of these nodes."""
    placed_gangs = context.engine.placed_gangs
    if sum(len(one.live) for one in placed_gangs.values()) > MOST_MEMBERS:
        return {}
    here = np.zeros(len(context.inventory.idle), np.bool_)
    home = context.inventory.home
    here[[home(slot) for slot in slots.tolist()] if context.inventory.divided else slots] = True
    marks = here.tolist()
    found = {}
    for name, placed_gang in placed_gangs.items():
        nodes = len({home(slot) for _, slot in placed_gang.live if marks[home(slot)]})
        if nodes and name != context.parts.gang.name:
            found[name] = nodes
    most = sorted(found, key=lambda name: (-found[name], name))[:MOST_GANGS]
    return {name: found[name] for name in sorted(most)}
