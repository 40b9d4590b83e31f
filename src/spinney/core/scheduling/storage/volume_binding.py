"""The claims of pods that have their seats: which of them have to learn of the node, and which have their volume.

A claim that waits for its first consumer gets its volume only after a node is chosen; nobody is bound before that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.storage import PersistentVolumeClaim
from spinney.api.labels import PVC_SELECTED_NODE
from spinney.api.placement.problem import Node, NodeFilter
from spinney.core.inventory.filters import admits
from spinney.core.scheduling.storage.volumes import Volumes, claims_of, volume_terms


class SelectedNode(msgspec.Struct, frozen=True, gc=False):
    """A claim that has to learn of a node; None: it has to forget the one it knows."""

    claim: PersistentVolumeClaim
    node: str | None


class VolumeBinding(msgspec.Struct, frozen=True):
    """How it stands with the volumes of a plan. `awaited`: some are not there yet.

    `lost`: uids of pods that cannot have their volumes where they are seated.
    """

    marks: tuple[SelectedNode, ...] = ()
    awaited: bool = False
    lost: frozenset[str] = frozenset()


def has_claims(pod: Pod) -> bool:
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def bind_volumes(assignments: Iterable[tuple[Pod, Node]], volumes: Volumes) -> VolumeBinding:
    """What these pods need, each on its node. A claim that several share learns of the node of the first."""
    pairs = list(assignments)
    nodes = {node.name for _, node in pairs}
    marks: dict[tuple[str, str], SelectedNode] = {}
    lost: set[str] = set()
    awaited = False
    for pod, node in pairs:
        for name in claims_of(pod):
            key = (pod.metadata.namespace, name)
            claim = volumes.claim(*key)
            if claim is None or claim.metadata.deletion_timestamp is not None or not _may_use(claim, node, volumes):
                lost.add(pod.metadata.uid)
                continue
            awaited |= claim.status.phase != "Bound"
            selected = claim.metadata.annotations.get(PVC_SELECTED_NODE)
            if claim.spec.volume_name:
                continue
            if not selected:
                marks.setdefault(key, SelectedNode(claim, node.name))
            elif selected not in nodes:
                lost.add(pod.metadata.uid)
    return VolumeBinding(tuple(marks.values()), awaited, frozenset(lost))


def unselected(assignments: Iterable[tuple[Pod, str]], volumes: Volumes) -> tuple[SelectedNode, ...]:
    """Claims of pods that do not get their seats: such as still wait for a volume there may go elsewhere."""
    marks: dict[tuple[str, str], SelectedNode] = {}
    for pod, node in assignments:
        for name in claims_of(pod):
            claim = volumes.claim(pod.metadata.namespace, name)
            if claim is None or claim.spec.volume_name:
                continue
            if claim.metadata.annotations.get(PVC_SELECTED_NODE) == node:
                marks[pod.metadata.namespace, name] = SelectedNode(claim, None)
    return tuple(marks.values())


def _may_use(claim: PersistentVolumeClaim, node: Node, volumes: Volumes) -> bool:
    """Whether the volume of the claim, if it has one, can be used from the node."""
    terms = volume_terms(claim, volumes)
    if terms is None:
        return True
    there = msgspec.structs.replace(node, taints=(), unschedulable=False, ready=True, zones=())
    return admits(NodeFilter(required=terms), there)
