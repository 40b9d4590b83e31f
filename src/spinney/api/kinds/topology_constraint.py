"""The topology constraint of a workload: at the set, at a scaling group, at a clique (P1, P10)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from spinney.api.domains import DOMAINS
from spinney.api.meta import Name, Rule, Slim, doc, one_of


class Pack(Slim, frozen=True):
    """The newer spelling, with a soft half."""

    RULES: ClassVar = (
        Rule(
            "has(self.required) || has(self.preferred)",
            "pack must specify at least one of required or preferred",
        ),
    )

    required: Annotated[
        str, one_of("Each replica is placed inside one domain of this level, or not at all.", *DOMAINS)
    ] = ""
    preferred: Annotated[
        str, one_of("Each replica is placed inside one domain of this level where that is possible.", *DOMAINS)
    ] = ""


class TopologyConstraint(Slim, frozen=True):
    """Packs each replica on its own; different replicas may land in different domains."""

    RULES: ClassVar = (
        Rule(
            "has(self.pack) || has(self.packDomain)",
            "topologyConstraint must specify pack or deprecated packDomain",
        ),
        Rule(
            "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
            "must not set both pack.required and deprecated packDomain",
        ),
    )

    topology_name: Annotated[
        Name, doc("The ClusterTopology whose levels are meant; must equal clusterTopologyName where both are given.")
    ] = ""
    pack: Annotated[Pack | None, doc("The domains to pack into.")] = None
    pack_domain: Annotated[
        str, one_of("Each replica is placed inside one domain of this level; the same as pack.required.", *DOMAINS)
    ] = ""

    @property
    def required(self) -> str:
        """The hard domain, whichever way it is spelled; empty if there is none."""
        return self.pack_domain or (self.pack.required if self.pack else "")

    @property
    def preferred(self) -> str:
        """The soft domain the user asked for; empty if there is none."""
        return self.pack.preferred if self.pack else ""
