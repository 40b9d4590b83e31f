"""Candidate masks of a part: single domains in best-fit order, or sets of few and close domains within a bound.

Offers every mask that could matter; masks that by count cannot hold the part are left out, and so are all but one of
several that differ only in their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spinney.core.placement.budget import StepBudget
from spinney.core.placement.gang.gang_tree import Level, Part
from spinney.core.placement.search.search_space import DomainMask, SearchSpace, SharedNode, bits


class Symmetry:
    """Signatures of the domains of a search space.

    `is_applicable` is False where no two domains can be treated as equivalent; every mask is then its own class.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        levels = [level for part in space.parts.all for level in (part.required, part.preferred) if level is not None]
        one_tree = len({level.topology for level in levels}) <= 1
        coupled = any(asked.shared or asked.domain_claims for asked in space.types)
        self.is_applicable = one_tree and not coupled and not space.shared_nodes
        self._levels: dict[tuple[str, int], dict[int, int]] = {}
        self._interned: dict[object, int] = {}

    def of_domain(self, topology: str, depth: int, mask: int) -> int:
        """The class of a mask; a mask that is not a whole domain is equivalent only to itself."""
        if depth == 0 or not self.is_applicable:
            return -mask
        return self._level_signatures(topology, depth).get(mask, -mask)

    def are_twins(self, one: DomainMask, other: DomainMask, level: Level) -> bool:
        """Equivalent domains with the same parent: if one is left out, the other can be left out as well."""
        if one.path[:-1] != other.path[:-1]:
            return False
        first, second = (self.of_domain(level.topology, level.depth, domain_mask.mask) for domain_mask in (one, other))
        return first == second

    def of_union(self, level: Level, union: int) -> object:
        """Equal for unions that a renaming of equivalent domains turns into each other."""
        classes: dict[int, object] = {}
        for domain_mask in self.space.domain_masks(level.topology, level.depth):
            if domain_mask.mask & union:
                classes[domain_mask.mask] = self._level_signatures(level.topology, level.depth)[domain_mask.mask]
        outside = union
        for mask in classes:
            outside &= ~mask
        if outside:
            return union
        for depth in range(level.depth - 1, 0, -1):
            above: dict[int, object] = {}
            for domain_mask in self.space.domain_masks(level.topology, depth):
                inside = [symmetry_class for mask, symmetry_class in classes.items() if mask & domain_mask.mask]
                if inside:
                    signature = self._level_signatures(level.topology, depth)[domain_mask.mask]
                    above[domain_mask.mask] = self._intern((signature, tuple(sorted(inside, key=repr))))
            classes = above
        return tuple(sorted(classes.values(), key=repr))

    def _level_signatures(self, topology: str, depth: int) -> dict[int, int]:
        """Equal numbers for equivalent domains: free amounts, usable types, ports and the structure below."""
        key = (topology, depth)
        if key in self._levels:
            return self._levels[key]
        levels = len(self.space.inventory.trees[topology].levels)
        below = self._level_signatures(topology, depth + 1) if depth < levels else None
        found: dict[int, int] = {}
        for domain_mask in self.space.domain_masks(topology, depth):
            content: list[object] = []
            loose = domain_mask.mask
            if below is not None:
                for mask, signature in below.items():
                    if mask & domain_mask.mask:
                        content.append((0, signature))
                        loose &= ~mask
            content += [(1, self._node_signature(node)) for node in bits(loose)]
            found[domain_mask.mask] = self._intern(tuple(sorted(content, key=repr)))
        self._levels[key] = found
        return found

    def _node_signature(self, node: int) -> int:
        space = self.space
        usable = tuple(asked.usable >> node & 1 for asked in space.types)
        runs = tuple(sorted(leaf for leaf, nodes in space.running.items() if node in nodes))
        return self._intern((tuple(space.free[node]), usable, tuple(sorted(space.ports[node])), runs))

    def _intern(self, value: object) -> int:
        return self._interned.setdefault(value, len(self._interned))


Vector = tuple[int, ...]


