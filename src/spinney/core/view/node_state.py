"""The state of a node in words: not ready, cordoned, tainted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from spinney.api.builtin.node import Node, Taint
from spinney.api.builtin.pod import Pod
from spinney.core.placement.explain.reasons import many

_NAMED = 8


def node_trouble(node: Node) -> str:
    """Why the node takes no pods at all, whatever they tolerate; empty: it does."""
    ready = node.condition("Ready")
    if ready is not None and ready.status != "True":
        return f"not ready since {ready.last_transition_time}" if ready.last_transition_time else "not ready"
    return "cordoned" if node.spec.unschedulable else ""


def taint_words(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def lines_of(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """A line for each node in trouble that live pods are bound to."""
    bound = Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)
    found = []
    for name in sorted(bound):
        trouble = node_trouble(nodes[name]) if name in nodes else ""
        if trouble:
            runs = "pods runs" if bound[name] == 1 else "pods run"
            found.append(f"{bound[name]} of its {runs} on node {name}, which is {trouble}")
    rest = len(found) - _NAMED
    if rest > 0:
        found[_NAMED:] = [
            f"and so on for {many(rest, 'other node')} that {'is' if rest == 1 else 'are'} not ready or cordoned"
        ]
    return tuple(found)
