"""ClusterTopology and ClusterTopologyBinding: which node label stands for which level of the network (T2, T8).

The two mean the same; the second is the name that Grove has for it since May 2026. Topology is the form KAI has for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import structs

from spinney.api.domains import DOMAINS
from spinney.api.meta import (
    QUALIFIED_NAME_PATTERN,
    Conditions,
    Count,
    Generation,
    Kind,
    Message,
    Name,
    Rule,
    Slim,
    doc,
    listed,
    one_of,
    text,
)

# Topology: the scheduler's own form of a ClusterTopology, node-label keys from coarse to fine.


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


class TopologyLevel(Slim, frozen=True):
    domain: Annotated[str, one_of("What constraints call the level.", *DOMAINS)]
    key: Annotated[
        str,
        text(
            "The node label whose value names the domain a node is in.",
            least=1,
            most=63,
            pattern=QUALIFIED_NAME_PATTERN,
        ),
    ]


_LEVELS = "The levels, broad to narrow; any other order is put right on entry."


class ClusterTopologySpec(Slim, frozen=True):
    levels: Annotated[
        tuple[TopologyLevel, ...],
        listed(
            _LEVELS,
            least=1,
            most=len(DOMAINS),
            rules=(
                Rule(
                    "self.all(x, self.filter(y, y.domain == x.domain).size() == 1)",
                    "domain must be unique across all levels",
                ),
                Rule(
                    "self.all(x, self.filter(y, y.key == x.key).size() == 1)",
                    "key must be unique across all levels",
                ),
            ),
        ),
    ]

    def key_of(self, domain: str) -> str | None:
        """The node label of a domain, if it is a level here."""
        return next((level.key for level in self.levels if level.domain == domain), None)


class SchedulerTopologyBinding(Slim, frozen=True):
    """The topology object of one scheduler that is made by somebody else."""

    scheduler_name: Annotated[Name, doc("The scheduler.")]
    topology_reference: Annotated[Name, doc("The name of its topology object.")]


class ClusterTopologyBindingSpec(ClusterTopologySpec, frozen=True):
    """Duplicate levels are left to admission, as upstream does it: its answer names the level and not the list."""

    levels: Annotated[tuple[TopologyLevel, ...], listed(_LEVELS, least=1, most=len(DOMAINS))]
    scheduler_topology_bindings: Annotated[
        tuple[SchedulerTopologyBinding, ...],
        listed(
            "Topology objects that schedulers have already: they are compared with the levels and never written. "
            "Schedulers that are not listed get one from the operator.",
            most=16,
        ),
    ] = ()


class SchedulerTopologyStatus(Slim, frozen=True, kw_only=True):
    """The twin of this topology in one scheduler."""

    scheduler_name: Annotated[Name, doc("The scheduler.")]
    topology_reference: Annotated[Name, doc("The name of its topology object.")]
    in_sync: Annotated[bool, doc("Whether its levels are the same.")]
    scheduler_backend_topology_observed_generation: Annotated[
        Generation, doc("The generation of its topology object that was compared.")
    ] = 0
    message: Annotated[Message, doc("What differs.")] = ""


class LevelStatus(Slim, frozen=True):
    """What the nodes say about one level."""

    domain: Annotated[str, one_of("The level.", *DOMAINS)]
    key: Annotated[str, text("Its node label.", most=63)]
    nodes: Annotated[Count, doc("Nodes that carry the label.")] = 0
    nodes_missing: Annotated[Count, doc("Nodes that do not.")] = 0
    domains: Annotated[Count, doc("Different values, each within its broader domain.")] = 0
    not_nested: Annotated[
        tuple[Annotated[str, text(most=63)], ...],
        listed("Values that occur in more than one domain of the level above; at most 16 are listed.", most=16),
    ] = ()


class ClusterTopologyStatus(Slim, frozen=True):
    observed_generation: Annotated[Generation, doc("The generation that every scheduler has.")] = 0
    conditions: Annotated[Conditions, doc("Observations, among them SchedulerTopologyDrift.")] = ()
    scheduler_topology_statuses: Annotated[
        tuple[SchedulerTopologyStatus, ...],
        listed("The twins of this topology in the schedulers.", most=16, keys=("schedulerName",)),
    ] = ()
    levels: Annotated[
        tuple[LevelStatus, ...],
        listed("What the nodes say about each level.", most=len(DOMAINS), keys=("domain",)),
    ] = ()


class ClusterTopology(Kind, frozen=True):
    """The levels of the network and the node labels that name their domains."""

    GROUP: ClassVar = "grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "ClusterTopology"
    PLURAL: ClassVar = "clustertopologies"
    NAMESPACED: ClassVar = False

    spec: Annotated[ClusterTopologySpec, doc("The levels.")]
    status: Annotated[ClusterTopologyStatus, doc("What schedulers and nodes make of them.")] = ClusterTopologyStatus()


class ClusterTopologyBindingStatus(Slim, frozen=True):
    observed_generation: Annotated[Generation, doc("The generation that every scheduler has.")] = 0
    conditions: Annotated[Conditions, doc("Observations, among them SchedulerTopologyDrift.")] = ()
    scheduler_topology_statuses: Annotated[
        tuple[SchedulerTopologyStatus, ...],
        listed("The twins of this topology in the schedulers.", most=32, keys=("schedulerName",)),
    ] = ()


class ClusterTopologyBinding(Kind, frozen=True):
    """The levels of the network, the node labels that name their domains, and what schedulers have of them already."""

    GROUP: ClassVar = "grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "ClusterTopologyBinding"
    PLURAL: ClassVar = "clustertopologybindings"
    NAMESPACED: ClassVar = False

    spec: Annotated[ClusterTopologyBindingSpec, doc("The levels, and the topologies of schedulers.")]
    status: Annotated[ClusterTopologyBindingStatus, doc("What schedulers make of them.")] = (
        ClusterTopologyBindingStatus()
    )

    def reference(self, scheduler: str) -> str:
        """The topology object that the scheduler is bound to; empty where the operator makes one."""
        bindings = self.spec.scheduler_topology_bindings
        return next((each.topology_reference for each in bindings if each.scheduler_name == scheduler), "")


AnyTopology = ClusterTopology | ClusterTopologyBinding


def in_force(binding: ClusterTopologyBinding | None, topology: ClusterTopology | None) -> AnyTopology | None:
    """Which of the two counts where both have one name: the binding (T8)."""
    return binding if binding is not None else topology


def known_as(topology: AnyTopology) -> frozenset[str]:
    """The names under which workloads and schedulers know its levels."""
    bindings = topology.spec.scheduler_topology_bindings if isinstance(topology, ClusterTopologyBinding) else ()
    return frozenset({topology.metadata.name, *(each.topology_reference for each in bindings)})


def find_levels(
    name: str, bindings: Iterable[ClusterTopologyBinding], topology: ClusterTopology | None
) -> AnyTopology | None:
    """The topology that a PodGroup or a pod means by a name: a binding is also known by what it is bound to."""
    known = sorted((each for each in bindings if name in known_as(each)), key=lambda each: each.metadata.name != name)
    if known and (known[0].metadata.name == name or topology is None):
        return known[0]
    return topology


def counting(
    topologies: Iterable[ClusterTopology], bindings: Iterable[ClusterTopologyBinding]
) -> tuple[AnyTopology, ...]:
    """Those of both kinds that count: of one name, the binding."""
    by_name: dict[str, AnyTopology] = {each.metadata.name: each for each in topologies}
    by_name |= {each.metadata.name: each for each in bindings}
    return tuple(by_name[name] for name in sorted(by_name))


def by_known_name(topologies: Iterable[AnyTopology]) -> dict[str, AnyTopology]:
    """Those that count, under every name that they are known by; a name of its own goes first."""
    own = {each.metadata.name: each for each in topologies}
    return {name: each for each in own.values() for name in sorted(known_as(each))} | own


def published(
    topologies: Iterable[ClusterTopology], bindings: Iterable[ClusterTopologyBinding]
) -> list[ClusterTopology]:
    """Both kinds as ClusterTopologies, one for every name: what a what-if goes by."""
    found = by_known_name(counting(topologies, bindings))
    return [_as_topology(name, found[name]) for name in sorted(found)]


def _as_topology(name: str, topology: AnyTopology) -> ClusterTopology:
    if isinstance(topology, ClusterTopology):
        return topology
    metadata = structs.replace(topology.metadata, name=name)
    return ClusterTopology(metadata=metadata, spec=ClusterTopologySpec(topology.spec.levels))