class DemandVectors:
    """Demands of parts and supplies of masks, cached; the search space must not change during its lifetime."""

    def __init__(self, space: SearchSpace, needs: Mapping[int, int], children: Mapping[int, tuple[int, ...]]) -> None:
        self.space = space
        self.needs = needs
        self.children = children
        self._supplies: dict[int, Vector] = {}
        self._demands: dict[int, Vector] = {}

    def demand(self, part: Part) -> Vector:
        """What the active pods at or below a part need."""
        known = self._demands.get(part.index)
        if known is not None:
            return known
        space = self.space
        vector = [0] * (len(space.types) + len(space.inventory.resources))
        if part.pods is not None:
            need = self.needs.get(part.index, 0)
            kind = space.type_of[part.index]
            vector[kind] = need
            for resource, amount in space.types[kind].request:
                vector[len(space.types) + resource] = amount * need
        for child in self.children.get(part.index, ()):
            for at, amount in enumerate(self.demand(space.parts.all[child])):
                vector[at] += amount
        self._demands[part.index] = tuple(vector)
        return self._demands[part.index]

    def supply(self, mask: int) -> Vector:
        """Upper bounds on what a mask holds."""
        known = self._supplies.get(mask)
        if known is not None:
            return known
        space = self.space
        types = len(space.types)
        vector = [0] * (types + len(space.inventory.resources))
        for node in bits(mask & space.useful):
            for kind in range(types):
                if space.types[kind].usable >> node & 1:
                    vector[kind] += space.capacity(kind, node)
            for resource, amount in enumerate(space.free[node]):
                if amount > 0:
                    vector[types + resource] += amount
        for shared_node in space.shared_nodes:
            if (mask & shared_node.mask).bit_count() > 1:
                self._limit(vector, shared_node, mask)
        self._supplies[mask] = tuple(vector)
        return self._supplies[mask]

    def _limit(self, vector: list[int], shared_node: SharedNode, mask: int) -> None:
        """Cap the supply: the zones of one node provide no more together than the node has."""
        space = self.space
        nodes = list(bits(shared_node.mask & mask & space.useful))
        for kind, asked in enumerate(space.types):
            held = sum(space.capacity(kind, node) for node in nodes if asked.usable >> node & 1)
            vector[kind] -= max(0, held - shared_node.holds(asked.request, asked.ports))
        for resource, amount in enumerate(shared_node.free):
            there = sum(max(0, space.free[node][resource]) for node in nodes)
            vector[len(space.types) + resource] -= max(0, there - max(0, amount))

    def could_hold(self, part: Part, mask: int) -> bool:
        return all(want <= have for want, have in zip(self.demand(part), self.supply(mask), strict=True))

    def hold_together(self, parts: Iterable[Part], mask: int) -> bool:
        """Whether a mask could hold all these parts at once."""
        demands = [self.demand(part) for part in parts]
        return all(
            sum(wants) <= have for wants, have in zip(zip(*demands, strict=True), self.supply(mask), strict=True)
        )

    def is_useful(self, part: Part, mask: int) -> bool:
        """Whether at least one pod of the part could be placed there."""
        types = len(self.space.types)
        return any(want and have for want, have in zip(self.demand(part)[:types], self.supply(mask), strict=False))


Path = tuple[object, ...]


def path_distance(one: Path, other: Path, depth: int) -> int:
    """Number of tree edges between two domains of a level; a node outside the level counts as one of its domains."""
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    return 2 * (depth - common)


