"""Knative Services: one group for each revision, as large as the revision never gets smaller than."""

from __future__ import annotations

from spinney.api.digits import read_number
from spinney.api.labels import KNATIVE_MIN_SCALE
from spinney.core.grouping.chain import Chain
from spinney.core.grouping.mistakes import MistakeError, annotation
from spinney.core.grouping.shape import INFERENCE, Lookups, Shape, one_per_pod, podgroup_name

GROUP = "serving.knative.dev"


def shape(chain: Chain, lookups: Lookups) -> Shape:
    revision = chain.of_kind(GROUP, "Revision")
    if revision is None:
        return one_per_pod(chain, default_class=INFERENCE)
    told = revision.annotations.get(KNATIVE_MIN_SCALE, "1")
    least = read_number(told)
    if least is None:
        raise MistakeError(revision, annotation(KNATIVE_MIN_SCALE), told, "a whole number of 0 or more")
    name = podgroup_name(revision.name, revision.uid)
    return Shape(name, revision, max(least, 1), default_class=INFERENCE)
