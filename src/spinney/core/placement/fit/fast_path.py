"""The common gangs, decided by counting without a search: O(domains of a level + nodes touched).

Handles only gangs for which counting gives the same answer as the search; returns None for all others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import PodSet
from spinney.core.inventory.counts import Counts, FreeByDomain
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import Tree
from spinney.core.placement.fit.counting import Counting, Profile
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part

Taken = list[tuple[Part, int, int]]
"""(pod set, slot, pods) in the order they were taken."""

Ids = npt.NDArray[np.intp]


Scope = tuple[int, int]
"""A domain: its depth and id."""

CLUSTER: Scope = (0, 0)
TRIES = 40  # dead ends per gang before it is left to the search


class NeedsSearch(Exception):
    """Counting is not enough to decide this gang."""


_FreeNode = tuple[list[int], int, int, int]
"""Free amounts, position, slot, and the number of pods that fit."""


class FastPath:
    """Placement by counting over an inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.counting = Counting(inventory)

    def place(self, parts: GangTree, asked: Profile, extras: str) -> Taken | None:
        """Take the capacity of the gang's pods from the inventory, or leave it unchanged and return None."""
        if not asked.simple or (extras != "skip" and asked.elastic and len(parts.leaves) > 1):
            return None
        mark = self.inventory.checkpoint()
        attempt = _FastAttempt(self, parts, asked, extras)
        try:
            attempt.place()
        except NeedsSearch:
            self.inventory.rollback(mark)
            return None
        self.inventory.commit(mark)
        return attempt.taken


