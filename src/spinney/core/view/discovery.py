"""Proposes ClusterTopologies from node labels: one for each kind of node, with nesting derived from the label values.

Labels that describe a location are those of Kubernetes, clouds and vendors, and keys with a level's name; a key proves
nothing, whether its values nest is checked on the nodes. A key nests in another if each of its values occurs with one
value of the other only. Names that repeat under several parents are accepted where the keys are known to belong
together: a domain is identified by its path. Only proposes, with reasons; applies nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from kube_apimachinery.name_validation import qualified_name
from spinney.api.builtin.node import Node
from spinney.api.domains import DOMAINS, HOST, NUMA, rank
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology
from spinney.api.labels import HOSTNAME, REGION, ZONE
from spinney.core.expansion.backends.kai import topology_keys
from spinney.core.placement.explain.reasons import many
from spinney.core.view.lint import SHARED
from spinney.core.view.tree import Json, is_accelerator, natural


@dataclass(frozen=True, slots=True)
class KnownKey:
    """`domain` is the best name for the level, `source` the origin of the key."""

    key: str
    domain: str
    source: str


KNOWN = (
    KnownKey(REGION, "region", "Kubernetes"),
    KnownKey(ZONE, "zone", "Kubernetes"),
    KnownKey("topology.kubernetes.io/datacenter", "datacenter", "by convention"),
    KnownKey("topology.kubernetes.io/block", "block", "by convention"),
    KnownKey("topology.kubernetes.io/rack", "rack", "by convention"),
    KnownKey("cloud.provider.com/topology-zone", "zone", "Kueue's examples"),
    KnownKey("cloud.provider.com/datacenter", "datacenter", "Kueue's examples"),
    KnownKey("cloud.provider.com/topology-block", "block", "Kueue's examples"),
    KnownKey("cloud.provider.com/topology-rack", "rack", "Kueue's examples"),
    KnownKey("network.topology.nvidia.com/datacenter", "datacenter", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/core", "datacenter", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/spine", "block", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/block", "rack", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/leaf", "rack", "NVIDIA Topograph"),
    KnownKey("fabric.topograph.run/tier-2", "datacenter", "Topograph"),
    KnownKey("fabric.topograph.run/tier-1", "block", "Topograph"),
    KnownKey("fabric.topograph.run/tier-0", "rack", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-3", "datacenter", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-2", "block", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-1", "rack", "Topograph"),
    KnownKey("topology.k8s.aws/network-node-layer-1", "datacenter", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-2", "block", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-3", "rack", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-4", "rack", "AWS"),
    KnownKey("cloud.google.com/gce-topology-block", "block", "Google Cloud"),
    KnownKey("cloud.google.com/gce-topology-subblock", "rack", "Google Cloud"),
    KnownKey("cloud.google.com/gce-topology-host", "rack", "Google Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.hpc_island_id", "datacenter", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.network_block_id", "block", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.local_block_id", "rack", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/host.network_block_id", "block", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/host.rack_id", "rack", "Oracle Cloud"),
    KnownKey("topology.nebius.com/gpu-cluster-id", "datacenter", "Nebius"),
    KnownKey("topology.nebius.com/tier-2", "block", "Nebius"),
    KnownKey("topology.nebius.com/tier-1", "rack", "Nebius"),
    KnownKey("backend.coreweave.cloud/fabric", "datacenter", "CoreWeave"),
    KnownKey("backend.coreweave.cloud/superpod", "block", "CoreWeave"),
    KnownKey("backend.coreweave.cloud/leafgroup", "rack", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/fabric", "datacenter", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/superpod", "block", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/leafgroup", "rack", "CoreWeave"),
    KnownKey("node.coreweave.cloud/rack", "rack", "CoreWeave"),
    KnownKey("nvidia.com/gpu.clique", "rack", "NVIDIA: NVLink domain"),
    KnownKey("network.topology.nvidia.com/accelerator", "rack", "NVIDIA Topograph: NVLink domain"),
    KnownKey("accelerator.topograph.run/domain", "rack", "Topograph: NVLink domain"),
    KnownKey("topology.k8s.aws/ultraserver-id", "rack", "AWS: NVLink domain"),
    KnownKey("ds.coreweave.com/nvlink.domain", "rack", "CoreWeave: NVLink domain"),
    KnownKey("topology.nebius.com/tier-0", "rack", "Nebius: NVLink domain"),
    KnownKey("topology.k8s.aws/capacity-block-id", "block", "AWS: reservation"),
    KnownKey("cloud.google.com/gke-placement-group", "block", "Google Cloud: placement group"),
    KnownKey(HOSTNAME, "host", "Kubernetes"),
)
"""Within one source broad to narrow. Of two keys that cannot both be levels the earlier one stays."""

_BY_KEY = {one.key: one for one in KNOWN}
_WORDS = {
    "region": "region",
    "zone": "zone",
    "datacenter": "datacenter",
    "dc": "datacenter",
    "hall": "datacenter",
    "room": "datacenter",
    "fabric": "datacenter",
    "core": "datacenter",
    "island": "datacenter",
    "block": "block",
    "spine": "block",
    "superpod": "block",
    "aggregation": "block",
    "row": "block",
    "rack": "rack",
    "tor": "rack",
    "leaf": "rack",
    "leafgroup": "rack",
    "subblock": "rack",
    "switch": "rack",
    "nvlink": "rack",
}
_ENDINGS = ("id", "name", "domain", "group")
_OF_OTHERS = re.compile(
    r"^(?:(?:.*\.)?node-role\.kubernetes\.io/|node\.kubernetes\.io/|(?:beta\.)?kubernetes\.io/(?:os|arch)$"
    r"|failure-domain\.beta\.kubernetes\.io/|beta\.kubernetes\.io/|feature\.node\.kubernetes\.io/|.*\.nvidia\.com/"
    r"|nvidia\.com/|amd\.com/|karpenter\.|.*csi\.|cloud\.google\.com/|kubernetes\.azure\.com/|.*\.amazonaws\.com/"
    r"|k8s\.io/|.*\.coreweave\.cloud/|kai\.scheduler/|grove\.io/|agentpool$|.*/(?:version|revision|hash)$)"
)


def known(key: str) -> KnownKey | None:
    """A key of the table, or one whose last word is that of a level: `example.com/topology-rack`, `acme/rack-id`."""
    found = _BY_KEY.get(key)
    if found is not None or is_of_others(key):
        return found
    words = [word for word in re.split(r"[-_.]", key.rpartition("/")[2].lower()) if word]
    while len(words) > 1 and words[-1] in _ENDINGS:
        words.pop()
    domain = _WORDS.get(words[-1]) if words else None
    return KnownKey(key, domain, "by its name") if domain is not None else None


def is_of_others(key: str) -> bool:
    """Whether a label describes the type or the manager of a node, not its location."""
    return key not in _BY_KEY and _OF_OTHERS.match(key) is not None


def importance(one: KnownKey) -> int:
    """Small for keys to keep; those known by their names come last."""
    return KNOWN.index(one) if one.key in _BY_KEY else len(KNOWN)


_FEW = 20
"""Tolerance for wrong labels: one node in this many does not disqualify a key."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    key: str
    why: str

    def to_json(self) -> Json:
        return {"key": self.key, "why": self.why}


