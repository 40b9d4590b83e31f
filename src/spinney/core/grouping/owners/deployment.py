"""Deployments: each pod comes and goes alone."""

from __future__ import annotations

from spinney.core.grouping.chain import Chain
from spinney.core.grouping.shape import INFERENCE, Lookups, Shape, one_per_pod


def shape(chain: Chain, lookups: Lookups) -> Shape:
    return one_per_pod(chain, default_class=INFERENCE)
