"""What the engine is asked: nodes, topologies, gangs and options, in whole base units.

Values only: no amount is negative, no quantity is a text, and every amounts tuple is aligned with `Problem.resources`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Amounts = tuple[int, ...]
"""One integer per resource of the problem: cpu in milli, everything else in whole units (memory in bytes)."""

VERSION = 1
"""Of the exchange format, problems and results alike."""

DEFAULT_BUDGET = 100_000


SINGLE_NUMA_NODE = "single-numa-node"
"""The policy of nodes that admit a pod only if one of their zones holds it."""

ZONE_POLICIES = ("none", "best-effort", "restricted", SINGLE_NUMA_NODE)


class Topology(msgspec.Struct, frozen=True, gc=False):
    """Levels broad to narrow, each a node-label key. `zones`: the last one is no label but the zone of a node."""

    name: str
    levels: tuple[str, ...]
    zones: bool = False


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = ""  # NoSchedule | PreferNoSchedule | NoExecute


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """As in a pod spec: an empty key with Exists tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"  # Equal | Exists
    value: str = ""
    effect: str = ""


class Term(msgspec.Struct, frozen=True, gc=False):
    """One requirement on a label (or, for fields, on `metadata.name`)."""

    key: str
    operator: str  # In | NotIn | Exists | DoesNotExist | Gt | Lt
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """A node selector term: everything in it must hold; an empty one matches nothing."""

    expressions: tuple[Term, ...] = ()
    fields: tuple[Term, ...] = ()


class PreferredTerm(msgspec.Struct, frozen=True, gc=False):
    weight: int
    term: NodeTerm


class NodeFilter(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which nodes a pod may use, and which it would rather use. Hashable: equal filters share one mask."""

    selector: tuple[tuple[str, str], ...] = ()  # sorted by key
    required: tuple[NodeTerm, ...] | None = None  # any of them; None: no requirement
    preferred: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    company: tuple[Term, ...] = ()  # what pods that are there already ask of it, all of them


ANY_NODE = NodeFilter()


class Zone(msgspec.Struct, frozen=True, gc=False):
    """A part of a node. A resource that no zone of a node has any of is not accounted for by its zones."""

    name: str
    allocatable: Amounts
    used: Amounts
    releasing: Amounts


class Node(msgspec.Struct, frozen=True):
    """A node. `used` includes `releasing` and what zones use; none includes pods that gangs list as running."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    used: Amounts
    releasing: Amounts
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    host_ports: frozenset[int] = frozenset()
    zones: tuple[Zone, ...] = ()
    zone_policy: str = ""

    @property
    def is_divided(self) -> bool:
        """Whether pods go to its zones: one of them has to hold a pod."""
        return bool(self.zones) and self.zone_policy == SINGLE_NUMA_NODE


class AffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """Pod sets of the same gang, by path, and the node label whose equal values make a domain.

    `domains`: values of the label where such a pod, of no pod set of this gang, is already; for affinity only.
    """

    key: str
    pods: tuple[str, ...]
    domains: tuple[str, ...] = ()


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """Domains of a node label hold numbers of pods that differ by `max_skew` at most, as in a pod spec."""

    key: str
    max_skew: int
    min_domains: int = 1


class AffinityPreference(msgspec.Struct, frozen=True, gc=False):
    """A term that pods would rather have kept: near to pod sets of the gang, apart from them, or spread evenly.

    `weight`: from 1 to 100; the heavier goes first. `pods` and `domains` as in `AffinityTerm`.
    """

    weight: int
    kind: Literal["near", "apart", "spread"]
    key: str
    pods: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    max_skew: int = 1
    min_domains: int = 1


class PodSet(msgspec.Struct, frozen=True, cache_hash=True):
    """A leaf: `count` equal pods, of which `min` must be placed. `request` includes the one of `pods`.

    `anti_affinity`: keys by which its own pods keep apart; `pod_anti_affinity`: the pod sets it keeps apart from;
    `pod_affinity`: those it is near to; `affinity_preferences`: what it prefers of all this.
    """

    name: str
    request: Amounts
    count: int = 1
    min: int = 1
    filter: NodeFilter = ANY_NODE
    host_ports: frozenset[int] = frozenset()
    anti_affinity: tuple[str, ...] = ()
    pod_anti_affinity: tuple[AffinityTerm, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    affinity_preferences: tuple[AffinityPreference, ...] = ()
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    unsupported: str = ""  # what it asks for and cannot have, as a sentence: such a gang is invalid


class Group(msgspec.Struct, frozen=True, cache_hash=True):
    """An inner node of a gang; the gang's root is the group with the empty name."""

    name: str
    groups: tuple[Group, ...] = ()
    pods: tuple[PodSet, ...] = ()
    min_groups: int | None = None  # None: all children
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None


class Tie(msgspec.Struct, frozen=True, gc=False):
    """Share the domain of another gang at a level."""

    gang: str
    level: str


class Running(msgspec.Struct, frozen=True, gc=False):
    """A member that is already placed. `pods` is the path of its pod set, names joined by `/`; no `zone`: not known."""

    pods: str
    node: str
    zone: str = ""


class Gang(msgspec.Struct, frozen=True):
    """`short`: paths of groups and pod sets that do not have their minimum, though `min` of those there is met."""

    name: str
    root: Group
    priority: int = 0
    preemptible: bool = True
    tied_to: Tie | None = None
    running: tuple[Running, ...] = ()
    short: frozenset[str] = frozenset()


class Consolidate(msgspec.Struct, frozen=True, gc=False):
    """`max_gpus`: how many GPUs all moved pods may hold together; None: any.

    `budget`: steps of the search, which finds nothing once they are over; None: as the options say, and it is told.
    """

    max_moves: int = 8
    max_loss: float = 0.0
    max_gpus: int | None = None
    budget: int | None = None


class Options(msgspec.Struct, frozen=True, gc=False):
    strategy: str = "binpack"  # binpack | spread
    budget: int = DEFAULT_BUDGET
    preempt: bool = False
    extras: str = "place"  # place | weigh (leave room for them) | skip
    consolidate: Consolidate | None = None


class Problem(msgspec.Struct, frozen=True):
    resources: tuple[str, ...]
    topologies: tuple[Topology, ...]
    nodes: tuple[Node, ...]
    gangs: tuple[Gang, ...]
    options: Options = Options()


Document = dict[str, Any]
"""A problem or a result in the exchange format: plain JSON values."""
