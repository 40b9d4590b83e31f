"""Resource amounts of pods, nodes and zones in base units: cpu in thousandths, everything else in whole units.

The only place where quantities of a cluster become numbers. They are bounded, so that sums stay within 64 bits, and
they err on the safe side: a request that cannot be parsed is more than any node offers.

Zones are below the host (K12): what a node publishes about them is translated for placement. Pods are counted in the
zone where we placed them, by their annotation, and without one in every zone of the node, because the zone is not
known. The published available amounts are outdated, so they never add capacity: they only remove what is missing there
and held by no known pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kube_apimachinery import quantity
from spinney.api.builtin.node import NodeResourceTopology, PublishedZone, ZoneResource
from spinney.api.builtin.pod import Pod
from spinney.api.domains import NUMA
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.labels import NUMA_ZONE
from spinney.api.placement.problem import SINGLE_NUMA_NODE, Amounts, Node, Topology, Zone

Quantity = str | int | float

MOST_ASKED = 2**53
"""The upper bound of a request, more than any node offers: nine petabytes, nine trillion cores."""

MOST_OFFERED = MOST_ASKED - 1


def asked(resource: str, written: Quantity) -> int:
    """Rounded up. A quantity that cannot be parsed counts as `MOST_ASKED`, a negative one as zero."""
    try:
        found = quantity.milli(written) if resource == "cpu" else quantity.base_units(written, round_up=True)
    except quantity.QuantityError:
        return MOST_ASKED
    return max(0, min(found, MOST_ASKED))


def offered(resource: str, written: Quantity) -> int:
    """Rounded down. A quantity that cannot be parsed, or is negative, counts as zero."""
    try:
        found = quantity.milli(written, False) if resource == "cpu" else quantity.base_units(written, False)
    except quantity.QuantityError:
        return 0
    return max(0, min(found, MOST_OFFERED))


POLICY = "topologyManagerPolicy"
NUMA_NODE = "Node"

_POLICIES = {
    "SingleNUMANodePodLevel": SINGLE_NUMA_NODE,
    "SingleNUMANodeContainerLevel": SINGLE_NUMA_NODE,
    "RestrictedPodLevel": "restricted",
    "RestrictedContainerLevel": "restricted",
    "Restricted": "restricted",
    "BestEffortPodLevel": "best-effort",
    "BestEffortContainerLevel": "best-effort",
    "BestEffort": "best-effort",
    "None": "none",
}

Held = tuple[str, Amounts]
"""A pod on a node: its zone ("" if not known) and its request."""


def zone_of(pod: Pod) -> str:
    """The zone that a pod was bound to; empty: not known."""
    return pod.metadata.annotations.get(NUMA_ZONE, "")


def with_zones(
    node: Node, published: NodeResourceTopology | None, resources: Sequence[str], held: Iterable[Held] = ()
) -> Node:
    """The node with the zones that it publishes, if any; `held`: the pods that are on it now."""
    if published is None:
        return node
    return replace(
        node, zones=zones_of(published, resources, held), zone_policy=policy_of(published) if published.zones else ""
    )


def zones_of(published: NodeResourceTopology, resources: Sequence[str], held: Iterable[Held] = ()) -> tuple[Zone, ...]:
    """The zones of a node, sorted by name. Known pods are not included: the inventory adds them."""
    pods = list(held)
    found = [_zone(one, resources, pods) for one in published.zones if one.type in ("", NUMA_NODE)]
    return tuple(sorted(found, key=lambda zone: zone.name))


def policy_of(published: NodeResourceTopology) -> str:
    """The policy of the node's topology manager; empty: not published."""
    named = published.attribute(POLICY)
    if named:
        return named
    return next((_POLICIES[one] for one in published.topology_policies if one in _POLICIES), "")


def below_hosts(topology: Topology, published: AnyTopology) -> Topology:
    """The topology with the level for zones below the host, if the ClusterTopology defines one."""
    key = published.spec.key_of(NUMA)
    if key is None or topology.zones:
        return topology
    return Topology(topology.name, (*(level for level in topology.levels if level != key), key), zones=True)


def _zone(published: PublishedZone, resources: Sequence[str], held: Sequence[Held]) -> Zone:
    by_name = {one.name: one for one in published.resources}
    there = [by_name.get(name, ZoneResource(name)) for name in resources]
    allocatable = tuple([offered(one.name, one.allocatable) for one in there])
    mine = [sum(amounts[at] for zone, amounts in held if zone in ("", published.name)) for at in range(len(resources))]
    return Zone(
        name=published.name,
        allocatable=allocatable,
        used=tuple([_unaccounted(one, most, known) for one, most, known in zip(there, allocatable, mine, strict=True)]),
        releasing=(0,) * len(resources),
    )


def _unaccounted(one: ZoneResource, allocatable: int, held: int) -> int:
    """The amount that is missing and held by no known pod."""
    if one.available is None:
        return 0
    return max(0, allocatable - offered(one.name, one.available) - held)
