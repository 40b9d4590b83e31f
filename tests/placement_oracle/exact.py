"""The exact judge: does a gang fit, and how well can its preferences be met? Answered by OR-Tools CP-SAT.

Pods of a set are equal, so the model counts them per node. A question that is not decided within the limit raises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ortools.sat.python import cp_model

from placement_oracle.between import Between
from placement_oracle.filters import may_use, ports_of
from placement_oracle.reading import Document, Gang, Path, TreeNode, World, read
from placement_oracle.spread import Spread
from placement_oracle.state import Member, State, Untied, state_after, tied_domain
from placement_oracle.values import Values, hosts_below

LIMIT_S = 120.0

Cut = tuple[dict[str, int], dict[str, int]]
"""Weights per pod set and what each node can hold of them."""


class NotProved(Exception):
    """The solver ran out of time."""


def feasible(
    problem: Document | World,
    gang_index: int = 0,
    decided: Sequence[Document] = (),
    *,
    releasing: bool = False,
    victims: Sequence[Document] = (),
) -> bool:
    """Can the minimum of a gang be placed after the given decisions, on idle room or on idle and releasing room?"""
    return members(problem, gang_index, decided, releasing=releasing, victims=victims) is not None


def members(
    problem: Document | World,
    gang_index: int = 0,
    decided: Sequence[Document] = (),
    *,
    releasing: bool = False,
    victims: Sequence[Document] = (),
) -> list[Member] | None:
    """New pods that complete the minimum of a gang, None where there is no room for them."""
    world = read(problem)
    state = state_after(world, decided)
    state.make_way({"victims": victims})
    gang = world.gangs[gang_index]
    if not any(missing(state, gang).values()):
        return []
    model = Model(state, gang, releasing)
    if any(node.least < len(node.children) for node in gang.root.walk()):
        model.cp.minimize(sum(model.count.values()))  # no child that is not needed
    return model.members() if model.solve() else None


def optimum(problem: Document | World, gang_index: int = 0, decided: Sequence[Document] = ()) -> Values:
    """The best values, preference by preference; on idle room if the gang fits there. It must fit."""
    world = read(problem)
    state, gang = state_after(world, decided), world.gangs[gang_index]
    if any(node.least < len(node.children) for node in gang.root.walk()):
        raise ValueError("values of gangs with optional children are not defined")
    for releasing in (False, True):
        model = Model(state, gang, releasing)
        if model.solve():
            return model.best_values()
    raise ValueError("the gang does not fit")


def missing(state: State, gang: Gang) -> dict[str, int]:
    """How many pods each pod set lacks to its minimum."""
    running = state.running[gang.name]
    return {path: max(0, leaf.min - len(hosts_below(leaf, running))) for path, leaf in gang.leaf.items()}


class Model:
    def __init__(self, state: State, gang: Gang, releasing: bool) -> None:
        self.state, self.gang, self.releasing = state, gang, releasing
        self.need = missing(state, gang)
        self.running = state.running[gang.name]
        self.cp = cp_model.CpModel()
        self.solver = cp_model.CpSolver()
        self.solver.parameters.num_workers = 1
        self.solver.parameters.random_seed = 1
        self.solver.parameters.max_time_in_seconds = LIMIT_S
        self.count: dict[Member, cp_model.IntVar] = {}
        self.met: dict[str, cp_model.IntVar] = {}
        self.hopeless = False
        self._add_tree(gang.root)
        self._add_counts()
        self.cuts = list(self._cuts())
        self._add_room()
        self._add_exclusions()
        for node in gang.constrained("required"):
            self._add_required(node)

    def solve(self) -> bool:
        if self.hopeless:
            return False
        answer = self.solver.solve(self.cp)
        if answer in (cp_model.OPTIMAL, cp_model.FEASIBLE) and (
            answer == cp_model.OPTIMAL or not self.cp.has_objective()
        ):
            return True
        if answer == cp_model.INFEASIBLE:
            return False
        raise NotProved(self.solver.status_name(answer))

    def members(self) -> list[Member]:
        return [member for member, count in self.count.items() for _ in range(self.solver.value(count))]

    def best_values(self) -> Values:
        """Preference by preference, each with the ones before it fixed."""
        found: Values = []
        for node in self.gang.constrained("preferred"):
            reach = {host: self._of(node, [host]) for host in self.state.world.nodes}
            hosts = {host: counts for host, counts in reach.items() if counts}
            running = set(hosts_below(node, self.running))
            if not hosts and not running:
                continue
            spread = Spread(self.cp, self.state.world, node, hosts, running)
            for names, used in spread.opened:
                self.cap([leaf.path for leaf in node.leaves()], names, used)
            self.cp.minimize(spread.cost)
            if not self.solve():
                raise NotProved("a fixed preference became infeasible")
            found.append((node.path, spread.value(self.solver)))
            self.cp.clear_objective()  # type: ignore[no-untyped-call]
            spread.fix(self.solver)
            self._hint()
        return found

    def _hint(self) -> None:
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        for count in self.count.values():
            self.cp.add_hint(count, self.solver.value(count))

    def _add_tree(self, node: TreeNode) -> None:
        """A tree node is met or gets nothing; a group is met by enough met children."""
        self.met[node.path] = self.cp.new_bool_var("") if node.path else self.cp.new_constant(1)
        for child in node.children:
            self._add_tree(child)
            self.cp.add_implication(self.met[child.path], self.met[node.path])
        if node.children:
            self.cp.add(sum(self.met[child.path] for child in node.children) >= node.least * self.met[node.path])

    def _add_counts(self) -> None:
        world = self.state.world
        for path, leaf in self.gang.leaf.items():
            for name, node in world.nodes.items():
                most = min(self.need[path], self._most(leaf, name)) if may_use(leaf, node) else 0
                if most > 0:
                    self.count[path, name] = self.cp.new_int_var(0, most, "")
            placed = [count for (other, _), count in self.count.items() if other == path]
            self.cp.add(sum(placed) == self.need[path] * self.met[path])
        try:
            domain = tied_domain(self.state, self.gang)
        except Untied:
            self.hopeless = True
            return
        for (_, name), count in self.count.items() if domain is not None else []:
            assert self.gang.root.topology is not None and domain is not None
            if world.path(self.gang.root.topology, name)[: len(domain)] != domain:
                self.cp.add(count == 0)

    def _most(self, leaf: TreeNode, node: str) -> int:
        here = {node, self.state.world.home(node)}
        fits = [self._room(each, name) // amount for each in here for name, amount in leaf.request.items() if amount]
        return min(fits, default=self.need[leaf.path])

    def _room(self, node: str, resource: str) -> int:
        room = self.state.coming(node, resource) if self.releasing else self.state.idle(node, resource)
        return max(0, room)

    def _cuts(self) -> Iterator[Cut]:
        """What nodes can hold: amounts per resource, and pods of at least a size (implied, but proofs are shorter)."""
        leaves = self.gang.leaf
        for resource in self.state.world.resources:
            room = {name: self._room(name, resource) for name in self.state.world.nodes}
            yield {path: leaf.request[resource] for path, leaf in leaves.items()}, room
            for size in {leaf.request[resource] for leaf in leaves.values()} - {0, 1}:
                large = {path: int(leaf.request[resource] >= size) for path, leaf in leaves.items()}
                yield large, {name: amount // size for name, amount in room.items()}

    def _add_room(self) -> None:
        for node in self.state.world.nodes:
            self.cap(list(self.gang.leaf), [node], 1)
            self._cap_zones(node)

    def _cap_zones(self, home: str) -> None:
        """Zones hold no more together than their node has room."""
        zones = set(self.state.world.zones(home))
        for weights, room in self.cuts if zones else []:
            terms = [weights[path] * count for (path, name), count in self.count.items() if name in zones]
            if terms:
                self.cp.add(sum(terms) <= room[home])

    def cap(self, paths: list[str], names: list[str], opened: cp_model.IntVar | int) -> None:
        """These nodes hold no more of these pod sets than they have room, and nothing unless opened."""
        for weights, room in self.cuts:
            terms = [
                (weights[path], self.count[path, name])
                for path in paths
                for name in names
                if weights[path] and (path, name) in self.count
            ]
            if terms:
                asked = sum(weight * count for weight, count in terms)
                self.cp.add(asked <= sum(room[name] for name in names) * opened)

    def _add_exclusions(self) -> None:
        """Ports: at most one on a node; and what pods ask about each other."""
        alike: dict[tuple[str, ...], list[cp_model.IntVar]] = defaultdict(list)
        for (path, name), count in self.count.items():
            leaf = self.gang.leaf[path]
            busy = self.state.busy_ports(name, waiting=self.releasing)
            for port in ports_of(leaf):
                alike["port", self.state.world.home(name), str(port)].append(count)
                if port in busy:
                    self.cp.add(count == 0)
        for counts in alike.values():
            self.cp.add(sum(counts) <= 1)
        Between(self.cp, self.state.world, self.gang, self.count, self.running)

    def _add_required(self, node: TreeNode) -> None:
        world, topology = self.state.world, node.topology
        assert topology is not None and node.required is not None
        depth = world.depth(node, node.required)
        domains: dict[Path, list[str]] = defaultdict(list)
        for name in world.nodes:
            path = world.path(topology, name)
            domains[path[:depth] if len(path) >= depth else ()].append(name)
        outside = domains.pop((), [])
        chosen = {domain: self.cp.new_bool_var("") for domain in domains}
        self.cp.add(sum(chosen.values()) <= 1)
        self.cp.add(sum(self._of(node, outside)) == 0)
        for domain, names in domains.items():
            for leaf in node.leaves():
                there = self._of(leaf, names)
                if there:
                    self.cp.add(sum(there) <= self.need[leaf.path] * chosen[domain])
            self.cap([leaf.path for leaf in node.leaves()], names, chosen[domain])
        for host in hosts_below(node, self.running):
            path = world.path(topology, host)
            if len(path) < depth:
                self.hopeless = True
            else:
                self.cp.add(chosen[path[:depth]] == 1)

    def _of(self, node: TreeNode, names: Iterable[str]) -> list[cp_model.IntVar]:
        """The counts of a tree node's pod sets on these nodes."""
        paths = [leaf.path for leaf in node.leaves()]
        return [self.count[path, name] for name in names for path in paths if (path, name) in self.count]
