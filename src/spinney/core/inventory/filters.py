"""Which nodes a pod may use, and which it prefers, by the rules of kube-scheduler.

One rule is stricter: a cordoned node is never capacity, whatever a pod tolerates. Judges one node by one filter, never
by what is free there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from spinney.api.placement.problem import Node, NodeFilter, NodeTerm, Taint, Term, Toleration

NAME_FIELD = "metadata.name"
MOST_WORDS = 3
"""So many keys or values of an affinity are named."""
EXCLUDING = ("NoSchedule", "NoExecute")

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
"""Leading zeros aside, no text beyond 19 digits is within 64 bits."""
_INT64 = range(-(2**63), 2**63)


def seen_by_filters(node: Node) -> tuple[object, ...]:
    """The fields of a node that can change the result of a filter."""
    return node.labels, node.taints, node.unschedulable, node.ready


def admits(wanted: NodeFilter, node: Node) -> bool:
    """Whether a pod with this filter may run on the node."""
    return why_not(wanted, node) is None


def why_not(wanted: NodeFilter, node: Node) -> str | None:
    """The first reason that keeps the pod off the node; None: it may run there."""
    if node.zones and node.is_divided:
        return "divided into zones"
    refused = condition(wanted.tolerations, node.taints, node.unschedulable, node.ready)
    if refused is not None:
        return refused
    return not_selected(wanted, node) or (out_of_company(wanted, node) if wanted.company else None)


def not_selected(wanted: NodeFilter, node: Node) -> str | None:
    """The part of `why_not` that concerns the node selector and node affinity."""
    labels = node.labels
    for key, value in wanted.selector:
        if labels.get(key) != value:
            return selector_words(key, value)
    if wanted.required is not None and not any(_matches(term, node) for term in wanted.required):
        return affinity_words(wanted, node)
    return None


def selector_words(key: str, value: str) -> str:
    return f"node selector {key}={value}"


def affinity_words(wanted: NodeFilter, node: Node) -> str:
    """Required node affinity that the node does not meet: the expression, or where there are several terms the keys."""
    terms = wanted.required or ()
    if len(terms) != 1:
        keys = sorted({term.key for each in terms for term in (*each.expressions, *each.fields)})
        return f"node affinity on {_few(keys)}" if keys else "node affinity"
    each = next((one for one in terms[0].expressions if not _labelled((one,), node.labels)), None)
    each = each or next((one for one in terms[0].fields if not named(one, node.name)), None)
    if each is None:
        return "node affinity"
    values = f" ({_few(each.values)})" if each.values else ""
    return f"node affinity {each.key} {each.operator}{values}"


def _few(words: Sequence[str]) -> str:
    return ", ".join(words[:MOST_WORDS]) + (", ..." if len(words) > MOST_WORDS else "")


def out_of_company(wanted: NodeFilter, node: Node) -> str | None:
    """The part of `why_not` that concerns affinity to pods that are already placed."""
    for expression in wanted.company:
        if not _labelled((expression,), node.labels):
            return "pod anti-affinity" if expression.operator == "NotIn" else "pod affinity"
    return None


def condition(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], unschedulable: bool, ready: bool
) -> str | None:
    """The part of `why_not` that does not depend on labels or the name."""
    if not ready:
        return "not ready"
    if unschedulable:
        return "unschedulable"
    for taint in taints:
        if taint.effect in EXCLUDING and not _tolerated(taint, tolerations):
            return f"untolerated taint {taint.key}={taint.value}:{taint.effect}"
    return None


def preference(wanted: NodeFilter, node: Node) -> tuple[int, int]:
    """The node's score for the pod, larger is better: affinity weights, then fewer untolerated soft taints."""
    weight = sum(choice.weight for choice in wanted.preferred if _matches(choice.term, node))
    unwanted = 0
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule" and not _tolerated(taint, wanted.tolerations):
            unwanted += 1
    return weight, -unwanted


def well_formed(term: Term) -> bool:
    """Whether the term has the values that its operator needs; a malformed requirement is never met."""
    match term.operator:
        case "In" | "NotIn":
            return bool(term.values)
        case "Exists" | "DoesNotExist":
            return not term.values
        case "Gt" | "Lt":
            return len(term.values) == 1 and _integer(term.values[0]) is not None
        case _:
            return False


def holds(term: Term, value: str | None) -> bool:
    """Whether a well-formed requirement is met by a label's value; None: the label is absent."""
    match term.operator:
        case "In":
            return value in term.values
        case "NotIn":
            return value not in term.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return _compares(term, value)


def named(term: Term, name: str) -> bool:
    """Whether a requirement on a field is met: only the node name is supported, with exactly one value."""
    if term.key != NAME_FIELD or len(term.values) != 1:
        return False
    match term.operator:
        case "In":
            return name == term.values[0]
        case "NotIn":
            return name != term.values[0]
        case _:
            return False


def _matches(term: NodeTerm, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    return _labelled(term.expressions, node.labels) and all(named(field, node.name) for field in term.fields)


def _labelled(expressions: Iterable[Term], labels: Mapping[str, str]) -> bool:
    return all(well_formed(expression) and holds(expression, labels.get(expression.key)) for expression in expressions)


def _compares(term: Term, value: str | None) -> bool:
    found = None if value is None else _integer(value)
    bound = _integer(term.values[0])
    if found is None or bound is None:
        return False
    return found > bound if term.operator == "Gt" else found < bound


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if number in _INT64 else None


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
