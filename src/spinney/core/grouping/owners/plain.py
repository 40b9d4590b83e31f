"""Kinds without sub-groups: bare pods, Spark, Deployments, ReplicaSets, StatefulSets, Notebooks, and unknown
kinds.
"""

from __future__ import annotations

from spinney.api.labels import SPARK_APP
from spinney.core.grouping.group_shape import BUILD, INFERENCE, GroupShape, Lookups, one_per_pod, whole_owner
from spinney.core.grouping.owner_chain import OwnerChain
from spinney.core.grouping.user_errors import InvalidFieldError


def lone_pod(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """A group for each pod; one for each Spark application, named after it."""
    app = chain.pod.metadata.labels.get(SPARK_APP)
    return GroupShape(app, chain.top) if app else one_per_pod(chain)


def deployment(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return one_per_pod(chain, default_class=INFERENCE)


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """One group with a minimum of one pod; all others are elastic."""
    return whole_owner(chain)


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
