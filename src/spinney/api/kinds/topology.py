"""Topology: the scheduler's own form of a ClusterTopology, node-label keys from coarse to fine."""

from __future__ import annotations

from typing import Annotated, ClassVar

from spinney.api.markers import QUALIFIED_NAME_PATTERN, Rule, Slim, doc, listed, text
from spinney.api.meta import Kind


class KaiTopologyLevel(Slim, frozen=True):
    node_label: Annotated[
        str,
        text(
            "The node label whose value names the domain a node is in.",
            least=1,
            most=316,
            pattern=QUALIFIED_NAME_PATTERN,
        ),
    ]


class TopologySpec(Slim, frozen=True):
    levels: Annotated[
        tuple[KaiTopologyLevel, ...],
        listed(
            "The levels, coarse to fine.",
            least=1,
            most=16,
            rules=(
                Rule("self == oldSelf", "field is immutable"),
                Rule("self.all(x, self.filter(y, y.nodeLabel == x.nodeLabel).size() == 1)", "must be unique"),
                Rule(
                    "!self.exists(x, x.nodeLabel == 'kubernetes.io/hostname') || "
                    "self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
                    "the kubernetes.io/hostname label can only be used at the lowest level of topology",
                ),
            ),
        ),
    ]


class Topology(Kind, frozen=True):
    """Levels of the network by node label, for the scheduler."""

    GROUP: ClassVar = "kai.scheduler"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "Topology"
    PLURAL: ClassVar = "topologies"
    NAMESPACED: ClassVar = False

    spec: Annotated[TopologySpec, doc("The levels.")]
