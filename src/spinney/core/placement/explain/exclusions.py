"""Why nodes are excluded for a pod, whatever is free there: their condition, labels that are missing, affinity.

Labels and expressions are named. Every node is counted once, under the first reason that applies to it.
"""

from __future__ import annotations

from collections import Counter

from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.core.inventory.filters import affinity_words, condition, out_of_company, selector_words
from spinney.core.placement.explain.context import Numbers, RefusalContext


def excluded(context: RefusalContext, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    """Nodes that the filter excludes: by their condition, by their labels, else by affinity."""
    masks = context.inventory.masks
    well = masks.compute(NodeFilter(tolerations=wanted.tolerations))[slots]
    found = _conditions(context, wanted.tolerations, slots[~well])
    slots = slots[well]
    for key, value in wanted.selector:
        if not len(slots):
            break
        carry = masks.compute(NodeFilter(selector=((key, value),), tolerations=wanted.tolerations))[slots]
        found[selector_words(key, value)] += int((~carry).sum())
        slots = slots[carry]
    found += _unaffine(context, wanted, slots)
    return +found


def _unaffine(context: RefusalContext, wanted: NodeFilter, slots: Numbers) -> Counter[str]:
    node = context.inventory.node
    if not wanted.company:
        return Counter(affinity_words(wanted, node(slot)) for slot in slots.tolist())
    return Counter(out_of_company(wanted, node(slot)) or affinity_words(wanted, node(slot)) for slot in slots.tolist())


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