class Nesting:
    """Nesting of label keys over nodes that carry all of the keys."""

    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._labels = labels
        self._parents = cache(self._find_parents)

    def common_keys(self) -> list[str]:
        if not self._labels:
            return []
        common = set(self._labels[0])
        for labels in self._labels[1:]:
            common.intersection_update(labels)
        return sorted(common)

    def count(self, key: str) -> int:
        return len({labels[key] for labels in self._labels})

    def is_unique(self, key: str) -> bool:
        return self.count(key) == len(self._labels)

    def sizes(self, keys: Sequence[str]) -> list[int]:
        """The number of nodes in each domain of the last key."""
        return list(Counter(tuple(labels[key] for key in keys) for labels in self._labels).values())

    def is_nested(self, inner: str, outer: str) -> bool:
        return all(len(parents) == 1 for parents in self._parents(inner, outer).values())

    def is_same(self, one: str, other: str) -> bool:
        return self.is_nested(one, other) and self.is_nested(other, one)

    def is_path(self, inner: str, outer: str) -> bool:
        """Whether the inner key can be read as a path below the outer one: it divides what the outer one holds, and
        its names repeat as names do, or but for a few nodes.
        """
        parents = self._parents(inner, outer)
        domains = sum(map(len, parents.values()))
        if domains <= self.count(outer):
            return False
        return self._misplaced(inner, outer) * _FEW <= len(self._labels) or domains * 2 <= len(self._labels)

    def witness(self, inner: str, outer: str) -> str:
        """An example value of the inner key that occurs with two values of the outer one."""
        torn = {value: parents for value, parents in self._parents(inner, outer).items() if len(parents) > 1}
        value = min(torn)
        first, second = sorted(torn[value])[:2]
        return f"{value} lies in {first} and in {second}"

    def remark(self, outer: str, inner: str) -> str:
        torn = [value for value, parents in self._parents(inner, outer).items() if len(parents) > 1]
        if not torn:
            return ""
        return f"{many(len(torn), 'name')} under several parents, such as {min(torn)}: see topology lint"

    def _misplaced(self, inner: str, outer: str) -> int:
        """The number of nodes outside the parent domain in which most nodes of their value are."""
        return sum(sum(parents.values()) - max(parents.values()) for parents in self._parents(inner, outer).values())

    def _find_parents(self, inner: str, outer: str) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for labels in self._labels:
            found.setdefault(labels[inner], Counter())[labels[outer]] += 1
        return found


