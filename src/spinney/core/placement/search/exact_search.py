"""The exact search: domains for all parts with a requirement and nodes for all pods, or a proof that there are none.

Parts are assigned to domains broad levels first, hardest part first, tightest domain first. Parts that share nodes are
solved together, all others separately; a dead end backtracks over sibling parts as well; failed states are remembered.
Never changes the search space beyond a call, and never returns None without having tried everything that could matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spinney.core.placement.budget import StepBudget
from spinney.core.placement.gang.gang_tree import Part, is_chosen
from spinney.core.placement.gang.pod_affinity import Together
from spinney.core.placement.search.best_fit import LevelMasks
from spinney.core.placement.search.candidates import Candidates, DemandVectors, DomainBound, Symmetry
from spinney.core.placement.search.packing import PackingBudgetExceeded, pack
from spinney.core.placement.search.search_space import SearchSpace, Solution

_MAX_STEPS = (200, 4_000, None)
"""Step limit of one packing per round: a hard packing must not keep the search from an easy one elsewhere."""


@dataclass(slots=True, eq=False)
class Entry:
    """A part to be placed inside a mask; `requirement_met`: the mask already satisfies the part's own requirement."""

    part: Part
    mask: int
    requirement_met: bool = False


class Search:
    """The search for one gang in one search space: active parts, pods needed per pod set, and the bounds in force."""

    def __init__(
        self,
        space: SearchSpace,
        budget: StepBudget,
        needs: dict[int, int],
        children: dict[int, tuple[int, ...]],
        spread: bool,
    ) -> None:
        self.space = space
        self.budget = budget
        self.spread = spread
        self.needs = {leaf: need for leaf, need in needs.items() if need and is_chosen(space.parts, leaf, children)}
        self.children = children
        self.kinds = self._kinds()
        self.vectors = DemandVectors(space, self.needs, children)
        self.symmetry = Symmetry(space)
        self.candidates = Candidates(space, budget, self.vectors, self.symmetry, self.kinds, spread)
        self._max_steps: int | None = None
        self._gave_up = False
        self._dead: set[object] = set()
        self._found: dict[object, Solution] = {}
        self._known_level_masks: dict[int, LevelMasks] = {}

    def solve(self, mask: int, domain_bounds: dict[int, DomainBound], part: Part | None = None) -> Solution | None:
        """Place the active parts (or only those at and below `part`) inside the mask, within the bounds."""
        group = self.space.undecided(self.needs)
        if group is not None:
            return self._solve_together(group, mask, domain_bounds, part)
        self.candidates.domain_bounds = domain_bounds
        for self._max_steps in _MAX_STEPS:
            self._gave_up = False
            self._dead.clear()
            self._found.clear()
            found = self._solve([Entry(part or self.space.parts.all[0], mask)])
            if found is not None or not self._gave_up:
                return found
        raise AssertionError("the last round does not give up")

    def _solve_together(
        self, group: Together, mask: int, domain_bounds: dict[int, DomainBound], part: Part | None
    ) -> Solution | None:
        """Try every domain that could hold pod sets that have to be in one."""
        space = self.space
        for domain in space.domains_for(group, self.needs):
            self.budget.spend(2)
            with space.confined(group, domain & mask):
                search = Search(space, self.budget, self.needs, self.children, self.spread)
                search.candidates.extras = self.candidates.extras
                found = search.solve(mask, domain_bounds, part)
            if found is not None:
                return found
        return None

    def _kinds(self) -> list[int]:
        """Kind numbers, equal for parts with equal needs now: constraints, missing pods and active children."""
        parts = self.space.parts.all
        kinds = [0] * len(parts)
        known: dict[object, int] = {}
        for part in reversed(parts):
            active = tuple([kinds[child] for child in self.children.get(part.index, ())])
            key = (part.kind, self.needs.get(part.index, 0), active)
            kinds[part.index] = known.setdefault(key, len(known))
        return kinds

    # --- the search ---

    def _solve(self, entries: list[Entry]) -> Solution | None:
        entries = self._opened(entries)
        self.budget.spend()
        solution: Solution = {}
        pieces = _pieces(self.space, entries)
        for piece in pieces:
            found = self._solve_piece(piece)
            if found is None:
                return None
            solution.update(found)
        return solution

    def _pack(self, entries: list[Entry]) -> Solution | None:
        demands = [(entry.part.index, self.needs[entry.part.index], entry.mask) for entry in entries]
        try:
            here = {entry.part.index for entry in entries}
            pending = frozenset([leaf for leaf in self.needs if leaf not in here]) if self.space.near else frozenset()
            return pack(self.space, demands, self.budget, self._level_masks, self.spread, self._max_steps, pending)
        except PackingBudgetExceeded:
            self._gave_up = True
            return None

    def _may_succeed(self, piece: list[Entry]) -> bool:
        """A necessary condition, by count: every mask holds all that must go into it or into a part of it."""
        if not all(self.vectors.could_hold(entry.part, entry.mask) for entry in piece):
            return False
        return len(piece) == 1 or all(
            self.vectors.hold_together([entry.part for entry in piece if not entry.mask & ~mask], mask)
            for mask in {entry.mask for entry in piece}
        )

    def _solve_piece(self, entries: list[Entry]) -> Solution | None:
        if not self._may_succeed(entries):
            return None
        bound = [entry for entry in entries if self._is_bound(entry)]
        if not bound:
            return self._pack(entries)
        broadest = min(self.candidates.level_of(entry.part) for entry in bound)
        now = [entry for entry in bound if self.candidates.level_of(entry.part) == broadest]
        rest = [entry for entry in entries if entry not in now]
        return self._assign(now, rest)

    def _opened(self, entries: list[Entry]) -> list[Entry]:
        """Replace parts without a constraint of their own by their children; drop parts that need no pods."""
        opened: list[Entry] = []
        stack = list(reversed(entries))
        while stack:
            entry = stack.pop()
            part = entry.part
            if not any(self.vectors.demand(part)):
                continue
            if part.pods is not None or self._is_bound(entry):
                opened.append(entry)
                continue
            stack.extend(
                Entry(self.space.parts.all[child], entry.mask) for child in reversed(self.children[part.index])
            )
        return opened

    def _is_bound(self, entry: Entry) -> bool:
        return not entry.requirement_met and (
            entry.part.required is not None or entry.part.index in self.candidates.domain_bounds
        )

    def _assign(self, now: list[Entry], rest: list[Entry]) -> Solution | None:
        """Assign a domain to every part of `now`, with backtracking, then place `rest` together with them."""
        now = sorted(now, key=self._hardness)
        scopes = {entry.mask for entry in now} | {entry.mask for entry in rest}
        split = [self.candidates.is_split(entry.part) for entry in now]
        # Equivalent domains are interchangeable only if all parts choose from one scope, one domain each.
        alike = self.symmetry.is_applicable and len(scopes) == 1 and not any(split)
        choices = [
            None if is_split else self.candidates.single(entry.part, entry.mask)
            for entry, is_split in zip(now, split, strict=True)
        ]
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
                # Every continuation of this state failed, so equivalent states need not be tried.
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
            entry = Entry(now[len(placed)].part, mask, requirement_met=True)
            placed.append(entry)
            contents.setdefault(mask, []).append(entry)
            positions.append(position)
            if alike and self._state(placed, contents) in failed:
                _take_back(placed, contents)
                positions.pop()
                continue
            around = contents[mask] if alike else _around(self.space, placed)
            found = None
            if not self._leaves_too_little(placed, rest):
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
        """Candidate masks for the next part; equal parts take candidates in ascending order only.

        Where symmetry applies (`contents` is given), only one of several equivalent domains is tried.
        """
        at = len(placed)
        entry = now[at]
        options = choices[at]
        if options is None:
            yield from enumerate(self.candidates.split(entry.part, entry.mask, first=not placed))
            return
        first = 0
        if at and self.kinds[now[at - 1].part.index] == self.kinds[entry.part.index] and now[at - 1].mask == entry.mask:
            first = positions[at - 1]
        tried: set[object] = set()
        for position in range(first, len(options)):
            mask = options[position]
            if contents is not None:
                content = tuple(sorted([self.kinds[e.part.index] for e in contents[mask]])) if mask in contents else ()
                symmetry_class = (self.candidates.symmetry_class(entry.part, mask), content)
                if symmetry_class in tried:
                    continue
                tried.add(symmetry_class)
            yield position, mask

    def _state(self, placed: list[Entry], contents: dict[int, list[Entry]]) -> object:
        part = placed[0].part
        return len(placed), tuple(
            sorted(
                [
                    (
                        self.candidates.symmetry_class(part, mask),
                        tuple(sorted([self.kinds[entry.part.index] for entry in entries])),
                    )
                    for mask, entries in contents.items()
                ]
            )
        )

    def _solve_around(self, around: list[Entry], solved: dict[int, Solution]) -> dict[int, Solution] | None:
        """Solve the piece that contains the last part; the solutions of the other pieces are kept."""
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
        union = self.space.span(union)
        kept = {mask: part for mask, part in solved.items() if not mask & union}
        kept[union] = found
        return kept

    def _solve_jointly(self, around: list[Entry]) -> Solution | None:
        union = 0
        for entry in around:
            union |= entry.mask
        return self._solve(around) if self.vectors.hold_together([e.part for e in around], union) else None

    def _leaves_too_little(self, placed: list[Entry], rest: list[Entry]) -> bool:
        """Whether, by count, the last part leaves too little for the entries that share a mask with it."""
        mask = placed[-1].mask
        entries = placed + rest
        for around in {entry.mask for entry in rest if not mask & ~entry.mask}:
            self.budget.spend()
            if not self.vectors.hold_together([e.part for e in entries if not e.mask & ~around], around):
                return True
        return False

    def _leaves_enough(
        self,
        now: list[Entry],
        choices: list[list[int] | None],
        placed: list[Entry],
        contents: dict[int, list[Entry]],
    ) -> bool:
        """A necessary condition: the candidate domains of the parts still to come have enough together."""
        to_come = [entry.part for entry in now[len(placed) :]]
        if not to_come:
            return True
        wanted = [0] * len(self.vectors.demand(to_come[0]))
        for part in to_come:
            for at, amount in enumerate(self.vectors.demand(part)):
                wanted[at] += amount
        smallest = [min(self.vectors.demand(part)[at] for part in to_come) for at in range(len(wanted))]
        have = [0] * len(wanted)
        lists = {id(options): options for options in choices[len(placed) :] if options}
        seen = {mask for options in lists.values() for mask in options}
        self.budget.spend(1 + len(seen) // 16)
        for mask in seen:
            left = list(self.vectors.supply(mask))
            for entry in contents.get(mask, ()):
                for at, amount in enumerate(self.vectors.demand(entry.part)):
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
        if not self.space.near and all(entry.part.pods is not None and not self._is_bound(entry) for entry in rest):
            self.space.put(solution)
            try:
                found = self._pack(rest)
            finally:
                self.space.put(solution, -1)
            if found is not None:
                return solution | found
        return self._solve([*placed, *rest])

    def _hardness(self, entry: Entry) -> tuple[float, int, int]:
        """Parts with the largest share of the supply come first; equal kinds are adjacent."""
        whole = self.vectors.supply(entry.mask)
        share = max(
            (want / have for want, have in zip(self.vectors.demand(entry.part), whole, strict=True) if have),
            default=0.0,
        )
        return -share, self.kinds[entry.part.index], entry.part.index

    def _level_masks(self, leaf: int) -> LevelMasks:
        """Domain masks per level of a pod set's topology, and the depth down to which it prefers one domain."""
        if leaf not in self._known_level_masks:
            space = self.space
            above = space.parts.above(space.parts.all[leaf])
            preference = next((part.preferred for part in above if part.preferred), None)
            level = preference or next((part.required for part in above if part.required), None)
            topology = level.topology if level is not None else space.parts.all[leaf].topology
            self._known_level_masks[leaf] = LevelMasks()
            if topology is not None:
                levels = range(1, len(space.inventory.trees[topology].levels) + 1)
                masks = [[domain_mask.mask for domain_mask in space.domain_masks(topology, depth)] for depth in levels]
                parents = masks[::-1] if level is None or self.spread else []
                shown = masks if level is not None else []
                self._known_level_masks[leaf] = LevelMasks(shown, preference.depth if preference else 0, parents)
        return self._known_level_masks[leaf]


def _take_back(placed: list[Entry], contents: dict[int, list[Entry]]) -> None:
    entry = placed.pop()
    contents[entry.mask].pop()
    if not contents[entry.mask]:
        del contents[entry.mask]


def _around(space: SearchSpace, placed: list[Entry]) -> list[Entry]:
    """The last part and all parts that share nodes or domain claims with it, directly or transitively."""
    union = space.span(placed[-1].mask)
    coupled = space.couplings(placed[-1].part)
    around = [placed[-1]]
    grown = True
    while grown:
        grown = False
        for entry in placed:
            if entry not in around and (entry.mask & union or space.couplings(entry.part) & coupled):
                around.append(entry)
                union |= space.span(entry.mask)
                coupled |= space.couplings(entry.part)
                grown = True
    return around


def _pieces(space: SearchSpace, entries: list[Entry]) -> list[list[Entry]]:
    """Group the entries that share nodes or domain claims, directly or transitively."""
    pieces: list[tuple[int, int, list[Entry]]] = []
    for entry in entries:
        mask, coupled, members = space.span(entry.mask), space.couplings(entry.part), [entry]
        apart_from_it = []
        for piece in pieces:
            if piece[0] & mask or piece[1] & coupled:
                mask |= piece[0]
                coupled |= piece[1]
                members = piece[2] + members
            else:
                apart_from_it.append(piece)
        pieces = [*apart_from_it, (mask, coupled, members)]
    return [members for _, _, members in pieces]
