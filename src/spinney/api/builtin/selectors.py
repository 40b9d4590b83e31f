"""Label and node selectors inside other objects."""

from __future__ import annotations

from msgspec import field

from kube_apimachinery import selectors
from kube_apimachinery.selectors import Operator, Requirement, Selector
from spinney.api.meta import Slim

Amounts = dict[str, str | int | float]
"""Resource quantities by name, as the wire carries them."""


class SelectorRequirement(Slim, frozen=True):
    """One entry of matchExpressions or matchFields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def to_requirement(self) -> Requirement:
        return Requirement(self.key, Operator(self.operator), frozenset(self.values))


class LabelSelector(Slim, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Slim, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Slim, frozen=True):
    """Any of the terms; each term is all of its requirements."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


def to_selector(selector: LabelSelector | None) -> Selector:
    """An absent selector selects nothing, an empty one everything."""
    if selector is None:
        return selectors.NOTHING
    equal = selectors.from_labels(selector.match_labels).requirements
    return Selector(equal + tuple(one.to_requirement() for one in selector.match_expressions))
