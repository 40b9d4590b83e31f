"""Kinds without parts: ReplicaSets, StatefulSets, Notebooks and kinds that nobody knows, whose pods come one by one."""

from __future__ import annotations

from spinney.core.grouping.chain import Chain
from spinney.core.grouping.mistakes import MistakeError
from spinney.core.grouping.shape import BUILD, INFERENCE, Lookups, Shape, whole_owner


def shape(chain: Chain, lookups: Lookups) -> Shape:
    """One group, elastic from its first pod on."""
    return whole_owner(chain)


def notebook(chain: Chain, lookups: Lookups) -> Shape:
    return whole_owner(chain, default_class=BUILD)


def spot_request(chain: Chain, lookups: Lookups) -> Shape:
    return whole_owner(chain, default_class=INFERENCE)


def azure_job(chain: Chain, lookups: Lookups) -> Shape:
    """A gang of one pod for each of its nodes."""
    path = ("spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    nodes = chain.top.count(*path)
    if not nodes:
        raise MistakeError(chain.top, ".".join(path), nodes, "a whole number of 1 or more")
    return whole_owner(chain, nodes)
