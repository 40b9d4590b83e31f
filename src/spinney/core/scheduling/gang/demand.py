"""What a gang asks for: the least that its minimum still needs, and the subsets of children that are just enough.

The engine chooses children by their placement; a queue may admit only some subsets. Never leaves out a child that has
running members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product

import msgspec

from spinney.api.placement.problem import Amounts, Gang, Group, PodSet

_MOST = 64
"""At most this many subsets of each group are tried; more are not worth the search."""

Child = Group | PodSet


def demand(gang: Gang, resources: Sequence[str]) -> Amounts:
    """The least that the pods still missing from the minimum request.

    Where a subset of children is enough, the smallest amounts of each resource count: an actual subset may ask for
    more.
    """
    running = Counter(member.pods for member in gang.running)
    return _least(gang.root, "", running, len(resources))


def is_choosy(group: Group) -> bool:
    """Whether a subset of children is enough in any group of it."""
    return group.min_groups is not None or any(map(is_choosy, group.groups))


def _least(group: Group, prefix: str, running: Counter[str], width: int) -> Amounts:
    rows = [_missing(pods, running[prefix + pods.name], width) for pods in group.pods]
    rows += [_least(kid, f"{prefix}{kid.name}/", running, width) for kid in group.groups]
    if not rows:
        return (0,) * width
    keep = len(rows) if group.min_groups is None else group.min_groups
    return tuple([sum(sorted(column)[:keep]) for column in zip(*rows, strict=True)])


def _missing(pods: PodSet, running: int, width: int) -> Amounts:
    missing = max(0, pods.min - running)
    return tuple([amount * missing for amount in pods.request]) or (0,) * width


def subsets(gang: Gang, resources: Sequence[str]) -> list[Gang]:
    """The gang with each sufficient subset of children, those that ask for least first."""
    begun = frozenset(member.pods for member in gang.running)
    roots = islice(_choices(gang.root, "", begun, resources), _MOST)
    return sorted([msgspec.structs.replace(gang, root=root) for root in roots], key=lambda each: _cost(each, resources))


def _choices(group: Group, prefix: str, begun: frozenset[str], resources: Sequence[str]) -> Iterator[Group]:
    kids: list[Child] = [*group.pods, *group.groups]
    kept = [kid for kid in kids if _has_begun(kid, prefix, begun)]
    others = sorted([kid for kid in kids if kid not in kept], key=lambda kid: _cost(Gang("", _alone(kid)), resources))
    count = len(others) if group.min_groups is None else min(max(0, group.min_groups - len(kept)), len(others))
    for chosen in combinations(others, count):
        there = [kid for kid in kids if kid in kept or kid in chosen]
        inner = [
            list(islice(_choices(kid, f"{prefix}{kid.name}/", begun, resources), _MOST))
            for kid in there
            if isinstance(kid, Group)
        ]
        pods = tuple([kid for kid in there if isinstance(kid, PodSet)])
        for groups in product(*inner):
            yield msgspec.structs.replace(group, pods=pods, groups=groups)


def _cost(gang: Gang, resources: Sequence[str]) -> Amounts:
    """The last resources compare first: cpu, memory and pods, the first ones, are those that queues limit least."""
    return demand(gang, resources)[::-1]


def _alone(kid: Child) -> Group:
    return Group("", pods=(kid,)) if isinstance(kid, PodSet) else Group("", groups=(kid,))


def _has_begun(kid: Child, prefix: str, begun: frozenset[str]) -> bool:
    path = prefix + kid.name
    return path in begun or any(each.startswith(f"{path}/") for each in begun)
