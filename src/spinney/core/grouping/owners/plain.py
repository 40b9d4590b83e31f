"""Kinds without sub-groups: bare pods, Spark, Deployments, Knative, Notebooks, and kinds that nobody knows."""

from __future__ import annotations

from kube_apimachinery.quantity import read_number
from spinney.api.labels import KNATIVE_MIN_SCALE, SPARK_APP
from spinney.core.grouping.group_shape import (
    BUILD,
    INFERENCE,
    GroupShape,
    Lookups,
    one_per_pod,
    podgroup_name,
    whole_owner,
)
from spinney.core.grouping.owner_chain import InvalidFieldError, OwnerChain, annotation

# Knative Services: one group for each revision; its minimum is the revision's min-scale annotation.

GROUP = "serving.knative.dev"


def knative_service(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    revision = chain.of_kind(GROUP, "Revision")
    if revision is None:
        return one_per_pod(chain, default_class=INFERENCE)
    stated = revision.annotations.get(KNATIVE_MIN_SCALE, "1")
    least = read_number(stated)
    if least is None:
        raise InvalidFieldError(revision, annotation(KNATIVE_MIN_SCALE), stated, "a whole number of 0 or more")
    name = podgroup_name(revision.name, revision.uid)
    return GroupShape(name, revision, max(least, 1), default_class=INFERENCE)


def lone_pod(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """A group for each pod; one for each Spark application, named after it."""
    app = chain.pod.metadata.labels.get(SPARK_APP)
    return GroupShape(app, chain.top) if app else one_per_pod(chain)


def deployment(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return one_per_pod(chain, default_class=INFERENCE)


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """One group with a minimum of one pod; all others are elastic."""
    return whole_owner(chain)


def runai_job(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """One group for the pods whose names differ in the last part only."""
    name = chain.pod.metadata.name
    return GroupShape(podgroup_name(name.rpartition("-")[0] or name, chain.top.uid), chain.top)


def notebook(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return whole_owner(chain, default_class=BUILD)


def spot_request(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return whole_owner(chain, default_class=INFERENCE)


def azure_job(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """A gang of one pod for each of its nodes."""
    path = ("spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    nodes = chain.top.count(*path)
    if not nodes:
        raise InvalidFieldError(chain.top, ".".join(path), nodes, "a whole number of 1 or more")
    return whole_owner(chain, nodes)
