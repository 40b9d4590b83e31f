"""Splits a leaf of a gang into pod sets of equal pods: one, or a group of them if pods differ or are in segments.

Never loses a pod: each running or waiting pod is in exactly one pod set.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import Group, PodSet, Running
from spinney.core.scheduling.affinity.terms import AffinityTerms
from spinney.core.scheduling.amounts import zone_of
from spinney.core.scheduling.gang.members import Members
from spinney.core.scheduling.gang.pod_shape import PodShape
from spinney.core.scheduling.gang.ranks import Segmentation, assign_segments
from spinney.core.scheduling.gang.subgroup_tree import Constraint, SubGroupNode


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    """A live pod without a node and without scheduling gates; `key` is its namespace and name."""

    uid: str
    key: tuple[str, str]


class HeldPod(msgspec.Struct, frozen=True, gc=False):
    """A pod without a node that is not in the gang, and why."""

    uid: str
    key: tuple[str, str]
    reason: str


@dataclass(slots=True)
class GangMembership:
    """The pods of a gang by pod set, and those held with the reason.

    `short`: paths of parts with too few pods.
    """

    waiting: dict[str, tuple[WaitingPod, ...]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    segments: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, tuple[str, int]] = field(default_factory=dict)
    held: list[HeldPod] = field(default_factory=list)
    affinity_terms: dict[str, AffinityTerms] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)

    def hold(self, pods: Sequence[Pod], reason: str) -> None:
        self.held.extend([HeldPod(pod.metadata.uid, _key(pod), reason) for pod in pods])

    def enter(self, path: str, cell: _Cell) -> None:
        for pod in cell.running:
            self.members[pod.metadata.uid] = path
            self.running.append(Running(path, pod.spec.node_name, zone_of(pod)))
        for pod in cell.waiting:
            self.members[pod.metadata.uid] = path
        if cell.waiting:
            self.waiting[path] = tuple([_waiting(pod) for pod in cell.waiting])
            if cell.shape.affinity_terms:
                self.affinity_terms[path] = cell.shape.affinity_terms


@dataclass(slots=True)
class _Cell:
    """Pods of one shape in one segment; `min` of them must be placed."""

    shape: PodShape
    running: list[Pod] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    min: int = 0


def cut(
    leaf: SubGroupNode,
    members: Members,
    segmentation: Segmentation | None,
    shape_of: Callable[[Pod], PodShape],
    membership: GangMembership,
    returning: Container[str] = (),
) -> Group | PodSet:
    """Split a leaf. The minimum is assigned to running members first, then to waiting ones in order.

    `returning`: uids of replacements that are part of the minimum in any case.

    It includes running members and is never more than the existing pods: replacements arrive one by one.
    """
    segments = assign_segments(members.running, members.waiting, segmentation.size) if segmentation is not None else {}
    membership.segments.update(segments)
    membership.blocks.update({uid: (leaf.path, segment) for uid, segment in segments.items()})
    cells = _cells(leaf, members, segments, shape_of, returning)
    if segmentation is None:
        return _parts(leaf.name, leaf.path, leaf.constraint, cells.get(-1, []), membership)
    whole = leaf.constraint
    parts = [
        _parts(
            f"segment-{segment}", f"{leaf.path}/segment-{segment}", segmentation.constraint, cells[segment], membership
        )
        for segment in sorted(cells)
    ]
    return Group(
        leaf.name,
        groups=tuple([part for part in parts if isinstance(part, Group)]),
        pods=tuple([part for part in parts if isinstance(part, PodSet)]),
        topology=whole.topology,
        required=whole.required,
        preferred=whole.preferred,
    )


def _cells(
    leaf: SubGroupNode,
    members: Members,
    segments: dict[str, int],
    shape_of: Callable[[Pod], PodShape],
    returning: Container[str],
) -> dict[int, list[_Cell]]:
    """Cells by segment; without segments all are at -1."""
    found: dict[tuple[int, PodShape], _Cell] = {}
    left = members.needed(leaf.min_member)
    for pods, runs in ((members.running, True), (members.waiting, False)):
        for pod in pods:
            shape = shape_of(pod)
            if runs and shape.unsupported:
                shape = msgspec.structs.replace(shape, unsupported="")
            key = segments.get(pod.metadata.uid, -1), shape
            cell = found.get(key)
            if cell is None:
                cell = found[key] = _Cell(shape)
            (cell.running if runs else cell.waiting).append(pod)
            if left > 0 or pod.metadata.uid in returning:
                cell.min += 1
                left -= 1
    cells: dict[int, list[_Cell]] = {}
    for (segment, _), cell in found.items():
        cells.setdefault(segment, []).append(cell)
    return cells


def _parts(
    name: str, path: str, constraint: Constraint, cells: list[_Cell], membership: GangMembership
) -> Group | PodSet:
    if len(cells) == 1:
        membership.enter(path, cells[0])
        return _pod_set(name, cells[0], constraint)
    pods = []
    for index, cell in enumerate(cells):
        membership.enter(f"{path}/shape-{index}", cell)
        pods.append(_pod_set(f"shape-{index}", cell, _NO_CONSTRAINT))
    return Group(
        name,
        pods=tuple(pods),
        topology=constraint.topology,
        required=constraint.required,
        preferred=constraint.preferred,
    )


_NO_CONSTRAINT = Constraint()


def _pod_set(name: str, cell: _Cell, constraint: Constraint) -> PodSet:
    shape = cell.shape
    return PodSet(
        name=name,
        request=shape.request,
        count=len(cell.running) + len(cell.waiting),
        min=cell.min,
        filter=shape.filter,
        host_ports=shape.host_ports,
        anti_affinity=shape.anti_affinity,
        topology=constraint.topology,
        required=constraint.required,
        preferred=constraint.preferred,
        unsupported=shape.unsupported,
    )


def _waiting(pod: Pod) -> WaitingPod:
    return WaitingPod(pod.metadata.uid, _key(pod))


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
