"""The placement of a gang that leaves room for the gangs that have to share its domain (G12).

The gang and its followers are searched for as one gang: all of them, else as many as possible, on the same terms as any
other gang; so the domain is the tightest that holds them, and inside it the gang stands where the followers still fit.
Followers count with their minimum and without their preferences: those are theirs to decide. Nothing is taken from the
inventory here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from spinney.api.placement.problem import Gang
from spinney.api.placement.result import FitsWithWholeSet, Placement
from spinney.core.placement.attempt import PlacementState, SearchResult, needs_releasing
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.gang.gang_tree import GangTree, Invalid, Part
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.placement.gang.tied_gangs import OWN, by_kind, selections, together
from spinney.core.placement.scoring import number
from spinney.core.placement.search.search_space import Solution

_MOST_SELECTIONS = 128
"""Subsets of followers that are tried before followers are added one by one."""

NewMembers = list[tuple[Part, int]]
"""New members: pod set and slot."""


class SetState(PlacementState, Protocol):
    """What the search for a whole set uses of the engine."""

    def read(self, gang: Gang) -> tuple[GangTree, Profile]: ...

    def solution(self, attempt: SearchResult) -> Solution: ...


@dataclass(frozen=True, slots=True)
class WholeSet:
    """NewMembers of the gang, and of the minimums of the followers that fit beside it.

    `waits`: members of the gang itself use releasing capacity.
    """

    members: NewMembers
    followers: dict[str, tuple[Placement, ...]]
    waits: bool
    proved: bool


@dataclass(slots=True)
class _Answer:
    """The largest selection that fits, and whether it is proved that no larger one does."""

    placed: WholeSet | None = None
    count: int = 0
    proved: bool = True


def place_whole_set(
    state: SetState, parts: GangTree, followers: Sequence[Gang], scope: list[int] | None
) -> tuple[WholeSet | None, bool]:
    """The placement with most followers beside the gang; None: none fits beside it.

    Also tells whether that is proved. Followers may wait for terminating pods; the gang does only where it cannot
    start now.
    """
    search = _SetSearch(state, parts, [each for each in followers if _is_valid(state, each)], scope)
    now = search.most(0, waiting=False)
    if now.count < search.size and search.could_wait():
        later = search.most(now.count, waiting=True)
        if later.placed is not None and (not later.placed.waits or not search.can_start()):
            return later.placed, later.proved
        return now.placed, now.proved and later.proved
    return now.placed, now.proved


def room_elsewhere(state: SetState, parts: GangTree, steps: int) -> FitsWithWholeSet | None:
    """A domain that holds a tied gang, the gang that it is tied to and all others that are, if these were moved there.

    None: there is none that so many steps find.
    """
    tie = parts.gang.tied_to
    base = state.placed_gangs.get(tie.gang) if tie is not None else None
    if tie is None or base is None or base.gang.tied_to is not None or parts.gang.running:
        return None
    others = [each for _, each in sorted(state.placed_gangs.items()) if each.live and each.gang.tied_to == tie]
    moved = [msgspec.structs.replace(each.gang, running=()) for each in (base, *others)]
    with state.inventory.trial():
        for each in (base, *others):
            sets = pod_sets(each.gang)
            for path, slot in each.live:
                state.inventory.give(slot, sets[path].request, sets[path].host_ports)
        try:
            whole, _ = state.read(moved[0])
            found = _SetSearch(state, whole, [*moved[1:], parts.gang], None, steps).all_of_them()
        except Invalid:  # of a topology that is not there any more
            return None
    tree = state.inventory.tree(parts.gang.root.topology or "")
    depth = tree.depth(tie.level) if tree is not None else None
    if found is None or not found.members or tree is None or depth is None:
        return None
    return FitsWithWholeSet(tie.gang, tree.path(depth, tree.domain_of(depth)[found.members[0][1]]))


def _is_valid(state: SetState, follower: Gang) -> bool:
    """Whether the follower can be placed anywhere at all: known levels, and a tie at one of its own topology."""
    tree = state.inventory.tree(follower.root.topology or "")
    tie = follower.tied_to
    if tie is None or tree is None or tree.depth(tie.level) is None:
        return False
    try:
        state.read(follower)
    except Invalid:
        return False
    return True


class _SetSearch:
    """Searches for one gang with some of its followers, all within one budget."""

    def __init__(
        self,
        state: SetState,
        parts: GangTree,
        followers: Sequence[Gang],
        scope: list[int] | None,
        steps: int | None = None,
    ) -> None:
        self._state = state
        self._parts = parts
        self._kinds = by_kind(followers)
        self._scope = scope
        self._budget = StepBudget(steps or state.options.budget)
        self.size = len(followers)

    def all_of_them(self) -> WholeSet | None:
        """The placement with all followers on idle capacity."""
        return self._place([one for kind in self._kinds for one in kind], waiting=False)[0]

    def could_wait(self) -> bool:
        inventory = self._state.inventory
        slots = inventory.slots() if self._scope is None else self._scope
        return any(any(inventory.releasing[slot]) for slot in slots)

    def can_start(self) -> bool:
        """Whether the gang alone fits on idle capacity."""
        parts, asked = self._state.read(self._parts.gang)
        return self._state.attempt(parts, asked, self._scope, waiting=False).found is not None

    def most(self, above: int, *, waiting: bool) -> _Answer:
        """The most followers that fit beside the gang, if that is more than `above`."""
        answer = _Answer(count=above)
        for tried, chosen in enumerate(selections(self._kinds, self.size, above + 1)):
            if tried >= _MOST_SELECTIONS or not self._budget.left:
                self._add_one_by_one(answer, waiting)
                return answer
            placed, is_open = self._place(chosen, waiting)
            answer.proved &= not is_open
            if placed is not None:
                answer.placed, answer.count = placed, len(chosen)
                return answer
        return answer

    def _add_one_by_one(self, answer: _Answer, waiting: bool) -> None:
        """There are too many subsets: a follower that does not fit beside those chosen before it is left out."""
        answer.proved = False
        chosen: list[Gang] = []
        for follower in (one for kind in self._kinds for one in kind):
            placed, _ = self._place([*chosen, follower], waiting)
            if placed is not None:
                chosen.append(follower)
                if len(chosen) > answer.count:
                    answer.placed, answer.count = placed, len(chosen)

    def _place(self, followers: Sequence[Gang], waiting: bool) -> tuple[WholeSet | None, bool]:
        """The placement with these followers, and whether the question stays open: the budget ended."""
        state = self._state
        parts, asked = state.read(together(self._parts.gang, followers))
        if asked.simple and not waiting and state.options.strategy == "binpack":
            members = self._counted(parts, asked)
            if members is not None:
                return self._whole_set(parts, members, followers, waits=False, proved=True), False
        try:
            with self._budget.share():
                self._budget.spend()
                attempt = state.attempt(parts, asked, self._scope, waiting, self._budget)
        except Exhausted:
            return None, True
        if attempt.found is None:
            return None, attempt.exhausted
        assert attempt.space is not None
        own = {leaf.index for leaf in parts.leaves if leaf.path.startswith(f"{OWN}/")}
        waits = waiting and needs_releasing(
            attempt.space, {leaf: where for leaf, where in attempt.found.solution.items() if leaf in own}
        )
        found = state.solution(attempt)
        members = [
            (leaf, attempt.space.slots[node])
            for leaf in parts.leaves
            for node, count in sorted(found.get(leaf.index, {}).items())
            for _ in range(count)
        ]
        return self._whole_set(parts, members, followers, waits, attempt.found.proved), False

    def _counted(self, parts: GangTree, asked: Profile) -> NewMembers | None:
        """NewMembers by counting alone."""
        with self._state.inventory.trial():
            taken = self._state.fast_path.place(parts, asked, self._state.options.extras)
        return None if taken is None else [(leaf, slot) for leaf, slot, count in taken for _ in range(count)]

    def _whole_set(
        self, parts: GangTree, members: NewMembers, followers: Sequence[Gang], waits: bool, proved: bool
    ) -> WholeSet:
        by_path = {leaf.path: leaf for leaf in self._parts.leaves}
        own = [(by_path[path], slot) for leaf, slot in members if (path := _below(OWN, leaf.path)) is not None]
        placements = number(parts, self._state.inventory, members)
        return WholeSet(
            own,
            {one.name: tuple(_of_follower(str(at), placements)) for at, one in enumerate(followers)},
            waits,
            proved,
        )


def _of_follower(name: str, placements: Sequence[Placement]) -> Iterator[Placement]:
    for place in placements:
        path = _below(name, place.pods)
        if path is not None:
            yield Placement(path, place.index, place.node, place.zone)


def _below(name: str, path: str) -> str | None:
    """The path inside the named part; None: it is in another one."""
    first, _, rest = path.partition("/")
    return rest if first == name else None