def chain(candidates: Sequence[KnownKey], nesting: Nesting) -> tuple[list[KnownKey], list[LeftOut]]:
    """Levels broad to narrow, and why other candidates were left out. Earlier candidates take precedence."""
    levels: list[KnownKey] = []
    left_out: list[LeftOut] = []
    for one in candidates:
        why = _refused(one, levels, nesting)
        if why:
            left_out.append(LeftOut(one.key, why))
        else:
            levels.insert(_position(one, levels, nesting), one)
    return levels, left_out


def _refused(one: KnownKey, levels: Sequence[KnownKey], nesting: Nesting) -> str:
    count = nesting.count(one.key)
    if nesting.is_unique(one.key) and count > 1:
        return "it has another value on every node"
    for other in levels:
        if nesting.is_same(one.key, other.key) and (count > 1 or one.domain == other.domain):
            return f"its domains are those of {other.key}"
    for other in levels:
        if not (_lies_in(one, other, nesting) or _lies_in(other, one, nesting)):
            inner, outer = (one, other) if count >= nesting.count(other.key) else (other, one)
            return f"it crosses {other.key}: {nesting.witness(inner.key, outer.key)}"
    return ""


def _position(one: KnownKey, levels: Sequence[KnownKey], nesting: Nesting) -> int:
    """The position before the first level that nests in it; equivalent keys are ordered by their domain names."""
    for at, other in enumerate(levels):
        is_broader = _lies_in(other, one, nesting)
        if nesting.is_same(one.key, other.key):
            is_broader = rank(one.domain) < rank(other.domain)
        if is_broader:
            return at
    return len(levels)


def _lies_in(inner: KnownKey, outer: KnownKey, nesting: Nesting) -> bool:
    """Whether a key nests in another: by values, or by paths if the domain names say which is broader."""
    if nesting.is_nested(inner.key, outer.key):
        return True
    is_ordered = rank(outer.domain) < rank(inner.domain)
    if nesting.is_nested(outer.key, inner.key):
        return False
    return is_ordered and nesting.is_path(inner.key, outer.key)