class DomainSet(NamedTuple):
    """A set of domains that grows by one domain at a time; `shared` counts its domains per prefix of their paths."""

    mask: int
    holds: tuple[int, ...]
    paths: tuple[Path, ...]
    together: int  # pairs of domains, counted once for every level they share
    shared: dict[Path, int]

    @classmethod
    def nothing(cls, width: int) -> DomainSet:
        return cls(0, (0,) * width, (), 0, {})

    @classmethod
    def of(cls, domain_masks: Iterable[tuple[DomainMask, tuple[int, ...]]]) -> DomainSet:
        union: DomainSet | None = None
        for domain_mask, supply in domain_masks:
            union = (union or cls.nothing(len(supply))).plus(domain_mask, supply)
        assert union is not None
        return union

    def plus(self, domain_mask: DomainMask, supply: tuple[int, ...]) -> DomainSet:
        shared = dict(self.shared)
        together = self.together
        for depth in range(1, len(domain_mask.path)):
            prefix = domain_mask.path[:depth]
            together += shared.get(prefix, 0)
            shared[prefix] = shared.get(prefix, 0) + 1
        holds = tuple([a + b for a, b in zip(self.holds, supply, strict=True)])
        return DomainSet(self.mask | domain_mask.mask, holds, (*self.paths, domain_mask.path), together, shared)

    def distance(self, depth: int) -> int:
        """The sum over all pairs of domains: two edges for every level that a pair does not share."""
        count = len(self.paths)
        return 2 * (depth * (count * (count - 1) // 2) - self.together)


class DomainChoices:
    """The domains by which a set may grow, in a fixed order; `unlike[i]` is the next one not equivalent to the i-th."""

    def __init__(
        self, domain_masks: Sequence[DomainMask], vectors: Sequence[tuple[int, ...]], unlike: Sequence[int]
    ) -> None:
        self.domain_masks = domain_masks
        self.vectors = vectors
        self.unlike = unlike
        width = len(vectors[0]) if vectors else 0
        self._largest: list[tuple[int, ...]] = [(0,) * width]
        self._parents: list[dict[Path, int]] = [{}]
        for at in range(len(domain_masks) - 1, -1, -1):
            self._largest.append(tuple([max(a, b) for a, b in zip(self._largest[-1], vectors[at], strict=True)]))
            parents = self._parents[-1]
            if at % 16 == 0 or at == len(domain_masks) - 1:
                parents = dict(parents)
            self._parents.append(parents)
            parents[domain_masks[at].path[:-1]] = parents.get(domain_masks[at].path[:-1], 0) + 1
        self._largest.reverse()
        self._parents.reverse()

    def could_complete(self, union: DomainSet, at: int, left: int, demand: tuple[int, ...]) -> bool:
        """Whether `left` more domains from a position on, each as large as the largest there, could hold the demand."""
        largest = self._largest[at]
        return all(want <= have + left * more for want, have, more in zip(demand, union.holds, largest, strict=True))

    def least_distance(self, union: DomainSet, at: int, left: int, demand: tuple[int, ...], depth: int) -> int:
        """A lower bound for a complete set: missing domains are as close as the remaining ones allow."""
        missing = self._missing(union, at, left, demand)
        if not missing:
            return union.distance(depth)
        count = len(union.paths)
        nearest = max(
            (sum(union.shared.get(parent[:up], 0) for up in range(1, len(parent) + 1)) for parent in self._parents[at]),
            default=0,
        )
        sizes = sorted(self._parents[at].values(), reverse=True)
        beside, rest = 0, missing
        for size in sizes:
            here = min(size, rest)
            beside += here * (here - 1) // 2
            rest -= here
        own = missing * (missing - 1) // 2
        return union.distance(depth) + 2 * (missing * (depth * count - nearest) + own + (own - beside))

    def _missing(self, union: DomainSet, at: int, left: int, demand: tuple[int, ...]) -> int:
        """A lower bound, by count, on the number of domains still needed."""
        most = 0
        for want, have, more in zip(demand, union.holds, self._largest[at], strict=True):
            if want > have and more:
                most = max(most, -(-(want - have) // more))
        return min(most, left)


class DomainBound(NamedTuple):
    """A bound on a part: one domain at `depth`, in it few preferred-level domains at a small distance."""

    depth: int
    outside_nodes: bool = True  # nodes outside the topology are allowed (only at depth 0)
    domains: int | None = None
    distance: int | None = None


class Candidates:
    """The masks open to each part under the bounds in force (`domain_bounds`)."""

    def __init__(
        self,
        space: SearchSpace,
        budget: StepBudget,
        vectors: DemandVectors,
        symmetry: Symmetry,
        kinds: list[int],
        spread: bool,
    ) -> None:
        self.space = space
        self.budget = budget
        self.vectors = vectors
        self.symmetry = symmetry
        self.kinds = kinds
        self.spread = spread
        self.domain_bounds: Mapping[int, DomainBound] = {}
        self.extras: Mapping[int, int] = {}
        self._rooms: dict[int, tuple[int, ...]] = {}  # the search space does not change meanwhile
        self._orders: dict[object, list[int]] = {}
        self._ranked: dict[object, tuple[list[DomainMask], DomainChoices]] = {}

    def level_of(self, part: Part) -> tuple[int, str]:
        """Depth and topology of the level at which a part must be in one domain; depth 0 is the cluster."""
        level = part.required or part.preferred
        assert level is not None
        domain_bound = self.domain_bounds.get(part.index)
        return max(
            part.required.depth if part.required else 0, domain_bound.depth if domain_bound else 0
        ), level.topology

    def is_split(self, part: Part) -> bool:
        """Whether the part is bound to a number of domains instead of to one."""
        domain_bound = self.domain_bounds.get(part.index)
        return domain_bound is not None and domain_bound.domains is not None

    def symmetry_class(self, part: Part, mask: int) -> int:
        """Equal for equivalent candidates of a part."""
        depth, topology = self.level_of(part)
        return self.symmetry.of_domain(topology, depth, mask)

    def single(self, part: Part, scope: int) -> list[int]:
        """Domains that could hold a part: those that also hold most of its elastic pods first, then by best fit."""
        key = (self.kinds[part.index], scope, self.domain_bounds.get(part.index))
        if key not in self._orders:
            pins = self.space.running_mask(part)
            masks = [mask & scope for mask in self._scopes(part, scope) if not pins & ~mask]
            self.budget.spend(1 + len(masks) // 4)
            fitting = [mask for mask in masks if self.vectors.could_hold(part, mask)]
            self._orders[key] = self._by_fit(part, fitting)
        return self._orders[key]

    def _by_fit(self, part: Part, masks: Sequence[int]) -> list[int]:
        """Most elastic pods first, then the least room (most, if spread); of equal ones that in the fuller parent."""
        fit = {mask: (-self._extra(part, mask), self._room(mask)) for mask in masks}
        times = Counter(fit.values())

        def around(mask: int) -> list[tuple[int, ...]]:
            return [self._room(each) for each in self._parents(part, mask)] if times[fit[mask]] > 1 else []

        return sorted(masks, key=lambda mask: (*fit[mask], around(mask), self._place(part, mask), mask & -mask))

    def _room(self, mask: int) -> tuple[int, ...]:
        known = self._rooms.get(mask)
        if known is None:
            room = self.space.room(mask)
            known = self._rooms[mask] = tuple([-amount for amount in room]) if self.spread else room
        return known

    def _parents(self, part: Part, mask: int) -> Iterator[int]:
        """The domains that contain a domain, narrow to broad."""
        depth, topology = self.level_of(part)
        for above in range(depth - 1, 0, -1):
            for domain_mask in self.space.domain_masks(topology, above):
                if domain_mask.mask & mask:
                    yield domain_mask.mask
                    break

    def _extra(self, part: Part, mask: int) -> int:
        """An upper bound, by count, on how many elastic pods the mask could take beyond the minimum."""
        if not self.extras:
            return 0
        demand, there = self.vectors.demand(part), self.vectors.supply(mask)
        room: dict[int, int] = {}
        for leaf in self.space.parts.below(part):
            kind = self.space.type_of[leaf.index]
            room[kind] = room.get(kind, 0) + self.extras.get(leaf.index, 0)
        return sum(min(extra, there[kind] - demand[kind]) for kind, extra in room.items())

    def _place(self, part: Part, mask: int) -> int:
        """The position of a domain in path order, which breaks ties."""
        depth, topology = self.level_of(part)
        if depth == 0:
            return 0
        domain_masks = self.space.domain_masks(topology, depth)
        return next((at for at, domain_mask in enumerate(domain_masks) if domain_mask.mask & mask), len(domain_masks))

    def _scopes(self, part: Part, within: int) -> Iterator[int]:
        """The domains one of which must contain the whole part, before it is split into several domains."""
        depth, topology = self.level_of(part)
        if depth:
            yield from (
                domain_mask.mask
                for domain_mask in self.space.domain_masks(topology, depth)
                if domain_mask.mask & within
            )
            return
        domain_bound = self.domain_bounds[part.index]
        if domain_bound.outside_nodes:
            yield self.space.everything
            return
        inside = 0
        for domain_mask in self.space.domain_masks(topology, 1):
            inside |= domain_mask.mask
        yield inside

    def scopes_of(self, part: Part, domain_bound: DomainBound) -> Iterator[int]:
        """The domains that a bound alone allows for a part."""
        assert part.preferred is not None
        if domain_bound.depth == 0:
            yield self.space.everything
        else:
            yield from (
                domain_mask.mask for domain_mask in self.space.domain_masks(part.preferred.topology, domain_bound.depth)
            )

    def split(self, part: Part, within: int, first: bool) -> Iterator[int]:
        """Unions of a few domains of the preferred level, within the bounds on number and distance.

        As long as nothing is placed (`first`), one of several equivalent unions is enough.
        """
        assert part.preferred is not None
        seen: set[object] = set()
        domain_bound = self.domain_bounds[part.index]
        pins = self.space.running_mask(part)
        scopes = [mask & within for mask in self._scopes(part, within) if not pins & ~mask]
        for scope in self._by_fit(part, scopes):
            if not self.vectors.could_hold(part, scope):
                continue
            for union in self._unions(part, scope, domain_bound, pins, first):
                if first and self.symmetry.is_applicable and within == self.space.everything:
                    symmetry_class = self.symmetry.of_union(part.preferred, union)
                    if symmetry_class in seen:
                        continue
                    seen.add(symmetry_class)
                yield union

    def preferred_domain_masks(self, part: Part, scope: int) -> list[DomainMask]:
        """The domains of the preferred level inside a scope; a node outside that level is a domain of its own."""
        level = part.preferred
        assert level is not None
        domain_masks = [
            *self.space.domain_masks(level.topology, level.depth),
            *self.space.outside_nodes(level.topology, level.depth),
        ]
        return [
            DomainMask(domain_mask.mask & scope, domain_mask.path, domain_mask.inside)
            for domain_mask in domain_masks
            if domain_mask.mask & scope
        ]

    def _unions(self, part: Part, scope: int, domain_bound: DomainBound, pins: int, first: bool) -> Iterator[int]:
        """Sets of preferred-level domains within the bounds that by count hold the part, the most useful domains first.

        Equivalent domains are interchangeable only as long as nothing is placed (`first`).
        """
        level = part.preferred
        assert level is not None and domain_bound.domains is not None
        demand = self.vectors.demand(part)
        must, choice = self._ranked_domain_masks(part, scope, pins)
        start = (
            DomainSet.of((domain_mask, self.vectors.supply(domain_mask.mask)) for domain_mask in must)
            if must
            else DomainSet.nothing(len(demand))
        )
        stack: list[tuple[int, DomainSet]] = [(0, start)]
        while stack:
            at, union = stack.pop()
            self.budget.spend(2)
            left = domain_bound.domains - len(union.paths)
            if left < 0 or (domain_bound.distance is not None and union.distance(level.depth) > domain_bound.distance):
                continue
            if all(want <= have for want, have in zip(demand, union.holds, strict=True)):
                yield union.mask
            if at == len(choice.domain_masks) or left == 0 or not choice.could_complete(union, at, left, demand):
                continue
            if (
                domain_bound.distance is not None
                and choice.least_distance(union, at, left, demand, level.depth) > domain_bound.distance
            ):
                continue
            stack.append((choice.unlike[at] if first else at + 1, union))
            stack.append((at + 1, union.plus(choice.domain_masks[at], choice.vectors[at])))

    def _ranked_domain_masks(self, part: Part, scope: int, pins: int) -> tuple[list[DomainMask], DomainChoices]:
        """The preferred-level domains in which members run, and the others in the order they are tried."""
        key = (self.kinds[part.index], part.preferred, scope, pins)
        if key not in self._ranked:
            assert part.preferred is not None
            domain_masks = self.useful_domain_masks(part, scope, pins)
            self.budget.spend(1 + len(domain_masks) // 4)
            must = [domain_mask for domain_mask in domain_masks if domain_mask.mask & pins]
            others = sorted((s for s in domain_masks if not s.mask & pins), key=lambda s: self._usefulness(part, s))
            unlike = list(range(1, len(others) + 1))
            for at in range(len(others) - 2, -1, -1):
                if self.symmetry.are_twins(others[at], others[at + 1], part.preferred):
                    unlike[at] = unlike[at + 1]
            self._ranked[key] = (
                must,
                DomainChoices(others, [self.vectors.supply(domain_mask.mask) for domain_mask in others], unlike),
            )
        return self._ranked[key]

    def useful_domain_masks(self, part: Part, scope: int, pins: int) -> list[DomainMask]:
        """The preferred-level domains that have a running member or could take a pod."""
        domain_masks = self.preferred_domain_masks(part, scope)
        return [
            domain_mask
            for domain_mask in domain_masks
            if domain_mask.mask & pins or self.vectors.is_useful(part, domain_mask.mask)
        ]

    def _usefulness(self, part: Part, domain_mask: DomainMask) -> tuple[object, ...]:
        """Domains that hold most come first, then tighter ones, then by path so that siblings are adjacent."""
        demand, there = self.vectors.demand(part), self.vectors.supply(domain_mask.mask)
        types = len(self.space.types)
        holds = sum(min(want, have) for want, have in zip(demand[:types], there[:types], strict=True))
        return -holds, self.space.room(domain_mask.mask), [str(value) for value in domain_mask.path]
