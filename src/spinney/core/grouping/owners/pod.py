"""Pods that nobody owns, and those of Spark, whose driver owns the executors."""

from __future__ import annotations

from spinney.api.labels import SPARK_APP
from spinney.core.grouping.chain import Chain
from spinney.core.grouping.shape import Lookups, Shape, one_per_pod


def shape(chain: Chain, lookups: Lookups) -> Shape:
    """A group for each pod; one for each Spark application, named after it."""
    app = chain.pod.metadata.labels.get(SPARK_APP)
    return Shape(app, chain.top) if app else one_per_pod(chain)