_ABOVE_HOST = tuple(domain for domain in DOMAINS if domain not in (HOST, NUMA))
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
_HARDWARE = (*_PRODUCTS, "node.kubernetes.io/instance-type")
_MODEL = re.compile(r"(?<![a-z0-9])[a-z]{1,3}[0-9]{2,4}[a-z]{0,2}(?![a-z0-9])")
_MOST_OFFERS = 5
_LONGEST_KEY = 63


@dataclass(frozen=True, slots=True)
class Choice:
    """A proposed level: its domains, their least and greatest number of nodes, and the origin of its key."""

    domain: str
    key: str
    source: str
    domains: int
    least: int
    most: int
    remark: str = ""

    def to_json(self) -> Json:
        shown: Json = {"domain": self.domain, "key": self.key, "source": self.source, "domains": self.domains}
        shown |= {"nodesPerDomain": {"least": self.least, "most": self.most}}
        return {**shown, "remark": self.remark} if self.remark else shown


@dataclass(frozen=True, slots=True)
class Offer:
    """An unknown key that nests as well but may not describe a location, and the level that it would be above."""

    key: str
    domains: int
    above: str

    def to_json(self) -> Json:
        return {"key": self.key, "domains": self.domains, "above": self.above}


@dataclass(frozen=True, slots=True)
class Proposal:
    """One topology. `incomplete`: nodes of the same hardware that lack keys; `same_as`: an existing equal topology."""

    name: str
    levels: tuple[Choice, ...]
    nodes: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    offers: tuple[Offer, ...] = ()
    incomplete: tuple[tuple[str, tuple[str, ...]], ...] = ()
    same_as: str = ""

    @property
    def manifest(self) -> Json:
        levels = [{"domain": level.domain, "key": level.key} for level in self.levels]
        return {
            "apiVersion": f"{ClusterTopology.GROUP}/{ClusterTopology.VERSION}",
            "kind": ClusterTopology.KIND,
            "metadata": {"name": self.name},
            "spec": {"levels": levels},
        }

    def to_json(self) -> Json:
        return {
            "manifest": self.manifest,
            "nodes": list(self.nodes),
            "levels": [level.to_json() for level in self.levels],
            "leftOut": [one.to_json() for one in self.left_out],
            "offers": [one.to_json() for one in self.offers],
            "incomplete": [{"node": name, "misses": list(misses)} for name, misses in self.incomplete],
            **({"sameAs": self.same_as} if self.same_as else {}),
        }


