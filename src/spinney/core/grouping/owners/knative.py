"""Knative Services: one group for each revision; its minimum is the revision's min-scale annotation."""

from __future__ import annotations

from kube_apimachinery.integers import read_number
from spinney.api.labels import KNATIVE_MIN_SCALE
from spinney.core.grouping.group_shape import INFERENCE, GroupShape, Lookups, one_per_pod, podgroup_name
from spinney.core.grouping.owner_chain import OwnerChain
from spinney.core.grouping.user_errors import InvalidFieldError, annotation

GROUP = "serving.knative.dev"


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    revision = chain.of_kind(GROUP, "Revision")
    if revision is None:
        return one_per_pod(chain, default_class=INFERENCE)
    stated = revision.annotations.get(KNATIVE_MIN_SCALE, "1")
    least = read_number(stated)
    if least is None:
        raise InvalidFieldError(revision, annotation(KNATIVE_MIN_SCALE), stated, "a whole number of 0 or more")
    name = podgroup_name(revision.name, revision.uid)
    return GroupShape(name, revision, max(least, 1), default_class=INFERENCE)
