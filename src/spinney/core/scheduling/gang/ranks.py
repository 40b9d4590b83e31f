"""Ranks number the pods of a gang along the topology (K11); segments are blocks of pods with a domain each (K13).

Never changes the rank or the segment of a running pod: others may already use it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, count, islice

import msgspec

from kube_apimachinery.quantity import read_number
from spinney.api.builtin.pod import Pod
from spinney.api.labels import (
    KAI_SEGMENT_PREFERRED,
    KAI_SEGMENT_REQUIRED,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    LWS_SUBGROUP_INDEX,
    SEGMENT,
)
from spinney.api.placement.problem import Group, Topology
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import distance
from spinney.core.scheduling.gang.members import index_of
from spinney.core.scheduling.gang.subgroup_tree import Constraint, SubGroupError, unknown_level, unknown_topology

LARGEST = 2**31 - 1


class Segmentation(msgspec.Struct, frozen=True, gc=False):
    """Blocks of `size` pods, each placed under `constraint`."""

    size: int
    constraint: Constraint


class Topologies(msgspec.Struct, frozen=True):
    """Levels by topology; None: not known here, checked by placement. `short`: names of levels, by topology."""

    known: Mapping[str, Topology] | None = None
    short: Mapping[str, Mapping[str, str]] = {}


def read_segmentation(
    pods: Sequence[Pod], group: Mapping[str, str], leaf: str, topology: str | None, topologies: Topologies
) -> Segmentation | None:
    """The segmentation that the pods of a leaf request, else that of their PodGroup; None: none.

    Raises SubGroupError if the annotations are not valid. Pods that name a level and no size use the size of their
    PodGroup. `topology` is that of the leaf or its nearest ancestor; without one, the annotation names it.
    """
    asked, annotations = _asked(pods, group, leaf)
    size, required, preferred = asked
    if size is None and required is None and preferred is None:
        return None
    if size is None:
        level = KAI_SEGMENT_REQUIRED if required else KAI_SEGMENT_PREFERRED
        raise SubGroupError(f"annotation {level} of sub-group {leaf} is given without {KAI_SEGMENT_SIZE}")
    block = _size(size, leaf)
    if not required and not preferred:
        raise SubGroupError(
            f"annotation {KAI_SEGMENT_SIZE} of sub-group {leaf} is given without {KAI_SEGMENT_REQUIRED} or "
            f"{KAI_SEGMENT_PREFERRED}"
        )
    name = topology or annotations.get(KAI_TOPOLOGY) or group.get(KAI_TOPOLOGY)
    if not name:
        raise SubGroupError(f"annotation {KAI_SEGMENT_SIZE} of sub-group {leaf} is given without a topology")
    levels = [
        _level(topologies, name, level, kind, leaf)
        for kind, level in (("required", required), ("preferred", preferred))
    ]
    return Segmentation(block, Constraint(name, *levels))


def assign_segments(running: Sequence[Pod], waiting: Sequence[Pod], size: int) -> dict[str, int]:
    """The segment of each pod, by uid.

    Indexed pods go to the segment of their index, or the one that their owner set. The others fill the segments that
    have running members, then the first ones with free places.
    """
    found: dict[str, int] = {}
    loose: list[Pod] = []
    for pod in running:
        kept = _published(pod)
        _put_into_segment(pod, kept if kept is not None else _by_index(pod, size), found, loose)
    for pod in waiting:
        _put_into_segment(pod, _by_index(pod, size), found, loose)
    if loose:
        _fill(loose, found, {found[pod.metadata.uid] for pod in running if pod.metadata.uid in found}, size)
    return found


def _put_into_segment(pod: Pod, segment: int | None, found: dict[str, int], loose: list[Pod]) -> None:
    if segment is None:
        loose.append(pod)
    else:
        found[pod.metadata.uid] = segment


def _fill(loose: Sequence[Pod], found: dict[str, int], inhabited: set[int], size: int) -> None:
    used: dict[int, int] = {}
    for segment in found.values():
        used[segment] = used.get(segment, 0) + 1
    order = chain(sorted(inhabited), (segment for segment in count() if segment not in inhabited))
    rooms = ((segment, size - used.get(segment, 0)) for segment in order)
    members = (segment for segment, room in rooms for _ in range(room))
    for pod, segment in zip(loose, members, strict=False):
        found[pod.metadata.uid] = segment


def _by_index(pod: Pod, size: int) -> int | None:
    given = read_number(pod.metadata.labels.get(LWS_SUBGROUP_INDEX, ""))
    if given is not None:
        return given
    index = index_of(pod)
    return None if index is None else index // size


def _published(pod: Pod) -> int | None:
    return read_number(pod.metadata.annotations.get(SEGMENT, ""))


_Asked = tuple[str | None, str | None, str | None]


def _asked(pods: Sequence[Pod], group: Mapping[str, str], leaf: str) -> tuple[_Asked, Mapping[str, str]]:
    """All pods of a leaf must request the same or nothing."""
    declared: dict[_Asked, Pod] = {}
    for pod in pods:
        annotations = pod.metadata.annotations
        asked = (
            annotations.get(KAI_SEGMENT_SIZE),
            annotations.get(KAI_SEGMENT_REQUIRED),
            annotations.get(KAI_SEGMENT_PREFERRED),
        )
        if asked != (None, None, None):
            declared.setdefault(asked, pod)
    if len(declared) > 1:
        one, other = [pod.metadata.name for pod in list(declared.values())[:2]]
        raise SubGroupError(f"pods {one} and {other} of sub-group {leaf} have different segment annotations")
    for (size, required, preferred), pod in declared.items():
        return (size or group.get(KAI_SEGMENT_SIZE), required, preferred), pod.metadata.annotations
    return (group.get(KAI_SEGMENT_SIZE), group.get(KAI_SEGMENT_REQUIRED), group.get(KAI_SEGMENT_PREFERRED)), group


def _size(text: str, leaf: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 11 and 1 <= int(text) <= LARGEST:
        return int(text)
    raise SubGroupError(
        f"annotation {KAI_SEGMENT_SIZE} of sub-group {leaf} is '{text}', expected a whole number from 1"
    )


def _level(topologies: Topologies, topology: str, level: str | None, kind: str, leaf: str) -> str | None:
    if not level:
        return None
    key = topologies.short.get(topology, {}).get(level, level)
    if topologies.known is None:
        return key
    known = topologies.known.get(topology)
    if known is None:
        raise SubGroupError(unknown_topology(topology, topologies.known))
    if key not in known.levels:
        raise SubGroupError(unknown_level(f"sub-group {leaf}", level, f"{kind} segment", topology, known.levels))
    return key


Path = tuple[str, ...]
_Place = tuple[bool, Path, str]


def ranks(
    inventory: Inventory,
    topology: str | None,
    members: Sequence[tuple[str, str]],
    kept: Mapping[str, int] | None = None,
    blocks: Mapping[str, Hashable] | None = None,
) -> dict[str, int]:
    """A rank for every assignment (pod uid, node), ordered by domain path and node name, equal ones as given.

    `kept`: ranks of running members, by uid; list those members in `members` as well. New pods then get free ranks, the
    nearest to the rank of their nearest neighbour. `blocks`: pods of one block (segment) get consecutive ranks.
    """
    placed = {uid: _place(inventory, topology, node) for uid, node in members}
    order = _in_order(members, placed, blocks or {})
    held = {uid: kept[uid] for uid, _ in members if uid in kept} if kept else {}
    if not held:
        return {uid: rank for rank, uid in enumerate(order)}
    return _fitted_in(order, placed, held)


def _place(inventory: Inventory, topology: str | None, node: str) -> _Place:
    """Nodes outside the topology come last."""
    tree = inventory.tree(topology) if topology else None
    slot = inventory.find(node)
    if tree is None or slot is None:
        return True, (), node
    path = tuple(tree.locate(inventory.node(slot).labels))
    return not path, path, node


def _in_order(
    members: Sequence[tuple[str, str]], placed: Mapping[str, _Place], blocks: Mapping[str, Hashable]
) -> list[str]:
    order = sorted((uid for uid, _ in members), key=placed.__getitem__)
    if not blocks:
        return order
    gathered: dict[Hashable, list[str]] = {}
    for uid in order:
        gathered.setdefault(blocks.get(uid, ("", uid)), []).append(uid)
    return [uid for block in gathered.values() for uid in block]


def _fitted_in(order: Sequence[str], placed: Mapping[str, _Place], held: Mapping[str, int]) -> dict[str, int]:
    found = dict(held)
    taken = set(held.values())
    unused = (rank for rank in count() if rank not in taken)
    free = list(islice(unused, len(order) - len(held)))
    targets = _targets(order, placed, held)
    for uid in order:
        if uid not in held:
            found[uid] = _nearest(free, targets[uid])
    return found


def _targets(order: Sequence[str], placed: Mapping[str, _Place], held: Mapping[str, int]) -> dict[str, int]:
    """For each new pod the rank of the nearest running one in the tree: one of its two neighbours in order."""
    before = _beside(order, held)
    after = _beside(order[::-1], held)
    targets: dict[str, int] = {}
    for uid in order:
        beside = [near for near in (before[uid], after[uid]) if near is not None]
        nearest = min(beside, key=lambda near: _apart(placed[uid], placed[near]))
        targets[uid] = held[nearest]
    return targets


def _beside(order: Sequence[str], held: Mapping[str, int]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    last = None
    for uid in order:
        if uid in held:
            last = uid
        found[uid] = last
    return found


def _apart(one: _Place, other: _Place) -> tuple[bool, int, bool]:
    return one[0] != other[0], distance(one[1], other[1]), one[2] != other[2]


def _nearest(free: list[int], target: int) -> int:
    """Take the free number nearest to the target, the lower of two."""
    at = bisect_left(free, target)
    if at == len(free) or (at > 0 and target - free[at - 1] <= free[at] - target):
        at -= 1
    return free.pop(at)


def first_topology(group: Group) -> str | None:
    """The topology of the gang, or the first that a part of it names."""
    if group.topology:
        return group.topology
    below = [pods.topology for pods in group.pods] + [first_topology(each) for each in group.groups]
    return next((name for name in below if name), None)