@dataclass(frozen=True, slots=True)
class Discovery:
    """`without`: nodes for which nothing can be proposed, and why."""

    proposals: tuple[Proposal, ...]
    without: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def to_json(self) -> Json:
        without = [{"why": why, "nodes": list(nodes)} for why, nodes in self.without]
        return {"proposals": [one.to_json() for one in self.proposals], "without": without}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes with the same keys (a few with `extra` ones), and nodes of the same hardware that lack some keys."""

    keys: frozenset[str]
    nodes: tuple[Node, ...]
    incomplete: tuple[Node, ...] = ()
    extra: frozenset[str] = frozenset()


def discover(nodes: Sequence[Node], existing: Sequence[AnyTopology] = (), name: str = "") -> Discovery:
    """`name`: of the first proposal. Linear in nodes and quadratic in their keys."""
    ordered = sorted(nodes, key=lambda node: natural(node.metadata.name))
    proposals: list[Proposal] = []
    without: list[tuple[str, tuple[str, ...]]] = []
    kinds = _kinds(ordered)
    others = [kind for kind in kinds if not _is_plain(kind)] or kinds
    for kind in kinds:
        proposal = _proposal(kind) if kind in others else "no accelerators, and no key but those that all nodes carry"
        if isinstance(proposal, str):
            without.append((proposal, _names(kind.nodes)))
        else:
            proposals.append(proposal)
    return Discovery(tuple(_named(proposals, existing, name)), tuple(without))


def _kinds(nodes: Sequence[Node]) -> list[_Kind]:
    """Nodes by the keys that they carry; a few that lack keys of their own hardware are counted with it."""
    by_keys: dict[frozenset[str], list[Node]] = {}
    for node in nodes:
        by_keys.setdefault(frozenset(_placing(node)), []).append(node)
    ordered = sorted(by_keys.items(), key=lambda item: (-len(item[1]), sorted(item[0])))
    kinds: list[_Kind] = []
    for keys, members in ordered:
        home = next((at for at, kind in enumerate(kinds) if _belongs(keys, members, kind)), None)
        if home is None:
            kinds.append(_Kind(keys, tuple(members)))
        else:
            kinds[home] = _joined(kinds[home], keys, members)
    return kinds


def _joined(kind: _Kind, keys: frozenset[str], members: Sequence[Node]) -> _Kind:
    if keys < kind.keys:
        return replace(kind, incomplete=(*kind.incomplete, *members))
    nodes = sorted((*kind.nodes, *members), key=lambda node: natural(node.metadata.name))
    return replace(kind, nodes=tuple(nodes), extra=kind.extra | (keys - kind.keys))


def _is_plain(kind: _Kind) -> bool:
    """Whether no gang is meant for these nodes: no accelerators and no labels of a network location."""
    has_none = not any(is_accelerator(name) for node in kind.nodes for name in node.status.allocatable)
    return has_none and kind.keys <= SHARED


def _belongs(keys: frozenset[str], members: Sequence[Node], kind: _Kind) -> bool:
    """Whether nodes count with a kind: at most half as many, the same hardware, a subset or superset of its keys."""
    if not (keys < kind.keys or keys > kind.keys) or len(members) * 2 > len(kind.nodes):
        return False
    hardware = {_hardware(node) for node in kind.nodes}
    return all(_hardware(node) in hardware for node in members)


def _hardware(node: Node) -> tuple[object, ...]:
    offered = sorted((name, str(amount)) for name, amount in node.status.allocatable.items() if is_accelerator(name))
    return (*[node.metadata.labels.get(key, "") for key in _HARDWARE], tuple(offered))


def _placing(node: Node) -> list[str]:
    """The location keys of a node that have a value."""
    labels = node.metadata.labels.items()
    return [key for key, value in labels if value and known(key) is not None and _is_usable(key)]


def _is_usable(key: str) -> bool:
    """Whether a ClusterTopology accepts the key."""
    return len(key) <= _LONGEST_KEY and not qualified_name(key)


def _proposal(kind: _Kind) -> Proposal | str:
    labels = [node.metadata.labels for node in kind.nodes]
    candidates = sorted((one for key in kind.keys if (one := known(key)) is not None), key=importance)
    nesting = Nesting(labels)
    levels, left_out = chain([one for one in candidates if one.key != HOSTNAME], nesting)
    levels, crowded = _fitting(levels, nesting)
    useful = [one for one in levels if nesting.count(one.key) > 1 or one.key not in SHARED]
    if not useful:
        return _useless(kind)
    hosts = [one for one in candidates if one.key == HOSTNAME]
    unusable = () if hosts and nesting.is_unique(HOSTNAME) else (_no_host(bool(hosts)),)
    chosen = _choices(levels + (hosts if not unusable else []), nesting)
    return Proposal(
        name=_model(kind.nodes),
        levels=tuple(chosen),
        nodes=_names(kind.nodes),
        left_out=(*left_out, *crowded, *unusable, *_rare(kind)),
        offers=tuple(_offers(levels, nesting)),
        incomplete=tuple((node.metadata.name, _lacking(node, levels)) for node in kind.incomplete),
    )


def _useless(kind: _Kind) -> str:
    if HOSTNAME not in kind.keys and not kind.keys:
        return "no key that says where they are"
    return "no key that divides them, besides that of the host"


def _rare(kind: _Kind) -> Iterable[LeftOut]:
    for key in sorted(kind.extra):
        count = sum(key in node.metadata.labels for node in kind.nodes)
        yield LeftOut(key, f"{count} of {len(kind.nodes)} nodes carry it")


def _no_host(is_there: bool) -> LeftOut:
    why = "two nodes carry the same value" if is_there else "not every node carries it"
    return LeftOut(HOSTNAME, why)


def _fitting(levels: list[KnownKey], nesting: Nesting) -> tuple[list[KnownKey], list[LeftOut]]:
    """At most as many levels as there are domain names; drops keys with one value first, then the least important."""
    crowded: list[LeftOut] = []
    kept = list(levels)
    while len(kept) > len(_ABOVE_HOST):
        out = max(kept, key=lambda one: (nesting.count(one.key) == 1, importance(one)))
        kept.remove(out)
        crowded.append(LeftOut(out.key, f"a topology has at most {len(_ABOVE_HOST)} levels above the host"))
    return kept, crowded


def _choices(levels: Sequence[KnownKey], nesting: Nesting) -> list[Choice]:
    above = [one for one in levels if one.key != HOSTNAME]
    domains = [*_assigned([one.domain for one in above]), *([HOST] if len(above) < len(levels) else [])]
    found: list[Choice] = []
    keys: list[str] = []
    for one, domain in zip(levels, domains, strict=True):
        sizes = nesting.sizes([*keys, one.key])
        remark = nesting.remark(keys[-1], one.key) if keys else ""
        found.append(Choice(domain, one.key, one.source, len(sizes), min(sizes), max(sizes), remark))
        keys.append(one.key)
    return found


def _assigned(wanted: Sequence[str]) -> tuple[str, ...]:
    """Distinct domain names for levels, broad to narrow, as close to the wanted ones as possible."""
    ranks = [_ABOVE_HOST.index(domain) for domain in wanted]
    ways = combinations(range(len(_ABOVE_HOST)), len(wanted))
    best = min(ways, key=lambda way: (sum(abs(one - rank) for one, rank in zip(way, ranks, strict=True)), way))
    return tuple(_ABOVE_HOST[at] for at in best)


def _offers(levels: Sequence[KnownKey], nesting: Nesting) -> list[Offer]:
    """Unknown keys that all nodes carry, that divide them and that nest between the levels."""
    taken = [one.key for one in levels]
    found = []
    for key in nesting.common_keys():
        if known(key) is not None or is_of_others(key) or not _is_usable(key) or nesting.is_unique(key):
            continue
        count = nesting.count(key)
        if count < 2 or any(nesting.is_same(key, other) for other in taken):
            continue
        if all(nesting.is_nested(key, other) or nesting.is_nested(other, key) for other in taken):
            above = next((other for other in taken if nesting.is_nested(other, key)), HOSTNAME)
            found.append(Offer(key, count, above))
    return sorted(found, key=lambda offer: (offer.domains, offer.key))[:_MOST_OFFERS]


def _lacking(node: Node, levels: Iterable[KnownKey]) -> tuple[str, ...]:
    return tuple(one.key for one in levels if not node.metadata.labels.get(one.key))


def _model(nodes: Sequence[Node]) -> str:
    """A name from the most common GPU model: `NVIDIA-H100-80GB-HBM3` is h100."""
    counts: Counter[str] = Counter()
    for node in nodes:
        labels: Mapping[str, str] = node.metadata.labels
        model = _MODEL.search(" ".join(labels.get(key, "") for key in _PRODUCTS).lower())
        counts[model.group() if model is not None else ""] += 1
    return max(sorted(counts), key=lambda name: counts[name]) or "topology"


def _named(proposals: Sequence[Proposal], existing: Sequence[AnyTopology], first: str) -> Iterable[Proposal]:
    """Proposals with unused names; a requested name is used as it is."""
    there = {one.metadata.name: topology_keys(one) for one in existing}
    taken: set[str] = {DEFAULT_TOPOLOGY, *there}
    for proposal in proposals:
        keys = [level.key for level in proposal.levels]
        same = next((name for name in sorted(there) if there[name] == keys), "")
        name, number = first or proposal.name, 1
        while name in taken and not first:
            number += 1
            name = f"{proposal.name}-{number}"
        first = ""
        taken.add(name)
        yield replace(proposal, name=name, same_as=same)


def _names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.metadata.name for node in nodes)
