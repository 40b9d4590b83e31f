"""The cluster between two decisions: what is taken, by whom, and what will be free.

A gang that waits takes the future room of a node; whether it also takes idle room is left open by the contract, so idle
room is known in two readings: `idle` (it does, the narrow one) and `idle_at_most` (it does not).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from placement_oracle.filters import ports_of
from placement_oracle.reading import Amounts, Document, Gang, Path, World

Member = tuple[str, str]
"""A pod: the path of its pod set, and its node."""


class State:
    def __init__(self, world: World) -> None:
        self.world = world
        self.free = {name: _minus(node.allocatable, node.used) for name, node in world.nodes.items()}
        self.releasing = {name: dict(node.releasing) for name, node in world.nodes.items()}
        self.taken_later: dict[str, Counter[str]] = defaultdict(Counter)
        self.ports: dict[str, Counter[int]] = {name: Counter(node.ports) for name, node in world.nodes.items()}
        self.leaving_ports: dict[str, Counter[int]] = defaultdict(Counter)
        self.running: dict[str, list[Member]] = {gang.name: list(gang.running) for gang in world.gangs}
        self.placed: dict[str, list[Member]] = defaultdict(list)
        for gang in world.gangs:
            for member in gang.running:
                self.take(gang, member)

    def idle(self, node: str, resource: str) -> int:
        return self.free[node][resource] - self.taken_later[node][resource]

    def idle_at_most(self, node: str, resource: str) -> int:
        return min(self.free[node][resource], self.coming(node, resource))

    def coming(self, node: str, resource: str) -> int:
        """Idle and releasing."""
        return self.idle(node, resource) + self.releasing[node][resource]

    def busy_ports(self, node: str, *, waiting: bool) -> set[int]:
        node = self.world.home(node)
        busy = set(+self.ports[node])
        return busy if waiting else busy | set(+self.leaving_ports[node])

    def live(self, gang: str) -> list[Member]:
        return self.running.get(gang, []) + self.placed[gang]

    def take(self, gang: Gang, member: Member, *, waiting: bool = False) -> None:
        leaf, seat = gang.leaf[member[0]], member[1]
        for resource, amount in leaf.request.items():
            for node in self.world.charged(seat):
                if waiting:
                    self.taken_later[node][resource] += amount
                else:
                    self.free[node][resource] -= amount
        self.ports[self.world.home(seat)].update(ports_of(leaf))

    def evict(self, gang: Gang, member: Member) -> None:
        """The pod is terminating from now on: its room and ports are releasing."""
        leaf, node = gang.leaf[member[0]], self.world.home(member[1])
        self.running[gang.name].remove(member)
        for resource, amount in leaf.request.items():
            for each in self.world.charged(member[1]):
                self.releasing[each][resource] += amount
        self.ports[node].subtract(ports_of(leaf))
        self.leaving_ports[node].update(ports_of(leaf))

    def make_way(self, answer: Document) -> None:
        """Carry out the victims and moves of a decision."""
        for victim in answer.get("victims") or []:
            self.evict(self._gang(victim["gang"]), (victim["pods"], self.world.seat(victim)))
        for move in answer.get("moves") or []:
            self.evict(self._gang(move["gang"]), (move["pods"], self.world.seat(move, "from", "fromZone")))
        for move in answer.get("moves") or []:
            arriving = (move["pods"], self.world.seat(move, "to", "toZone"))
            self.take(self._gang(move["gang"]), arriving, waiting=True)
            self.running[move["gang"]].append(arriving)

    def settle(self, gang: Gang, answer: Document) -> None:
        """The whole decision of one gang."""
        self.make_way(answer)
        for placement in answer.get("placements") or []:
            member = (placement["pods"], self.world.seat(placement))
            self.take(gang, member, waiting=bool(answer.get("waits")))
            self.placed[gang.name].append(member)

    def _gang(self, name: str) -> Gang:
        gang = self.world.gang(name)
        assert gang is not None
        return gang


def state_after(world: World, decided: Iterable[Document] = ()) -> State:
    state = State(world)
    for gang, answer in zip(world.gangs, decided, strict=False):
        state.settle(gang, answer)
    return state


def common_path(paths: Iterable[Path]) -> Path:
    paths = list(paths)
    shared: list[str] = []
    for values in zip(*paths, strict=False):
        if len(set(values)) > 1:
            break
        shared.append(values[0])
    return tuple(shared)


class Untied(Exception):
    """The gang cannot share the domain of the gang it is tied to."""


def tied_domain(state: State, gang: Gang) -> Path | None:
    """The domain the gang has to share, None without a tie."""
    if gang.tied_to is None:
        return None
    topology = gang.root.topology
    assert topology is not None
    depth = state.world.depth(gang.root, gang.tied_to["level"])
    members = state.live(gang.tied_to["gang"])
    if not members:
        raise Untied("the other gang is not placed")
    shared = common_path(state.world.path(topology, node) for _, node in members)
    if len(shared) < depth:
        raise Untied("the other gang is split")
    domain = shared[:depth]
    if any(state.world.path(topology, node)[:depth] != domain for _, node in state.running[gang.name]):
        raise Untied("a running member is elsewhere")
    return domain


def _minus(left: Amounts, right: Amounts) -> Amounts:
    return {resource: left[resource] - right[resource] for resource in left}
