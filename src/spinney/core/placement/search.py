"""The exact search: every part with a requirement gets a domain, every pod a node, or it is proved that they cannot.

Parts are given domains broad levels first, hardest part first, tightest domain first; what shares nodes is solved
together, what does not is solved alone; a dead end goes back to siblings as well; failures are remembered. Never
changes the board beyond a call, and never answers None without having tried everything that could matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spinney.core.placement.board import Board, Solution, Spot, bits
from spinney.core.placement.budget import Budget
from spinney.core.placement.filling import Ladder
from spinney.core.placement.packing import Impatient, pack
from spinney.core.placement.parts import Part, Parts
from spinney.core.placement.unions import Choice, Union

_PATIENCE = (200, 4_000, None)
"""Steps for one packing, round by round: a hard one must not keep the search from an easy one elsewhere."""


class Cap(NamedTuple):
    """A bound on how far a part may be spread: one domain at `depth`, and in it few and near domains of its wish."""

    depth: int
    strays: bool = True  # nodes outside the topology are allowed (only at depth 0)
    domains: int | None = None
    distance: int | None = None


@dataclass(slots=True, eq=False)
class Entry:
    """A part that has to go into a mask; `settled`: its own requirement is already met by the mask."""

    part: Part
    mask: int
    settled: bool = False


class Search:
    """One gang on one board: which parts are active, how many pods each pod set needs, which bounds hold."""

    def __init__(
        self, board: Board, budget: Budget, needs: dict[int, int], kids: dict[int, tuple[int, ...]], spread: bool
    ) -> None:
        self.board = board
        self.budget = budget
        self.spread = spread
        self.needs = {leaf: need for leaf, need in needs.items() if need and _is_active(board.parts, leaf, kids)}
        self.kids = kids
        self.kinds = self._kinds()
        self.caps: dict[int, Cap] = {}
        self.extras: dict[int, int] = {}
        self._patience: int | None = None
        self._gave_up = False
        self._measures: dict[int, tuple[int, ...]] = {}
        self._demands: dict[int, tuple[int, ...]] = {}
        self._dead: set[object] = set()
        self._found: dict[object, Solution] = {}
        self._orders: dict[object, list[int]] = {}
        self._ranked: dict[object, tuple[list[Spot], Choice]] = {}
        self._signatures: dict[tuple[str, int], dict[int, int]] = {}
        self._interned: dict[object, int] = {}
        self._ladders: dict[int, Ladder] = {}
        parts = board.parts
        names = {lv.topology for part in parts.all for lv in (part.required, part.preferred) if lv}
        self._alike = len(names) <= 1 and not any(asked.shared for asked in board.types)

    def solve(self, mask: int, caps: dict[int, Cap], part: Part | None = None) -> Solution | None:
        """The active parts (or only those at and below one part) inside the mask, within the bounds."""
        self.caps = caps
        for self._patience in _PATIENCE:
            self._gave_up = False
            self._dead.clear()
            self._found.clear()
            found = self._solve([Entry(part or self.board.parts.all[0], mask)])
            if found is not None or not self._gave_up:
                return found
        raise AssertionError("the last round does not give up")

    def _kinds(self) -> list[int]:
        """Equal kinds need the same now: what they ask for, how many pods are missing, which children are active."""
        parts = self.board.parts.all
        kinds = [0] * len(parts)
        known: dict[object, int] = {}
        for part in reversed(parts):
            active = tuple([kinds[kid] for kid in self.kids.get(part.index, ())])
            key = (part.kind, self.needs.get(part.index, 0), active)
            kinds[part.index] = known.setdefault(key, len(known))
        return kinds

    # --- what is asked and what is there, as vectors: pods per type, then amounts per resource ---

    def demand(self, part: Part) -> tuple[int, ...]:
        """What the active pods at or below a part need."""
        known = self._demands.get(part.index)
        if known is not None:
            return known
        board = self.board
        vector = [0] * (len(board.types) + len(board.inventory.resources))
        if part.pods is not None:
            need = self.needs.get(part.index, 0)
            kind = board.type_of[part.index]
            vector[kind] = need
            for resource, amount in board.types[kind].request:
                vector[len(board.types) + resource] = amount * need
        for kid in self.kids.get(part.index, ()):
            for at, amount in enumerate(self.demand(board.parts.all[kid])):
                vector[at] += amount
        self._demands[part.index] = tuple(vector)
        return self._demands[part.index]

    def measure(self, mask: int) -> tuple[int, ...]:
        """Upper bounds of what a mask holds."""
        known = self._measures.get(mask)
        if known is not None:
            return known
        board = self.board
        types = len(board.types)
        vector = [0] * (types + len(board.inventory.resources))
        for node in bits(mask & board.useful):
            for kind in range(types):
                if board.types[kind].usable >> node & 1:
                    vector[kind] += board.capacity(kind, node)
            for resource, amount in enumerate(board.free[node]):
                if amount > 0:
                    vector[types + resource] += amount
        self._measures[mask] = tuple(vector)
        return self._measures[mask]

    def could_hold(self, part: Part, mask: int) -> bool:
        return all(want <= have for want, have in zip(self.demand(part), self.measure(mask), strict=True))

    # --- the search ---

    def _solve(self, entries: list[Entry]) -> Solution | None:
        entries = self._opened(entries)
        self.budget.spend()
        solution: Solution = {}
        pieces = _pieces(entries)
        for piece in pieces:
            found = self._solve_piece(piece)
            if found is None:
                return None
            solution.update(found)
        return solution

    def _pack(self, entries: list[Entry]) -> Solution | None:
        demands = [(entry.part.index, self.needs[entry.part.index], entry.mask) for entry in entries]
        try:
            return pack(self.board, demands, self.budget, self._ladder, self.spread, self._patience)
        except Impatient:
            self._gave_up = True
            return None

    def _hopeful(self, piece: list[Entry]) -> bool:
        """Necessary: every mask holds, by count, all that has to go into it or into a part of it."""
        if not all(self.could_hold(entry.part, entry.mask) for entry in piece):
            return False
        masks = {entry.mask for entry in piece}
        if len(masks) == len(piece) == 1:
            return True
        for mask in masks:
            inside = [self.demand(entry.part) for entry in piece if not entry.mask & ~mask]
            if len(inside) > 1 and any(
                sum(wants) > have for wants, have in zip(zip(*inside, strict=True), self.measure(mask), strict=True)
            ):
                return False
        return True

    def _solve_piece(self, entries: list[Entry]) -> Solution | None:
        if not self._hopeful(entries):
            return None
        bound = [entry for entry in entries if self._is_bound(entry)]
        if not bound:
            return self._pack(entries)
        broadest = min(self._order_of_levels(entry) for entry in bound)
        now = [entry for entry in bound if self._order_of_levels(entry) == broadest]
        rest = [entry for entry in entries if entry not in now]
        return self._assign(now, rest)

    def _opened(self, entries: list[Entry]) -> list[Entry]:
        """Replace parts that ask for nothing themselves by their children; drop what needs no pods."""
        opened: list[Entry] = []
        stack = list(reversed(entries))
        while stack:
            entry = stack.pop()
            part = entry.part
            if not any(self.demand(part)):
                continue
            if part.pods is not None or self._is_bound(entry):
                opened.append(entry)
                continue
            stack.extend(Entry(self.board.parts.all[kid], entry.mask) for kid in reversed(self.kids[part.index]))
        return opened

    def _is_bound(self, entry: Entry) -> bool:
        return not entry.settled and (entry.part.required is not None or entry.part.index in self.caps)

    def _order_of_levels(self, entry: Entry) -> tuple[int, str]:
        level = entry.part.required or entry.part.preferred
        assert level is not None
        cap = self.caps.get(entry.part.index)
        depth = max(entry.part.required.depth if entry.part.required else 0, cap.depth if cap else 0)
        return depth, level.topology

    def _assign(self, now: list[Entry], rest: list[Entry]) -> Solution | None:
        """Give every part of `now` a domain, going back over all of them; then everything else with them."""
        now = sorted(now, key=self._hardness)
        scopes = {entry.mask for entry in now} | {entry.mask for entry in rest}
        alike = self._alike and len(scopes) == 1 and not self._is_split(now)
        choices = [self._candidates(entry) if not self._is_split([entry]) else None for entry in now]
        if any(options == [] for options in choices):
            return None
        placed: list[Entry] = []
        contents: dict[int, list[Entry]] = {}
        solved: list[dict[int, Solution]] = []  # after each part: solution per piece, by the mask of the piece
        positions: list[int] = []
        trail: list[Iterator[tuple[int, int]]] = [
            self._options(now, choices, placed, positions, contents if alike else None)
        ]
        failed: set[object] = set()
        while trail:
            option = next(trail[-1], None)
            if option is None:
                if alike and placed:
                    failed.add(self._state(placed, contents))
                trail.pop()
                if placed:
                    _take_back(placed, contents)
                    positions.pop()
                    solved.pop()
                continue
            position, mask = option
            self.budget.spend(2)
            entry = Entry(now[len(placed)].part, mask, settled=True)
            placed.append(entry)
            contents.setdefault(mask, []).append(entry)
            positions.append(position)
            if alike and self._state(placed, contents) in failed:
                _take_back(placed, contents)
                positions.pop()
                continue
            around = contents[mask] if alike else _around(placed)
            found = None
            if not self._crowds(placed, rest):
                found = self._solve_around(around, solved[-1] if solved else {})
            if found is None or (alike and not self._leaves_enough(now, choices, placed, contents)):
                _take_back(placed, contents)
                positions.pop()
                continue
            solved.append(found)
            if len(placed) < len(now):
                trail.append(self._options(now, choices, placed, positions, contents if alike else None))
                continue
            whole = self._with_rest(placed, solved[-1], rest)
            if whole is not None:
                return whole
            _take_back(placed, contents)
            positions.pop()
            solved.pop()
        return None

    def _options(
        self,
        now: list[Entry],
        choices: list[list[int] | None],
        placed: list[Entry],
        positions: list[int],
        contents: dict[int, list[Entry]] | None,
    ) -> Iterator[tuple[int, int]]:
        """Candidate masks for the next part; equal parts take them in one order only.

        Where domains can look alike (`contents` is given), those that do are tried once.
        """
        at = len(placed)
        entry = now[at]
        options = choices[at]
        if options is None:
            yield from enumerate(self._split_candidates(entry, first=not placed))
            return
        first = 0
        if at and self.kinds[now[at - 1].part.index] == self.kinds[entry.part.index] and now[at - 1].mask == entry.mask:
            first = positions[at - 1]
        tried: set[object] = set()
        for position in range(first, len(options)):
            mask = options[position]
            if contents is not None:
                content = tuple(sorted([self.kinds[e.part.index] for e in contents[mask]])) if mask in contents else ()
                look = (self._signature_of(entry.part, mask), content)
                if look in tried:
                    continue
                tried.add(look)
            yield position, mask

    def _state(self, placed: list[Entry], contents: dict[int, list[Entry]]) -> object:
        part = placed[0].part
        return len(placed), tuple(
            sorted(
                [
                    (self._signature_of(part, mask), tuple(sorted([self.kinds[entry.part.index] for entry in entries])))
                    for mask, entries in contents.items()
                ]
            )
        )

    def _solve_around(self, around: list[Entry], solved: dict[int, Solution]) -> dict[int, Solution] | None:
        """Solve the piece that the last part belongs to; the other pieces stay as they were."""
        union = 0
        for entry in around:
            union |= entry.mask
        key = tuple(sorted((self.kinds[entry.part.index], entry.mask) for entry in around))
        if key in self._dead:
            return None
        exact = tuple(sorted((entry.part.index, entry.mask) for entry in around))
        found = self._found.get(exact)
        if found is None:
            found = self._solve_jointly(around)
            if found is None:
                self._dead.add(key)
                return None
            self._found[exact] = found
        kept = {mask: part for mask, part in solved.items() if not mask & union}
        kept[union] = found
        return kept

    def _solve_jointly(self, around: list[Entry]) -> Solution | None:
        whole = [0] * len(self.demand(around[0].part))
        union = 0
        for entry in around:
            union |= entry.mask
            for at, amount in enumerate(self.demand(entry.part)):
                whole[at] += amount
        if any(want > have for want, have in zip(whole, self.measure(union), strict=True)):
            return None
        return self._solve(around)

    def _crowds(self, placed: list[Entry], rest: list[Entry]) -> bool:
        """Whether the last part leaves too little, by count, to what has to share a mask with it."""
        mask = placed[-1].mask
        entries = placed + rest
        for around in {entry.mask for entry in rest if not mask & ~entry.mask}:
            inside = [self.demand(entry.part) for entry in entries if not entry.mask & ~around]
            self.budget.spend()
            if any(
                sum(wants) > have for wants, have in zip(zip(*inside, strict=True), self.measure(around), strict=True)
            ):
                return True
        return False

    def _leaves_enough(
        self,
        now: list[Entry],
        choices: list[list[int] | None],
        placed: list[Entry],
        contents: dict[int, list[Entry]],
    ) -> bool:
        """Necessary for the parts still to come: the domains that can take one of them have enough together."""
        to_come = [entry.part for entry in now[len(placed) :]]
        if not to_come:
            return True
        wanted = [0] * len(self.demand(to_come[0]))
        for part in to_come:
            for at, amount in enumerate(self.demand(part)):
                wanted[at] += amount
        smallest = [min(self.demand(part)[at] for part in to_come) for at in range(len(wanted))]
        have = [0] * len(wanted)
        lists = {id(options): options for options in choices[len(placed) :] if options}
        seen = {mask for options in lists.values() for mask in options}
        self.budget.spend(1 + len(seen) // 16)
        for mask in seen:
            left = list(self.measure(mask))
            for entry in contents.get(mask, ()):
                for at, amount in enumerate(self.demand(entry.part)):
                    left[at] -= amount
            if all(small <= amount for small, amount in zip(smallest, left, strict=True)):
                for at, amount in enumerate(left):
                    have[at] += amount
        return all(want <= amount for want, amount in zip(wanted, have, strict=True))

    def _with_rest(self, placed: list[Entry], solved: dict[int, Solution], rest: list[Entry]) -> Solution | None:
        solution: Solution = {}
        for piece in solved.values():
            solution.update(piece)
        if not rest:
            return solution
        if all(entry.part.pods is not None and not self._is_bound(entry) for entry in rest):
            self.board.put(solution)
            try:
                found = self._pack(rest)
            finally:
                self.board.put(solution, -1)
            if found is not None:
                return solution | found
        return self._solve([*placed, *rest])

    # --- candidates ---

    def _hardness(self, entry: Entry) -> tuple[float, int, int]:
        """Parts that need most of what is there come first, equal kinds side by side."""
        whole = self.measure(entry.mask)
        share = max(
            (want / have for want, have in zip(self.demand(entry.part), whole, strict=True) if have), default=0.0
        )
        return -share, self.kinds[entry.part.index], entry.part.index

    def _is_split(self, entries: list[Entry]) -> bool:
        for entry in entries:
            cap = self.caps.get(entry.part.index)
            if cap is not None and cap.domains is not None:
                return True
        return False

    def _candidates(self, entry: Entry) -> list[int]:
        """Domains that could hold a part: those that hold its extra pods as well first, then by best fit."""
        part = entry.part
        key = (self.kinds[part.index], entry.mask, self.caps.get(part.index))
        if key not in self._orders:
            pins = self.board.running_mask(part)
            masks = [mask & entry.mask for mask in self._scopes(entry) if not pins & ~mask]
            self.budget.spend(1 + len(masks) // 4)
            fitting = [mask for mask in masks if self.could_hold(part, mask)]
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
        demand, there = self.demand(part), self.measure(mask)
        room: dict[int, int] = {}
        for leaf in self.board.parts.below(part):
            kind = self.board.type_of[leaf.index]
            room[kind] = room.get(kind, 0) + self.extras.get(leaf.index, 0)
        return sum(min(extra, there[kind] - demand[kind]) for kind, extra in room.items())

    def _place(self, part: Part, mask: int) -> int:
        """Ties go by path; the spots of a level are sorted by it."""
        level = part.required or part.preferred
        assert level is not None
        depth = self._order_of_levels(Entry(part, mask))[0]
        if depth == 0:
            return 0
        spots = self.board.spots(level.topology, depth)
        return next((at for at, spot in enumerate(spots) if spot.mask & mask), len(spots))

    def _scopes(self, entry: Entry) -> Iterator[int]:
        """The domains a part may be in as a whole, before its own split."""
        part = entry.part
        level = part.required or part.preferred
        assert level is not None
        depth = self._order_of_levels(entry)[0]
        if depth:
            yield from (spot.mask for spot in self.board.spots(level.topology, depth) if spot.mask & entry.mask)
            return
        cap = self.caps[part.index]
        if cap.strays:
            yield self.board.everything
            return
        inside = 0
        for spot in self.board.spots(level.topology, 1):
            inside |= spot.mask
        yield inside

    def scopes_of(self, part: Part, cap: Cap) -> Iterator[int]:
        """The domains that a bound alone leaves to a part."""
        assert part.preferred is not None
        if cap.depth == 0:
            yield self.board.everything
        else:
            yield from (spot.mask for spot in self.board.spots(part.preferred.topology, cap.depth))

    def _split_candidates(self, entry: Entry, first: bool) -> Iterator[int]:
        """Unions of a few domains of the wished level, within the bounds on number and distance.

        As long as nothing is placed (`first`), of unions that look alike one is enough.
        """
        seen: set[object] = set()
        part = entry.part
        cap = self.caps[part.index]
        pins = self.board.running_mask(part)
        scopes = [mask & entry.mask for mask in self._scopes(entry) if not pins & ~mask]
        for scope in sorted(scopes, key=lambda mask: self._fit(part, mask)):
            if not self.could_hold(part, scope):
                continue
            for union in self._unions(part, scope, cap, pins, first):
                if first and self._alike and entry.mask == self.board.everything:
                    look = self._look_of(part, union)
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
        demand = self.demand(part)
        must, choice = self._ranked_spots(part, scope, pins)
        start = Union.of((spot, self.measure(spot.mask)) for spot in must) if must else Union.nothing(len(demand))
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
            demand = self.demand(part)
            spots = [s for s in self.spots_of_wish(part, scope) if s.mask & pins or self._useful(demand, s.mask)]
            self.budget.spend(1 + len(spots) // 4)
            must = [spot for spot in spots if spot.mask & pins]
            others = sorted((s for s in spots if not s.mask & pins), key=lambda s: self._usefulness(demand, s))
            unlike = list(range(1, len(others) + 1))
            for at in range(len(others) - 2, -1, -1):
                if self._twins(others[at], others[at + 1], part):
                    unlike[at] = unlike[at + 1]
            self._ranked[key] = must, Choice(others, [self.measure(spot.mask) for spot in others], unlike)
        return self._ranked[key]

    def _look_of(self, part: Part, union: int) -> object:
        """Equal for unions that a renaming of equal domains turns into each other."""
        level = part.preferred
        assert level is not None
        looks: dict[int, object] = {}
        for spot in self.board.spots(level.topology, level.depth):
            if spot.mask & union:
                looks[spot.mask] = self._level_signatures(level.topology, level.depth)[spot.mask]
        outside = union
        for mask in looks:
            outside &= ~mask
        if outside:
            return union
        for depth in range(level.depth - 1, 0, -1):
            above: dict[int, object] = {}
            for spot in self.board.spots(level.topology, depth):
                inside = [look for mask, look in looks.items() if mask & spot.mask]
                if inside:
                    signature = self._level_signatures(level.topology, depth)[spot.mask]
                    above[spot.mask] = self._intern((signature, tuple(sorted(inside, key=repr))))
            looks = above
        return tuple(sorted(looks.values(), key=repr))

    def _twins(self, one: Spot, other: Spot, part: Part) -> bool:
        """Equal domains under the same parent: leaving one out means leaving the other out as well."""
        if one.path[:-1] != other.path[:-1]:
            return False
        return self._signature_of(part, one.mask, wished=True) == self._signature_of(part, other.mask, wished=True)

    def _useful(self, demand: tuple[int, ...], mask: int) -> bool:
        there = self.measure(mask)
        return any(want and have for want, have in zip(demand[: len(self.board.types)], there, strict=False))

    def _usefulness(self, demand: tuple[int, ...], spot: Spot) -> tuple[object, ...]:
        """Domains that hold most come first, then the tighter ones; neighbours stay side by side."""
        there = self.measure(spot.mask)
        types = len(self.board.types)
        holds = sum(min(want, have) for want, have in zip(demand[:types], there[:types], strict=True))
        return -holds, self.board.room(spot.mask), [str(value) for value in spot.path]

    # --- what looks alike ---

    def _signature_of(self, part: Part, mask: int, wished: bool = False) -> int:
        """Equal for masks that look alike; a mask that is no whole domain is only like itself."""
        level = part.preferred if wished else (part.required or part.preferred)
        assert level is not None
        depth = level.depth if wished else self._order_of_levels(Entry(part, mask))[0]
        if depth == 0 or not self._alike:
            return -mask
        return self._level_signatures(level.topology, depth).get(mask, -mask)

    def _level_signatures(self, topology: str, depth: int) -> dict[int, int]:
        """Equal numbers for domains that look the same: free amounts, usable types, ports and the structure below."""
        key = (topology, depth)
        if key in self._signatures:
            return self._signatures[key]
        levels = len(self.board.inventory.trees[topology].levels)
        below = self._level_signatures(topology, depth + 1) if depth < levels else None
        found: dict[int, int] = {}
        for spot in self.board.spots(topology, depth):
            content: list[object] = []
            loose = spot.mask
            if below is not None:
                for mask, signature in below.items():
                    if mask & spot.mask:
                        content.append((0, signature))
                        loose &= ~mask
            content += [(1, self._node_signature(node)) for node in bits(loose)]
            found[spot.mask] = self._intern(tuple(sorted(content, key=repr)))
        self._signatures[key] = found
        return found

    def _node_signature(self, node: int) -> int:
        board = self.board
        usable = tuple(asked.usable >> node & 1 for asked in board.types)
        runs = tuple(sorted(leaf for leaf, nodes in board.running.items() if node in nodes))
        return self._intern((tuple(board.free[node]), usable, tuple(sorted(board.ports[node])), runs))

    def _intern(self, value: object) -> int:
        return self._interned.setdefault(value, len(self._interned))

    def _ladder(self, leaf: int) -> Ladder:
        """Domains per level of the topology that a pod set stands under, and how far down it wishes to be together."""
        if leaf not in self._ladders:
            board = self.board
            above = board.parts.above(board.parts.all[leaf])
            wish = next((part.preferred for part in above if part.preferred), None)
            level = wish or next((part.required for part in above if part.required), None)
            self._ladders[leaf] = Ladder()
            if level is not None:
                levels = range(1, len(board.inventory.trees[level.topology].levels) + 1)
                masks = [[spot.mask for spot in board.spots(level.topology, depth)] for depth in levels]
                self._ladders[leaf] = Ladder(masks, wish.depth if wish else 0)
        return self._ladders[leaf]


def _is_active(parts: Parts, leaf: int, kids: dict[int, tuple[int, ...]]) -> bool:
    at = parts.all[leaf]
    while at.parent >= 0:
        above = parts.all[at.parent]
        if kids[above.index] is not above.kids and at.index not in kids[above.index]:
            return False
        at = above
    return True


def _take_back(placed: list[Entry], contents: dict[int, list[Entry]]) -> None:
    entry = placed.pop()
    contents[entry.mask].pop()
    if not contents[entry.mask]:
        del contents[entry.mask]


def _around(placed: list[Entry]) -> list[Entry]:
    """The last part and all that share nodes with it, directly or through others."""
    union = placed[-1].mask
    around = [placed[-1]]
    grown = True
    while grown:
        grown = False
        for entry in placed:
            if entry not in around and entry.mask & union:
                around.append(entry)
                union |= entry.mask
                grown = True
    return around


def _pieces(entries: list[Entry]) -> list[list[Entry]]:
    """Entries that share nodes, directly or through others, belong together."""
    pieces: list[tuple[int, list[Entry]]] = []
    for entry in entries:
        mask, members = entry.mask, [entry]
        apart_from_it = []
        for other, others in pieces:
            if other & mask:
                mask |= other
                members = others + members
            else:
                apart_from_it.append((other, others))
        pieces = [*apart_from_it, (mask, members)]
    return [members for _, members in pieces]
