"""The volume claims of pods with assignments: which need the selected node annotation, and which have their volume.

A claim that waits for its first consumer gets its volume only after a node is selected; no pod is bound before that.
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
    """A claim and the node to write as its selected node; None: remove it."""

    claim: PersistentVolumeClaim
    node: str | None


class VolumeBinding(msgspec.Struct, frozen=True):
    """The state of a plan's volumes. `awaited`: some are not bound yet.

    `lost`: uids of pods that cannot use their volumes on the assigned node.
    """

    marks: tuple[SelectedNode, ...] = ()
    awaited: bool = False
    lost: frozenset[str] = frozenset()


def has_claims(pod: Pod) -> bool:
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def bind_volumes(assignments: Iterable[tuple[Pod, Node]], volumes: Volumes) -> VolumeBinding:
    """What these pods need, each on its node. A claim that several pods share gets the node of the first."""
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
    """Claims of pods that do not get their assignment: those still without a volume may go elsewhere."""
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
    """Whether the claim's volume, if it has one, can be used from the node."""
    terms = volume_terms(claim, volumes)
    if terms is None:
        return True
    there = msgspec.structs.replace(node, taints=(), unschedulable=False, ready=True, zones=())
    return admits(NodeFilter(required=terms), there)
