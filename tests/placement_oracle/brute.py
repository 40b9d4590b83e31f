"""The brute-force twin of the exact judge, for tiny problems: every way to hand out the pods is looked at.

No cleverness: a way is thrown away only when a node is too full for it or the finished whole breaks a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from placement_oracle.filters import may_use
from placement_oracle.reading import Document, Gang, TreeNode, World, read
from placement_oracle.rules import half_placed, misplaced, split
from placement_oracle.state import Member, State, state_after
from placement_oracle.values import Values, hosts_below, values_of


def feasible(
    problem: Document | World, gang_index: int = 0, decided: Sequence[Document] = (), *, releasing: bool = False
) -> bool:
    """Can the minimum of a gang be placed after the given decisions, on idle room or on idle and releasing room?"""
    return members(problem, gang_index, decided, releasing=releasing) is not None


def members(
    problem: Document | World, gang_index: int = 0, decided: Sequence[Document] = (), *, releasing: bool = False
) -> list[Member] | None:
    """The first lawful way to place the minimum."""
    world = read(problem)
    return next(_ways(state_after(world, decided), world.gangs[gang_index], releasing), None)


def optimum(problem: Document | World, gang_index: int = 0, decided: Sequence[Document] = ()) -> Values:
    """The best values over all ways, on idle room if there is one."""
    world = read(problem)
    state, gang = state_after(world, decided), world.gangs[gang_index]
    for releasing in (False, True):
        found = [values_of(world, gang, gang.running + way) for way in _ways(state, gang, releasing)]
        if found:
            return min(found, key=lambda values: [value for _, value in values])
    raise ValueError("the gang does not fit")


def _ways(state: State, gang: Gang, releasing: bool) -> Iterator[list[Member]]:
    running = state.running[gang.name]
    needs = {path: max(0, leaf.min - len(hosts_below(leaf, running))) for path, leaf in gang.leaf.items()}
    if not any(needs.values()):
        yield []
        return
    optional = any(node.least < len(node.children) for node in gang.root.walk())
    sizes = [{0, need} if optional else {need} for need in needs.values()]
    for chosen in product(*(sorted(size) for size in sizes)):
        for way in _handed_out(state, list(zip(gang.leaf.values(), chosen, strict=True)), releasing):
            if not _wrong(state, gang, running, way, releasing):
                yield way


def _wrong(state: State, gang: Gang, running: list[Member], way: list[Member], releasing: bool) -> list[str]:
    return [
        *misplaced(state, gang, way, waiting=releasing, narrow=True),
        *half_placed(gang, running, way),
        *split(state, gang, [], running + way),
    ]


def _handed_out(state: State, todo: list[tuple[TreeNode, int]], releasing: bool) -> Iterator[list[Member]]:
    if not todo:
        yield []
        return
    (leaf, number), rest = todo[0], todo[1:]
    hosts = [name for name, node in state.world.nodes.items() if may_use(leaf, node)]
    for counts in _shares(number, len(hosts)):
        here = [(leaf.path, host) for host, count in zip(hosts, counts, strict=True) for _ in range(count)]
        if all(
            count * leaf.request.get(r, 0) <= max(0, _room(state, host, r, releasing))
            for host, count in zip(hosts, counts, strict=True)
            if count
            for r in state.world.resources
        ):
            for more in _handed_out(state, rest, releasing):
                yield here + more


def _room(state: State, host: str, resource: str, releasing: bool) -> int:
    room = state.coming if releasing else state.idle
    return min(room(each, resource) for each in {host, state.world.home(host)})


def _shares(number: int, hosts: int) -> Iterator[tuple[int, ...]]:
    """Every vector of counts per host with this sum."""
    if hosts == 0:
        if number == 0:
            yield ()
        return
    for first in range(number + 1):
        for rest in _shares(number - first, hosts - 1):
            yield (first, *rest)
