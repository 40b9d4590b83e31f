"""The hard rules for where a gang's pods stand, as questions on a list of members.

Used on finished answers only; no search.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from placement_oracle.between import broken
from placement_oracle.filters import may_use, ports_of
from placement_oracle.reading import Gang, TreeNode
from placement_oracle.state import Member, State, Untied, common_path, tied_domain
from placement_oracle.values import hosts_below


def misplaced(state: State, gang: Gang, new: list[Member], *, waiting: bool, narrow: bool = False) -> Iterator[str]:
    """What is wrong with putting these pods beside the gang's live ones, on `narrow` idle room or the widest."""
    for path, node in new:
        if not may_use(gang.leaf[path], state.world.nodes[node]):
            yield f"{path} may not use node {node}"
    yield from _over_capacity(state, gang, new, waiting, narrow)
    yield from _shared_ports(state, gang, new, waiting)
    live = state.live(gang.name)
    yield from broken(state.world, gang, live, new)
    yield from split(state, gang, live, new)
    yield from _off_tie(state, gang, new)


def _over_capacity(state: State, gang: Gang, new: list[Member], waiting: bool, narrow: bool) -> Iterator[str]:
    asked: dict[tuple[str, str], int] = Counter()
    for path, seat in new:
        for resource, amount in gang.leaf[path].request.items():
            for node in state.world.charged(seat):
                asked[node, resource] += amount
    for (node, resource), amount in asked.items():
        idle = state.idle if narrow else state.idle_at_most
        room = state.coming(node, resource) if waiting else idle(node, resource)
        if amount > max(0, room):
            yield f"node {node} has {room} {resource} for {amount} (waits: {waiting})"


def _shared_ports(state: State, gang: Gang, new: list[Member], waiting: bool) -> Iterator[str]:
    opened: dict[str, Counter[int]] = defaultdict(Counter)
    for path, node in new:
        opened[state.world.home(node)].update(ports_of(gang.leaf[path]))
    for node, ports in opened.items():
        busy = state.busy_ports(node, waiting=waiting)
        for port, times in ports.items():
            if times > 1 or port in busy:
                yield f"port {port} is taken on node {node}"


def split(state: State, gang: Gang, live: list[Member], new: list[Member]) -> Iterator[str]:
    """Required domains that do not hold all pods of a tree node that gets new ones."""
    for node in gang.constrained("required"):
        assert node.topology is not None and node.required is not None
        hosts = hosts_below(node, live + new)
        shared = common_path(state.world.path(node.topology, host) for host in hosts)
        if hosts_below(node, new) and len(shared) < state.world.depth(node, node.required):
            yield f"{node.path!r} is not in one domain of {node.required}"


def _off_tie(state: State, gang: Gang, new: list[Member]) -> Iterator[str]:
    if not new:
        return
    try:
        domain = tied_domain(state, gang)
    except Untied as untied:
        yield f"tied, but {untied}"
        return
    for _, node in new if domain is not None else []:
        assert gang.root.topology is not None and domain is not None
        if state.world.path(gang.root.topology, node)[: len(domain)] != domain:
            yield f"node {node} is outside the tied domain {domain}"


def satisfied(node: TreeNode, members: list[Member]) -> bool:
    if node.leaf:
        return len(hosts_below(node, members)) >= node.min
    return sum(satisfied(child, members) for child in node.children) >= node.least


def half_placed(gang: Gang, live: list[Member], new: list[Member]) -> Iterator[str]:
    """All or nothing: the gang, and every child that gets a pod."""
    for node in gang.root.walk():
        gets = not node.path or bool(hosts_below(node, new))
        if gets and not satisfied(node, live + new):
            yield f"{node.path!r} is below its minimum"
