"""What keeps pods off nodes: nodes per reason, and nodes per gang that sits on them.

A node is blocked when it takes no pod of the gang; it is counted once, under the first reason there is.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.api.placement.result import Blocked
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.filters import condition, out_of_company
from spinney.core.placement.case import Case, Flags, Numbers

MOST_GANGS = 10
MOST_MEMBERS = 200_000
"""Beyond so many live pods nobody is named: looking at all of them would take longer than the decision."""


def obstacles(case: Case, slots: Numbers) -> Blocked:
    """Among some slots."""
    return Blocked(dict(sorted(_reasons(case, slots).items())), _occupied(case, slots))


def _reasons(case: Case, slots: Numbers) -> Counter[str]:
    """Of several shapes, the one that gets furthest on a node says what is in the way."""
    found: Counter[str] = Counter()
    rest = _one_for_each_node(case, slots)
    shapes = sorted(case.shapes, key=lambda shape: [shape.request[r] for r in case.asked.wanted])
    for shape in shapes:
        admitted = case.inventory.masks.of(shape.filter).array()[rest]
        found += _insufficient(case, shape, rest[admitted])
        rest = rest[~admitted]
    if shapes and len(rest):
        found += _excluded(case, shapes[0].filter, rest)
    return found


def _one_for_each_node(case: Case, slots: Numbers) -> Numbers:
    """The slots that take no pod; of the zones of a divided node, where none does, the first."""
    useful = case.useful()
    rest = slots[~useful[slots]]
    if not case.inventory.divided:
        return rest
    home = case.inventory.home
    busy = {home(slot) for slot in slots[useful[slots]].tolist()}
    first = {home(slot): slot for slot in reversed(rest.tolist()) if home(slot) not in busy}
    return np.array(sorted(first.values()), np.int64)


def _insufficient(case: Case, shape: Shape, slots: Numbers) -> Counter[str]:
    """Nodes that a filter admits and that have too little; the rarest resource is looked at first."""
    found: Counter[str] = Counter()
    mirror = case.inventory.mirror
    mirror.refresh()
    for resource in case.asked.wanted:
        lacks = mirror.free(resource, True)[slots] < shape.request[resource]
        if shape.request[resource] and lacks.any():
            found[f"insufficient {case.inventory.resources[resource]}"] = int(lacks.sum())
            slots = slots[~lacks]
    clashes = sum(case.inventory.port_use.clash(slot, shape.ports, True) for slot in slots.tolist())
    if clashes:
        found["host port"] = clashes
    return found


def _excluded(case: Case, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    """Nodes that a filter keeps out: by their condition, by their labels, else by affinity."""
    masks = case.inventory.masks
    well = masks.compute(NodeFilter(tolerations=wanted.tolerations))[slots]
    found = _conditions(case, wanted.tolerations, slots[~well])
    slots = slots[well]
    selected = _selected(case, wanted)[slots]
    found["node selector"] += int((~selected).sum())
    found += _unaffine(case, wanted, slots[selected])
    return +found


def _unaffine(case: Case, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    if not wanted.company:
        return Counter({"node affinity": len(slots)})
    node = case.inventory.node
    return Counter(out_of_company(wanted, node(slot)) or "node affinity" for slot in slots.tolist())


def _selected(case: Case, wanted: NodeFilter) -> Flags:
    return case.inventory.masks.compute(NodeFilter(selector=wanted.selector, tolerations=wanted.tolerations))


def _conditions(case: Case, tolerations: tuple[Toleration, ...], slots: Numbers) -> Counter[str]:
    known: dict[object, str] = {}
    found: Counter[str] = Counter()
    for slot in slots.tolist():
        node = case.inventory.node(slot)
        key = (node.taints, node.unschedulable, node.ready)
        if key not in known:
            known[key] = condition(tolerations, *key) or ""
        found[known[key]] += 1
    return found


def _occupied(case: Case, slots: Numbers) -> dict[str, int]:
    """The gangs that sit on most of them."""
    standings = case.engine.standings
    if sum(len(one.live) for one in standings.values()) > MOST_MEMBERS:
        return {}
    here = np.zeros(len(case.inventory.idle), np.bool_)
    home = case.inventory.home
    here[[home(slot) for slot in slots.tolist()] if case.inventory.divided else slots] = True
    marks = here.tolist()
    found = {}
    for name, standing in standings.items():
        nodes = len({home(slot) for _, slot in standing.live if marks[home(slot)]})
        if nodes and name != case.parts.gang.name:
            found[name] = nodes
    most = sorted(found, key=lambda name: (-found[name], name))[:MOST_GANGS]
    return {name: found[name] for name in sorted(most)}