class _FastAttempt:
    """The attempt for one gang, best candidates first; gives up after a few dead ends."""

    def __init__(self, fast_path: FastPath, parts: GangTree, asked: Profile, extras: str) -> None:
        self.counting = fast_path.counting
        self.inventory = fast_path.inventory
        self.parts = parts
        self.asked = asked
        self.extras = extras
        self.taken: Taken = []
        self.tries = TRIES
        self.topology = asked.topology

    def place(self) -> None:
        leaf = self.parts.leaves[0]
        if len(self.parts.leaves) > 1:
            self._place_parts()
        elif self.asked.preference is not None:
            self._place_preferred(leaf, self.asked.preference)
        else:
            self._place_alone(leaf)

    # --- one pod set ---

    def _place_alone(self, leaf: Part) -> None:
        """Narrow the domain level by level through the required levels, always keeping one that holds the pods."""
        counts, need = self._counts(leaf), self._need(leaf)
        depths = sorted({part.required.depth for part in self.parts.above(leaf) if part.required})
        depth = domain = 0
        if depths:
            fitting = self._holding(counts, depths[-1], self._room(leaf))
            for narrower in depths:
                above = fitting if narrower == depths[-1] else np.unique(self._up(depths[-1], narrower)[fitting])
                if depth:
                    above = above[self._up(narrower, depth)[above] == domain]
                depth, domain = narrower, self._tightest(above, narrower, depth)
        elif counts.total < need:
            raise NeedsSearch
        self._fill(leaf, counts, need, depth, domain)

    def _place_preferred(self, leaf: Part, preference: Level) -> None:
        """One domain of the preferred level, else as few as possible inside one domain of the level above."""
        counts, need = self._counts(leaf), self._need(leaf)
        required = max((part.required.depth for part in self.parts.above(leaf) if part.required), default=0)
        target = max(preference.depth, required)
        ids = self._holding(counts, target, self._room(leaf))
        if len(ids):
            self._fill(leaf, counts, need, target, self._tightest(ids, target))
            return
        above = preference.depth - 1
        assert leaf.pods is not None
        if self._room(leaf) != leaf.pods.min or above < max(required, 1) or target > preference.depth:
            raise NeedsSearch
        ids = self._holding(counts, above, need)
        if not len(ids) or self._tree().node_count(above) != self._tree().node_count(preference.depth):
            raise NeedsSearch
        fewest = self.counting.domains_needed.fewest(counts, self._tree(), preference.depth, need)[ids]
        self._fill_fewest(leaf, counts, need, preference.depth, self._tightest(ids[fewest == fewest.min()], above))

    def _counts(self, leaf: Part) -> Counts:
        return self.inventory.counts(self.asked.shapes[leaf.index][0][0])

    def _need(self, leaf: Part) -> int:
        assert leaf.pods is not None
        return leaf.pods.count if self.extras == "place" else leaf.pods.min

    def _room(self, leaf: Part) -> int:
        """How many pods a domain must hold to be chosen: elastic pods count unless they are skipped."""
        assert leaf.pods is not None
        return leaf.pods.min if self.extras == "skip" else leaf.pods.count

    def _holding(self, counts: Counts, depth: int, need: int) -> Ids:
        return np.flatnonzero(counts.at(self.topology, depth) >= need)

    # --- several pod sets ---

    def _place_parts(self) -> None:
        """Parts before their children, hardest first; limited backtracking before the gang is left to the search."""
        order = self._order()
        scopes: dict[int, Scope] = {-1: CLUSTER}
        trail: list[tuple[Iterator[Scope], int, int]] = []
        options = self._options(order[0], CLUSTER)
        while True:
            scope = next(options, None)
            if scope is None:
                if not trail:
                    raise NeedsSearch
                options, mark, taken = trail.pop()
                self._undo(mark, taken)
                continue
            part = order[len(trail)]
            mark, taken = self.inventory.checkpoint(), len(self.taken)
            scopes[part.index] = scope
            if part.pods is not None and not self._fits(part, part.pods.min, scope):
                self._undo(mark, taken)
                continue
            trail.append((options, mark, taken))
            if len(trail) == len(order):
                return
            following = order[len(trail)]
            options = self._options(following, scopes[following.parent])

    def _order(self) -> list[Part]:
        order: list[Part] = []
        stack = [0]
        while stack:
            part = self.parts.all[stack.pop()]
            order.append(part)
            stack.extend(reversed(self.asked.order[part.index]))
        return order

    def _undo(self, mark: int, taken: int) -> None:
        self.inventory.rollback(mark)
        del self.taken[taken:]
        self.tries -= 1
        if self.tries < 0:
            raise NeedsSearch

    def _fits(self, leaf: Part, need: int, scope: Scope) -> bool:
        counts = self._counts(leaf)
        depth, domain = scope
        held = counts.at(self.topology, depth)[domain] if depth else counts.total
        if held < need:
            return False
        self._fill(leaf, counts, need, depth, domain)
        return True

    def _options(self, part: Part, scope: Scope) -> Iterator[Scope]:
        """The domains of a part inside a scope, tightest first; of those with equal counts only one."""
        above, within = scope
        if part.required is None or part.required.depth <= above:
            yield scope
            return
        depth = part.required.depth
        ids = self._could_hold(part, depth, above, within)
        while len(ids):
            chosen = self._tightest(ids, depth, above)
            yield depth, chosen
            same = np.ones(len(ids), np.bool_)
            for shape, _ in self.asked.shapes[part.index]:
                held = self.inventory.counts(shape).at(self.topology, depth)
                same &= held[ids] == held[chosen]
            ids = ids[~same]

    def _could_hold(self, part: Part, depth: int, above: int, within: int) -> Ids:
        if above and above == depth - 1:
            ids = np.array(self._tree().children(above, within), np.intp)
            for shape, need in self.asked.shapes[part.index]:
                ids = ids[self.inventory.counts(shape).at(self.topology, depth)[ids] >= need]
            return ids
        ids = np.flatnonzero(self.counting.could_hold(self.parts, self.asked, part, depth, waiting=False))
        return ids[self._up(depth, above)[ids] == within] if above else ids

    # --- domains and nodes ---

    def _tree(self) -> Tree:
        return self.inventory.trees[self.topology]

    def _up(self, depth: int, above: int) -> Ids:
        return self.counting.domains_needed.ancestors(self._tree(), depth, above)

    def _tightest(self, ids: Ids, depth: int, shared: int = 0) -> int:
        """The domain with the least free capacity, extended resources first; of equal ones that in the fuller parent.

        Ties that are left go by path. `shared`: the depth at which all of them are in one domain.
        """
        if not len(ids):
            raise NeedsSearch
        if len(ids) > 1:
            ids = self._in_fullest(ids, depth, shared, self.inventory.room(self.asked.filters, self.asked.wanted))
        return int(ids[0])

    def _in_fullest(self, ids: Ids, depth: int, shared: int, room: FreeByDomain) -> Ids:
        ids = self._least_room(ids, self.topology, depth, room)
        if len(ids) == 1:
            return ids
        tree = self._tree()
        if depth - 1 > shared and tree.domains(depth - 1) > 1:
            parents = self._up(depth, depth - 1)[ids]
            seen = np.zeros(tree.domains(depth - 1), np.bool_)
            seen[parents] = True
            around = np.flatnonzero(seen)
            if len(around) > 1:
                ids = ids[parents == self._in_fullest(around, depth - 1, shared, room)[0]]
        return ids[[tree.rank(depth)[ids].argmin()]] if len(ids) > 1 else ids

    def _least_room(self, ids: Ids, topology: str, depth: int, room: FreeByDomain) -> Ids:
        for resource in self.asked.wanted:
            amounts = room.at(topology, depth, resource)[ids]
            ids = ids[amounts == amounts.min()]
            if len(ids) == 1:
                break
        return ids

    def _fill_fewest(self, leaf: Part, counts: Counts, need: int, depth: int, parent: int) -> None:
        """Use the children that hold most, and for the remainder the tightest child that holds it."""
        tree = self._tree()
        if depth == len(tree.levels) and len(tree.children(depth - 1, parent)) == tree.size(depth - 1, parent):
            self._fill_nodes(leaf, counts, need, tree.members(depth - 1, parent), largest_first=True)
            return
        children = tree.children(depth - 1, parent)
        held = dict(zip(children, counts.at(self.topology, depth)[children].tolist(), strict=True))
        while need > 0:
            fitting = [child for child in held if held[child] >= need]
            most = max(held.values())
            ids = np.array(fitting or [child for child in held if held[child] == most], np.intp)
            chosen = self._tightest(ids, depth, depth - 1)
            here = min(need, held.pop(chosen))
            self._fill(leaf, counts, here, depth, chosen)
            need -= here

    def _fill(self, leaf: Part, counts: Counts, need: int, depth: int, domain: int) -> None:
        """Distribute pods down the tree to the level whose domains are nodes, best fit at each level."""
        if not self.topology:
            self._fill_nodes(leaf, counts, need, sorted(self.inventory.slots(), key=self.inventory.name))
            return
        tree = self._tree()
        if depth >= len(tree.levels) - 1 or tree.size(depth, domain) == 1:
            self._fill_nodes(leaf, counts, need, tree.members(depth, domain))
            return
        children = tree.children(depth, domain)
        if sum(tree.size(depth + 1, child) for child in children) != tree.size(depth, domain):
            raise NeedsSearch
        held = dict(zip(children, counts.at(self.topology, depth + 1)[children].tolist(), strict=True))
        while need > 0:
            whole = [child for child in held if held[child] >= need]
            ids = np.array(whole or [child for child in held if held[child]], np.intp)
            chosen = self._tightest(ids, depth + 1, depth)
            here = min(need, held.pop(chosen))
            self._fill(leaf, counts, here, depth + 1, chosen)
            need -= here

    def _fill_nodes(
        self, leaf: Part, counts: Counts, need: int, slots: Sequence[int], largest_first: bool = False
    ) -> None:
        """The tightest node that holds all pods, else the tightest (or largest) one by one; ties by name."""
        pods = leaf.pods
        assert pods is not None
        inventory, wanted = self.inventory, self.asked.wanted
        idle, node_at = inventory.idle, inventory.node
        fits = counts.per_node[slots].tolist()
        nodes: list[_FreeNode] = []
        for at, fit in enumerate(fits):
            if fit:
                slot = slots[at]
                if node_at(slot).taints:
                    raise NeedsSearch
                row = idle[slot]
                nodes.append(([row[resource] for resource in wanted], at, slot, fit))
        nodes.sort()
        while need > 0:
            at = next((at for at, node in enumerate(nodes) if node[3] >= need), -1)
            if at < 0:
                at = max(range(len(nodes)), key=lambda at: (nodes[at][3], -at)) if largest_first else 0
            if not self.topology and leaf.topology is not None:
                at = self._in_fuller_parent(nodes, at, leaf.topology)
            _, _, slot, fit = nodes.pop(at)
            here = min(need, fit)
            self._take(leaf, pods, slot, here)
            need -= here

    def _in_fuller_parent(self, nodes: list[_FreeNode], at: int, topology: str) -> int:
        """The first of the nodes with the same room that is in the fullest domains, level by level."""
        end = bisect_right(nodes, nodes[at][0], at, key=lambda node: node[0])
        ties = np.arange(at, end)
        slots = np.array([node[2] for node in nodes[at:end]], np.intp) if end - at > 1 else ties
        tree, room = self.inventory.trees[topology], self.inventory.room(self.asked.filters, self.asked.wanted)
        for depth in range(len(tree.levels), 0, -1):
            if len(ties) == 1:
                break
            domains = tree.domain_array(depth)[slots]
            if (domains < 0).any():
                continue
            seen = np.zeros(tree.domains(depth), np.bool_)
            seen[domains] = True
            least = np.isin(domains, self._least_room(np.flatnonzero(seen), topology, depth, room))
            ties, slots = ties[least], slots[least]
        return int(ties[0])

    def _take(self, leaf: Part, pods: PodSet, slot: int, count: int) -> None:
        if self.inventory.divided and not self._still_holds(pods, slot, count):
            raise NeedsSearch
        self.inventory.take(slot, pods.request, pods.host_ports, count)
        self.taken.append((leaf, slot, count))

    def _still_holds(self, pods: PodSet, slot: int, count: int) -> bool:
        """Pods placed in other zones of the node may have used up the node itself."""
        idle = self.inventory.idle[slot]
        return all(amount * count <= idle[resource] for resource, amount in enumerate(pods.request) if amount)
