"""The nodes of one decision as small integers and bit masks: free amounts, usable nodes per pod type, domains.

A search space is created for one decision and then discarded. It never changes the inventory. NUMA zones of one node
are nodes here; those that a gang could use up together are tracked as shared nodes, so that never more is taken than
the node or the zone has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from spinney.core.inventory.filters import admits, not_selected, preference
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.numa_zones import BOUNDLESS, Rows
from spinney.core.placement.gang.gang_tree import GangTree, Part, asked_resources
from spinney.core.placement.gang.pod_affinity import Spread, Together
from spinney.core.placement.search.affinity import (
    FIRST_TOKEN,
    DomainClaim,
    Exclusion,
    Exclusions,
    NearRule,
    SpreadRule,
    presence_token,
)

Request = Iterable[tuple[int, int]]
"""(resource, amount)"""


class SharedNode:
    """A divided node in a search space: its free amounts, those of each zone by itself, and the zones' node indices."""

    __slots__ = ("free", "home", "mask", "own")

    def __init__(self, free: list[int], own: dict[int, list[int]], home: int | None) -> None:
        self.free = free
        self.own = own
        self.home = home  # the node itself: pods whose zone is not known are counted there
        self.mask = sum(1 << node for node in own)

    def take(self, rows: Sequence[list[int]], node: int, request: Request, count: int) -> None:
        """Take from a zone, or from all if `node` is the node itself; `rows`: what each zone can provide then."""
        zones = [self.own[node]] if node in self.own else list(self.own.values())
        for resource, amount in request:
            self.free[resource] -= amount * count
            for row in zones:
                row[resource] -= amount * count
            for zone, row in self.own.items():
                rows[zone][resource] = min(row[resource], self.free[resource])

    def holds(self, request: Request, ports: frozenset[int]) -> int:
        """How many pods the node as a whole has capacity for."""
        most = min([self.free[resource] // amount for resource, amount in request], default=BOUNDLESS)
        return max(0, min(most, 1) if ports else most)


def find_shared_nodes(
    inventory: Inventory, parts: GangTree, slots: Sequence[int], waiting: bool, all_of_them: bool
) -> Iterator[SharedNode]:
    """The divided nodes among some slots that must be tracked for a gang."""
    place = {slot: node for node, slot in enumerate(slots)}
    nodes = {id(one): one for one in map(inventory.divided.get, slots) if one is not None}
    wanted = _wanted(parts)
    for divided in nodes.values():
        own = {place[zone]: _free(divided.own[zone], waiting) for zone in divided.zones if zone in place}
        free = list(inventory.free(divided.slot, waiting))
        if all_of_them or not _is_loose(parts, wanted, free, own):
            yield SharedNode(free, own, place.get(divided.slot))


def trimmed(
    shared_nodes: Iterable[SharedNode], request: Request, ports: frozenset[int], caps: Mapping[int, int]
) -> dict[int, int]:
    """Capacities for equal pods that can all be used at once; the zones that hold most keep theirs."""
    found = dict(caps)
    for shared_node in shared_nodes:
        here = sorted((node for node in shared_node.own if node in found), key=lambda node: (-found[node], node))
        left = shared_node.holds(request, ports) if len(here) > 1 else BOUNDLESS
        for node in here:
            found[node] = min(found[node], left)
            left -= found[node]
            if not found[node]:
                del found[node]
    return found


def _free(rows: Rows, waiting: bool) -> list[int]:
    return [now + soon for now, soon in zip(*rows, strict=True)] if waiting else list(rows[0])


def _wanted(parts: GangTree) -> list[int]:
    """The largest amounts a gang could request, per resource."""
    requests = [[amount * leaf.pods.count for amount in leaf.pods.request] for leaf in parts.leaves if leaf.pods]
    return [sum(amounts) for amounts in zip(*requests, strict=True)]


def _is_loose(parts: GangTree, wanted: Sequence[int], free: Sequence[int], own: Mapping[int, Sequence[int]]) -> bool:
    """Whether the node is never the limit: its zones run out first, or the gang cannot use up the node."""
    if len(own) < 2:
        return True
    if parts.affinity or any(leaf.pods.host_ports for leaf in parts.leaves if leaf.pods):
        return False
    return all(
        not want or want <= have or sum(max(0, row[resource]) for row in own.values()) <= have
        for resource, (want, have) in enumerate(zip(wanted, free, strict=True))
    )


UNBOUNDED = 1 << 31

Solution = dict[int, dict[int, int]]
"""For every pod set (by index of its part): number of pods per node of the search space."""


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, low to high."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class DomainMask(NamedTuple):
    """A domain in the search space, or a node outside a level, whose `path` then ends in the node."""

    mask: int
    path: tuple[object, ...]
    inside: bool = True


@dataclass(slots=True)
class PodType:
    """Interchangeable pods: what one of them requests, and which nodes it may use."""

    request: tuple[tuple[int, int], ...]  # (resource, amount), amounts above zero only
    usable: int
    ports: frozenset[int]  # host ports and tokens that one of them claims on its node
    refused: frozenset[int]  # host ports and tokens that no other pod on its node may have claimed
    values: tuple[dict[int, object], ...]  # per anti-affinity key: node -> label value
    shared: bool  # some of these values are carried by several usable nodes
    node_preference: dict[int, tuple[int, ...]] | None  # node scores of the pods' soft constraints, where they differ
    domain_claims: tuple[DomainClaim, ...] = ()
    ruled: bool = False  # a near rule or a spread rule is about them


class SearchSpace:
    """Free amounts of some nodes for one gang, nodes in a fixed order (by name); NUMA zones of divided nodes are nodes.

    `shared_nodes` are the divided nodes that the gang could use up; with `lasting`, all of them.
    """

    def __init__(
        self, inventory: Inventory, parts: GangTree, slots: Sequence[int], waiting: bool, lasting: bool = False
    ) -> None:
        names = {slot: inventory.name(slot) for slot in slots}
        self.inventory = inventory
        self.parts = parts
        self.waiting = waiting
        self.slots = sorted(names, key=names.__getitem__)
        self.free = [list(inventory.free(slot, waiting)) for slot in self.slots]
        self.ports = self._ports()
        self.shared_nodes: list[SharedNode] = []
        self._shared_node_of: dict[int, SharedNode] = {}
        if inventory.divided:
            self._find_shared_nodes(lasting)
        self.everything = (1 << len(self.slots)) - 1
        self.running = self._running()
        self.claimed: dict[tuple[int, object], int] = {}
        self.types: list[PodType] = []
        self.type_of: dict[int, int] = {}
        self._coupled_leaves: dict[int, int] = {}
        self._couplings: dict[int, int] = {}
        self._make_types()
        self._claim_for_running()
        self.wanted = asked_resources(parts, inventory.resources)
        self.useful = 0
        for asked in self.types:
            self.useful |= asked.usable
        self._confined: set[Together] = set()
        self.near: list[NearRule] = []
        self.spread_rules: list[SpreadRule] = []
        if self.parts.affinity:
            self._make_rules()
        self._domain_masks: dict[tuple[str, int], list[DomainMask]] = {}

    def domain_masks(self, topology: str, depth: int) -> list[DomainMask]:
        """The domains of a level that have nodes in the search space, by path."""
        key = (topology, depth)
        if key not in self._domain_masks:
            self._domain_masks[key] = self._find_domain_masks(topology, depth)
        return self._domain_masks[key]

    def outside_nodes(self, topology: str, depth: int) -> list[DomainMask]:
        """The nodes that are in no domain of a level, each below the deepest broader domain it belongs to."""
        tree = self.inventory.trees[topology]
        inside = 0
        for domain_mask in self.domain_masks(topology, depth):
            inside |= domain_mask.mask
        found: dict[int, DomainMask] = {}
        for node in bits(self.everything & ~inside):
            home = self.inventory.home(self.slots[node])
            if home in found:
                found[home] = found[home]._replace(mask=found[home].mask | 1 << node)
                continue
            path: tuple[object, ...] = ()
            for shallower in range(depth - 1, 0, -1):
                domain = tree.domain_of(shallower)[self.slots[node]]
                if domain >= 0:
                    path = tree.path(shallower, domain)
                    break
            found[home] = DomainMask(1 << node, (*path, node), bool(path))
        return list(found.values())

    def capacity(self, kind: int, node: int) -> int:
        """How many pods of a type fit on a node now, given host ports and anti-affinity among themselves."""
        asked = self.types[kind]
        free = self.free[node]
        fits = UNBOUNDED
        for resource, amount in asked.request:
            count = free[resource] // amount
            if count < fits:
                fits = count
        if fits <= 0:
            return 0
        if asked.domain_claims and self._is_refused(asked, node):
            return 0
        if asked.refused:
            if not asked.refused.isdisjoint(self.ports[node]):
                return 0
            if not asked.refused.isdisjoint(asked.ports):
                return 1
        if asked.values and any(node in by_node for by_node in asked.values):
            return 1
        return fits

    def usable_at_once(self, kind: int, caps: Mapping[int, int]) -> Mapping[int, int]:
        """Capacities for pods of a type, reduced to what the zones of one node can provide together."""
        asked = self.types[kind]
        return trimmed(self.shared_nodes, asked.request, asked.ports, caps) if self.shared_nodes else caps

    def take(self, kind: int, node: int, count: int) -> None:
        asked = self.types[kind]
        if self.shared_nodes:
            self.use(node, asked.request, count)
        else:
            free = self.free[node]
            for resource, amount in asked.request:
                free[resource] -= amount * count
        if asked.ports and count:
            self._claim(node, asked.ports, count)
        for claim in asked.domain_claims:
            if node in claim.by_node:
                place = claim.token, claim.by_node[node]
                self.claimed[place] = self.claimed.get(place, 0) + count

    def _claim(self, node: int, ports: Iterable[int], count: int) -> None:
        """Claim ports and tokens on a node, or with a negative count give them back."""
        claims = self.ports[node]
        for port in ports:
            claims[port] = claims.get(port, 0) + count
            if claims[port] <= 0:
                del claims[port]

    def _is_refused(self, asked: PodType, node: int) -> bool:
        """Whether the domain of a node has pods of another set that these keep apart from."""
        return any(
            node in claim.by_node and self.claimed.get((token, claim.by_node[node]), 0) > 0
            for claim in asked.domain_claims
            for token in claim.refused
        )

    def read_ports(self, node: int) -> None:
        """Follow the inventory where host ports of a node were given back or taken."""
        slot = self.slots[node]
        claims = {port: count for port, count in self.ports[node].items() if port >= FIRST_TOKEN}
        self.ports[node].clear()
        self.ports[node].update(claims | dict.fromkeys(self.inventory.ports(slot, self.waiting), 1))

    def use(self, node: int, request: Sequence[tuple[int, int]], count: int) -> None:
        """Subtract amounts from a node, and from the zones and nodes that share them."""
        shared_node = self._shared_node_of.get(node)
        if shared_node is not None:
            shared_node.take(self.free, node, request, count)
            return
        free = self.free[node]
        for resource, amount in request:
            free[resource] -= amount * count

    def span(self, mask: int) -> int:
        """The mask extended by all zones that share a node with it."""
        for shared_node in self.shared_nodes:
            if shared_node.mask & mask:
                mask |= shared_node.mask
        return mask

    def couplings(self, part: Part) -> int:
        """The labels by which pods below a part keep apart from others across nodes, as a bit mask."""
        if not self._coupled_leaves:
            return 0
        known = self._couplings.get(part.index)
        if known is None:
            known = 0
            for leaf in self.parts.below(part):
                known |= self._coupled_leaves.get(leaf.index, 0)
            self._couplings[part.index] = known
        return known

    def put(self, solution: Solution, sign: int = 1) -> None:
        """Take (or with -1 give back) the capacity of all pods in a solution."""
        for leaf, where in solution.items():
            for node, count in where.items():
                self.take(self.type_of[leaf], node, sign * count)

    def add_running(self, solution: Solution) -> None:
        """Make a solution permanent: its capacity is taken and its pods count as running members."""
        self.put(solution)
        for leaf, where in solution.items():
            asked = self.types[self.type_of[leaf]]
            for node, count in where.items():
                self.running.setdefault(leaf, []).extend([node] * count)
                for by_node in asked.values:
                    for other in bits(asked.usable):
                        if node in by_node and by_node.get(other) == by_node[node]:
                            asked.usable &= ~(1 << other)
        for group in self.parts.affinity.together:
            self._confine_to_members(group)
        self.spread_rules = [self._recounted(rule) for rule in self.spread_rules]

    def _ports(self) -> list[dict[int, int]]:
        """Host ports in use by node, and how often; the zones of one node share one count."""
        if not self.inventory.divided:
            return [dict.fromkeys(self.inventory.ports(slot, self.waiting), 1) for slot in self.slots]
        by_home: dict[int, dict[int, int]] = {}
        homes = [self.inventory.home(slot) for slot in self.slots]
        return [by_home.setdefault(home, dict.fromkeys(self.inventory.ports(home, self.waiting), 1)) for home in homes]

    def _find_shared_nodes(self, lasting: bool) -> None:
        self.shared_nodes = list(find_shared_nodes(self.inventory, self.parts, self.slots, self.waiting, lasting))
        for shared_node in self.shared_nodes:
            self._shared_node_of.update(dict.fromkeys(shared_node.own, shared_node))
            if shared_node.home is not None:
                self._shared_node_of[shared_node.home] = shared_node

    def _running(self) -> dict[int, list[int]]:
        """Nodes of the running members per pod set."""
        place = {slot: node for node, slot in enumerate(self.slots)}
        found: dict[int, list[int]] = {}
        leaves = {part.path: part.index for part in self.parts.leaves}
        for member in self.parts.gang.running:
            found.setdefault(leaves[member.pods], []).append(place[self.inventory.slot_for(member.node, member.zone)])
        return found

    def running_mask(self, part: Part) -> int:
        """The nodes on which members at or below a part run."""
        mask = 0
        if not self.running:
            return mask
        for leaf in self.parts.below(part):
            for node in self.running.get(leaf.index, ()):
                mask |= 1 << node
        return mask

    def _make_types(self) -> None:
        known: dict[object, int] = {}
        exclusions = self._exclusions() if self.parts.affinity else None
        for leaf in self.parts.leaves:
            pods = leaf.pods
            assert pods is not None
            mine = exclusions.of(leaf) if exclusions is not None else Exclusion(pods.anti_affinity)
            together = tuple([at for at, one in enumerate(self.parts.affinity.together) if leaf.index in one.leaves])
            alone = leaf.index if mine.keys or mine.domain_claims else -1
            key = (pods.request, pods.filter, pods.host_ports, mine.claims, mine.refused, together, alone)
            if key not in known:
                known[key] = len(self.types)
                self.types.append(self._type(leaf, mine))
            self.type_of[leaf.index] = known[key]
            for claim in mine.domain_claims:
                bit = 1 << (claim.token - FIRST_TOKEN >> 32)
                self._coupled_leaves[leaf.index] = self._coupled_leaves.get(leaf.index, 0) | bit

    def _claim_for_running(self) -> None:
        """Members that run already have claims as well; their host ports are known from the inventory."""
        if not self.parts.affinity:
            return
        for leaf, nodes in self.running.items():
            asked = self.types[self.type_of[leaf]]
            for node in nodes:
                self._claim(node, [port for port in asked.ports if port >= FIRST_TOKEN], 1)
                for claim in asked.domain_claims:
                    if node in claim.by_node:
                        place = claim.token, claim.by_node[node]
                        self.claimed[place] = self.claimed.get(place, 0) + 1

    def _type(self, leaf: Part, exclusion: Exclusion) -> PodType:
        pods = leaf.pods
        assert pods is not None
        usable = 0
        node_preference: dict[int, tuple[int, ...]] = {}
        for node, slot in enumerate(self.slots):
            if admits(pods.filter, self.inventory.node(slot)):
                usable |= 1 << node
        values = tuple(self.label_values(key) for key in exclusion.keys)
        for by_node in values:
            taken = {by_node[node] for node in self.running.get(leaf.index, ()) if node in by_node}
            for node in list(bits(usable)):
                if node in by_node and by_node[node] in taken:
                    usable &= ~(1 << node)
        for key in exclusion.needed:
            usable &= sum([1 << node for node in self.label_values(key)])
        for node in bits(usable):
            node_preference[node] = preference(pods.filter, self.inventory.node(self.slots[node]))
        shared = any(
            len({by_node[node] for node in by_node if usable >> node & 1})
            < sum(1 for node in by_node if usable >> node & 1)
            for by_node in values
        )
        request = tuple((resource, amount) for resource, amount in enumerate(pods.request) if amount)
        cares = node_preference if len(set(node_preference.values())) > 1 else None
        ports, refused = pods.host_ports | exclusion.claims, pods.host_ports | exclusion.refused
        claims, ruled = exclusion.domain_claims, exclusion.ruled
        return PodType(request, usable, ports, refused, values, shared, cares, claims, ruled)

    def _exclusions(self) -> Exclusions:
        affinity = self.parts.affinity
        homes = [self.inventory.home(slot) for slot in self.slots]
        return Exclusions(affinity, {key: self.label_values(key) for key in affinity.labels()}, homes)

    def _make_rules(self) -> None:
        affinity = self.parts.affinity
        self.near = [
            NearRule(
                one.leaf,
                one.others,
                presence_token(number, one.leaf),
                frozenset([presence_token(number, other) for other in one.others]),
                self.label_values(one.key),
                one.domains,
            )
            for number, one in enumerate(affinity.near)
        ]
        self.spread_rules = [self._spread_rule(one) for one in affinity.spread]
        for group in affinity.together:
            self._confine_to_members(group)

    def _spread_rule(self, asked: Spread) -> SpreadRule:
        """The domains are those of all nodes that the pods select, whatever is free there and whoever is tolerated."""
        key, leaf, max_skew, min_domains = asked
        pods = self.parts.all[asked.leaf].pods
        assert pods is not None
        nodes = {slot: self.inventory.node(slot) for slot in self.inventory.slots()}
        there = {
            slot: node.labels[key]
            for slot, node in nodes.items()
            if key in node.labels and not_selected(pods.filter, node) is None
        }
        start: dict[object, int] = dict.fromkeys(there.values(), 0)
        for node in self.running.get(leaf, ()):
            if self.slots[node] in there:
                start[there[self.slots[node]]] += 1
        by_node = {node: there[slot] for node, slot in enumerate(self.slots) if slot in there}
        return SpreadRule(leaf, by_node, start, max_skew, len(start) >= min_domains)

    # Pod sets that are in one domain of a label

    def undecided(self, needs: Mapping[int, int]) -> Together | None:
        """A group of pod sets that has no domain yet, and needs pods."""
        for group in self.parts.affinity.together:
            if group not in self._confined and any(needs.get(leaf) for leaf in group.leaves):
                return group
        return None

    def domains_for(self, group: Together, needs: Mapping[int, int]) -> list[int]:
        """The domains that by count hold each pod set of a group, those with the least room first."""
        masks: dict[object, int] = {}
        for node, value in self.label_values(group.key).items():
            masks[value] = masks.get(value, 0) | 1 << node
        fitting = [mask for mask in masks.values() if all(self._has_room(leaf, needs, mask) for leaf in group.leaves)]
        return sorted(fitting, key=lambda mask: (self.room(mask), mask & -mask))

    def _has_room(self, leaf: int, needs: Mapping[int, int], mask: int) -> bool:
        kind = self.type_of[leaf]
        need = needs.get(leaf, 0)
        return not need or sum(self.capacity(kind, node) for node in bits(mask & self.types[kind].usable)) >= need

    @contextmanager
    def confined(self, group: Together, mask: int) -> Iterator[None]:
        """The pod sets of a group may use nothing but this domain for a while."""
        before = [asked.usable for asked in self.types], self.useful
        self._confine(group, mask)
        try:
            yield
        finally:
            self._confined.discard(group)
            for asked, usable in zip(self.types, before[0], strict=True):
                asked.usable = usable
            self.useful = before[1]

    def _confine(self, group: Together, mask: int) -> None:
        self._confined.add(group)
        for kind in {self.type_of[leaf] for leaf in group.leaves}:
            self.types[kind].usable &= mask
        self.useful = 0
        for asked in self.types:
            self.useful |= asked.usable

    def _confine_to_members(self, group: Together) -> None:
        """Members that run decide the domain; if they are in several, or in none, no pod can be added."""
        nodes = {node for leaf in group.leaves for node in self.running.get(leaf, ())}
        if not nodes or group in self._confined:
            return
        values = self.label_values(group.key)
        here = {values.get(node) for node in nodes}
        mask = sum([1 << node for node, value in values.items() if value in here])
        self._confine(group, mask if len(here) == 1 and None not in here else 0)

    def open_to_one(self, leaf: int) -> int:
        """The nodes that may get one more pod of a set, as far as near and spread rules are concerned."""
        mask = self.types[self.type_of[leaf]].usable
        for near in self.near:
            if near.leaf == leaf:
                there = {value for (token, value), count in self.claimed.items() if token in near.theirs and count > 0}
                there |= near.domains
                mask &= sum([1 << node for node, value in near.by_node.items() if value in there])
        for number, rule in enumerate(self.spread_rules):
            if rule.leaf == leaf:
                rule = self.spread_rules[number] = self._recounted(rule)
                mask &= sum([1 << node for node, value in rule.by_node.items() if _may_grow(rule, value)])
        return mask

    def _recounted(self, rule: SpreadRule) -> SpreadRule:
        start = dict.fromkeys(rule.start, 0)
        for node in self.running.get(rule.leaf, ()):
            if node in rule.by_node:
                start[rule.by_node[node]] += 1
        return replace(rule, start=start)

    def label_values(self, key: str) -> dict[int, object]:
        """The value of a label by node, for nodes that have it."""
        found: dict[int, object] = {}
        for node, slot in enumerate(self.slots):
            value = self.inventory.node(slot).labels.get(key)
            if value is not None:
                found[node] = value
        return found

    def room(self, mask: int) -> tuple[int, ...]:
        """Idle amounts in the order of best fit, on the nodes of the mask that some pod may use."""
        sums = [0] * len(self.wanted)
        for node in bits(mask & self.useful):
            free = self.free[node]
            held = self.inventory.releasing[self.slots[node]] if self.waiting else None
            for at, resource in enumerate(self.wanted):
                idle = free[resource] - held[resource] if held else free[resource]
                if idle > 0:
                    sums[at] += idle
        return tuple(sums)

    def _find_domain_masks(self, topology: str, depth: int) -> list[DomainMask]:
        tree = self.inventory.trees[topology]
        domain_of = tree.domain_of(depth)
        masks: dict[int, int] = {}
        for node, slot in enumerate(self.slots):
            domain = domain_of[slot]
            if domain >= 0:
                masks[domain] = masks.get(domain, 0) | 1 << node
        return sorted((DomainMask(mask, tree.path(depth, domain)) for domain, mask in masks.items()), key=_by_path)


def _may_grow(rule: SpreadRule, value: object) -> bool:
    """Whether one more pod in a domain is allowed; where it alone has the fewest, they grow with it."""
    after = {**rule.start, value: rule.start[value] + 1}
    return after[value] - rule.lowest(after.values()) <= rule.max_skew


def minimum(space: SearchSpace) -> dict[int, int]:
    """How many pods every pod set still needs."""
    needs = {}
    for leaf in space.parts.leaves:
        assert leaf.pods is not None
        needs[leaf.index] = max(0, leaf.pods.min - len(space.running.get(leaf.index, ())))
    return needs


def _by_path(domain_mask: DomainMask) -> tuple[object, ...]:
    return domain_mask.path
