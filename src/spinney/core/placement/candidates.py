"""Where a part may go: single domains in the order of best fit, or unions of few and near ones within a bound.

Every mask that could matter is offered; what cannot hold the part by count is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spinney.core.placement.board import Board, Spot
from spinney.core.placement.budget import Budget
from spinney.core.placement.looks import Looks
from spinney.core.placement.measures import Measures
from spinney.core.placement.parts import Part
from spinney.core.placement.unions import Choice, Union


class Cap(NamedTuple):
    """A bound on how far a part may be spread: one domain at `depth`, and in it few and near domains of its wish."""

    depth: int
    strays: bool = True  # nodes outside the topology are allowed (only at depth 0)
    domains: int | None = None
    distance: int | None = None


class Candidates:
    """The masks open to each part under the bounds of the moment (`caps`)."""

    def __init__(
        self, board: Board, budget: Budget, measures: Measures, looks: Looks, kinds: list[int], spread: bool
    ) -> None:
        self.board = board
        self.budget = budget
        self.measures = measures
        self.looks = looks
        self.kinds = kinds
        self.spread = spread
        self.caps: Mapping[int, Cap] = {}
        self.extras: Mapping[int, int] = {}
        self._orders: dict[object, list[int]] = {}
        self._ranked: dict[object, tuple[list[Spot], Choice]] = {}

    def level_of(self, part: Part) -> tuple[int, str]:
        """Depth and topology of the level that a part is held to now; depth 0 is the cluster."""
        level = part.required or part.preferred
        assert level is not None
        cap = self.caps.get(part.index)
        return max(part.required.depth if part.required else 0, cap.depth if cap else 0), level.topology

    def is_split(self, part: Part) -> bool:
        """Whether the part is bound to a few domains instead of one."""
        cap = self.caps.get(part.index)
        return cap is not None and cap.domains is not None

    def look(self, part: Part, mask: int) -> int:
        """Equal for candidates of a part that look alike."""
        depth, topology = self.level_of(part)
        return self.looks.of_domain(topology, depth, mask)

    def single(self, part: Part, scope: int) -> list[int]:
        """Domains that could hold a part: those that hold its extra pods as well first, then by best fit."""
        key = (self.kinds[part.index], scope, self.caps.get(part.index))
        if key not in self._orders:
            pins = self.board.running_mask(part)
            masks = [mask & scope for mask in self._scopes(part, scope) if not pins & ~mask]
            self.budget.spend(1 + len(masks) // 4)
            fitting = [mask for mask in masks if self.measures.could_hold(part, mask)]
            self._orders[key] = sorted(fitting, key=lambda mask: self._fit(part, mask))
        return self._orders[key]

    def _fit(self, part: Part, mask: int) -> tuple[object, ...]:
        room = self.board.room(mask)
        if self.spread:
            room = tuple(-amount for amount in room)
        return -self._extra(part, mask), room, self._place(part, mask), mask & -mask

    def _extra(self, part: Part, mask: int) -> int:
        """How many pods beyond the minimum could go there, as far as counting tells."""
        if not self.extras:
            return 0
        demand, there = self.measures.demand(part), self.measures.measure(mask)
        room: dict[int, int] = {}
        for leaf in self.board.parts.below(part):
            kind = self.board.type_of[leaf.index]
            room[kind] = room.get(kind, 0) + self.extras.get(leaf.index, 0)
        return sum(min(extra, there[kind] - demand[kind]) for kind, extra in room.items())

    def _place(self, part: Part, mask: int) -> int:
        """Ties go by path; the spots of a level are sorted by it."""
        depth, topology = self.level_of(part)
        if depth == 0:
            return 0
        spots = self.board.spots(topology, depth)
        return next((at for at, spot in enumerate(spots) if spot.mask & mask), len(spots))

    def _scopes(self, part: Part, within: int) -> Iterator[int]:
        """The domains a part may be in as a whole, before its own split."""
        depth, topology = self.level_of(part)
        if depth:
            yield from (spot.mask for spot in self.board.spots(topology, depth) if spot.mask & within)
            return
        cap = self.caps[part.index]
        if cap.strays:
            yield self.board.everything
            return
        inside = 0
        for spot in self.board.spots(topology, 1):
            inside |= spot.mask
        yield inside

    def scopes_of(self, part: Part, cap: Cap) -> Iterator[int]:
        """The domains that a bound alone leaves to a part."""
        assert part.preferred is not None
        if cap.depth == 0:
            yield self.board.everything
        else:
            yield from (spot.mask for spot in self.board.spots(part.preferred.topology, cap.depth))

    def split(self, part: Part, within: int, first: bool) -> Iterator[int]:
        """Unions of a few domains of the wished level, within the bounds on number and distance.

        As long as nothing is placed (`first`), of unions that look alike one is enough.
        """
        assert part.preferred is not None
        seen: set[object] = set()
        cap = self.caps[part.index]
        pins = self.board.running_mask(part)
        scopes = [mask & within for mask in self._scopes(part, within) if not pins & ~mask]
        for scope in sorted(scopes, key=lambda mask: self._fit(part, mask)):
            if not self.measures.could_hold(part, scope):
                continue
            for union in self._unions(part, scope, cap, pins, first):
                if first and self.looks.helps and within == self.board.everything:
                    look = self.looks.of_union(part.preferred, union)
                    if look in seen:
                        continue
                    seen.add(look)
                yield union

    def spots_of_wish(self, part: Part, scope: int) -> list[Spot]:
        """The domains of the wished level inside a scope, nodes outside that level standing for themselves."""
        level = part.preferred
        assert level is not None
        spots = [*self.board.spots(level.topology, level.depth), *self.board.strays(level.topology, level.depth)]
        return [Spot(spot.mask & scope, spot.path, spot.inside) for spot in spots if spot.mask & scope]

    def _unions(self, part: Part, scope: int, cap: Cap, pins: int, first: bool) -> Iterator[int]:
        """Sets of wished-level domains within the bounds that hold the part by count, the most useful domains first.

        Twins are interchangeable only as long as nothing is placed.
        """
        level = part.preferred
        assert level is not None and cap.domains is not None
        demand = self.measures.demand(part)
        must, choice = self._ranked_spots(part, scope, pins)
        start = (
            Union.of((spot, self.measures.measure(spot.mask)) for spot in must) if must else Union.nothing(len(demand))
        )
        stack: list[tuple[int, Union]] = [(0, start)]
        while stack:
            at, union = stack.pop()
            self.budget.spend(2)
            left = cap.domains - len(union.paths)
            if left < 0 or (cap.distance is not None and union.distance(level.depth) > cap.distance):
                continue
            if all(want <= have for want, have in zip(demand, union.holds, strict=True)):
                yield union.mask
            if at == len(choice.spots) or left == 0 or not choice.could_complete(union, at, left, demand):
                continue
            if cap.distance is not None and choice.least_distance(union, at, left, demand, level.depth) > cap.distance:
                continue
            stack.append((choice.unlike[at] if first else at + 1, union))
            stack.append((at + 1, union.plus(choice.spots[at], choice.measures[at])))

    def _ranked_spots(self, part: Part, scope: int, pins: int) -> tuple[list[Spot], Choice]:
        """The wished-level domains that have to be used, and the others in the order they are tried."""
        key = (self.kinds[part.index], part.preferred, scope, pins)
        if key not in self._ranked:
            assert part.preferred is not None
            spots = self.useful_spots(part, scope, pins)
            self.budget.spend(1 + len(spots) // 4)
            must = [spot for spot in spots if spot.mask & pins]
            others = sorted((s for s in spots if not s.mask & pins), key=lambda s: self._usefulness(part, s))
            unlike = list(range(1, len(others) + 1))
            for at in range(len(others) - 2, -1, -1):
                if self.looks.are_twins(others[at], others[at + 1], part.preferred):
                    unlike[at] = unlike[at + 1]
            self._ranked[key] = must, Choice(others, [self.measures.measure(spot.mask) for spot in others], unlike)
        return self._ranked[key]

    def useful_spots(self, part: Part, scope: int, pins: int) -> list[Spot]:
        """The wished-level domains that have a running member or could take a pod."""
        spots = self.spots_of_wish(part, scope)
        return [spot for spot in spots if spot.mask & pins or self.measures.is_useful(part, spot.mask)]

    def _usefulness(self, part: Part, spot: Spot) -> tuple[object, ...]:
        """Domains that hold most come first, then the tighter ones; neighbours stay side by side."""
        demand, there = self.measures.demand(part), self.measures.measure(spot.mask)
        types = len(self.board.types)
        holds = sum(min(want, have) for want, have in zip(demand[:types], there[:types], strict=True))
        return -holds, self.board.room(spot.mask), [str(value) for value in spot.path]
