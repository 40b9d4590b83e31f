"""Kinds whose pods need not start together: ReplicaSets, StatefulSets, Notebooks and kinds that nobody knows."""

from __future__ import annotations

from spinney.core.grouping.chain import Chain
from spinney.core.grouping.shape import BUILD, INFERENCE, Lookups, Shape, whole_owner


def shape(chain: Chain, lookups: Lookups) -> Shape:
    """One group, elastic from its first pod on."""
    return whole_owner(chain)


def notebook(chain: Chain, lookups: Lookups) -> Shape:
    return whole_owner(chain, default_class=BUILD)


def spot_request(chain: Chain, lookups: Lookups) -> Shape:
    return whole_owner(chain, default_class=INFERENCE)
