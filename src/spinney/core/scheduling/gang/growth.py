"""How a gang grows beyond its minimum (Q10): which of its pods come next, and the gang that could not do without them.

Pods come one by one, of the pod set that has the least for its minimum; where a group needs only some of its children,
a child more comes as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from spinney.api.placement.problem import Gang, Group
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.gang.demand import is_choosy


def beyond_minimum(gang: Gang, planned: int = 0) -> int:
    """How many pods it has, those that are planned included, beyond the minimum of what has begun."""
    sets, begun = pod_sets(gang), {member.pods for member in gang.running}
    least = sum([sets[path].min for path in begun if path in sets])
    return max(0, len(gang.running) + planned - least)


def next_pods(gang: Gang, left: Mapping[str, int], planned: Mapping[str, int], most: int) -> Counter[str]:
    """The pods of the next turn, by pod set: at most so many of what is left, or one child."""
    if most >= sum(left.values()):
        return +Counter(left)
    sets, held = pod_sets(gang), Counter(member.pods for member in gang.running) + Counter(planned)

    def share(path: str) -> Fraction:
        return Fraction(held[path], max(sets[path].min, 1))

    if is_choosy(gang.root):
        child = min(left, key=lambda path: (not held[path], share(path))).partition("/")[0]
        return Counter({path: count for path, count in left.items() if path.partition("/")[0] == child})
    first = min(left, key=share)
    return Counter({first: min(most, left[first])})


def raised(gang: Gang, pods: Mapping[str, int]) -> Gang:
    """The gang with so many pods more in its minimum than it has."""
    held = Counter(member.pods for member in gang.running)
    return msgspec.structs.replace(
        gang, root=_raised(gang.root, "", {path: held[path] + n for path, n in pods.items()})
    )


def _raised(group: Group, prefix: str, least: Mapping[str, int]) -> Group:
    pods = [msgspec.structs.replace(each, min=max(each.min, least.get(prefix + each.name, 0))) for each in group.pods]
    groups = [_raised(each, f"{prefix}{each.name}/", least) for each in group.groups]
    return msgspec.structs.replace(group, pods=tuple(pods), groups=tuple(groups))


def without_others(gang: Gang, pods: Mapping[str, int], planned: Mapping[str, int]) -> Gang:
    """The gang without children that have not begun, except those of these pods."""
    kept = {*(member.pods for member in gang.running), *pods, *planned}
    return msgspec.structs.replace(gang, root=_only(gang.root, "", kept))


def _only(group: Group, prefix: str, kept: set[str]) -> Group:
    pods = [each for each in group.pods if prefix + each.name in kept]
    groups = [_only(each, f"{prefix}{each.name}/", kept) for each in group.groups]
    groups = [each for each in groups if each.pods or each.groups]
    return msgspec.structs.replace(group, pods=tuple(pods), groups=tuple(groups))
