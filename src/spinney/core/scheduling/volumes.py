"""The nodes that a pod's volumes and resource claims allow, and the claims that need the selected node at bind.

Never picks a volume for a claim: a claim is bound already, or its provisioner creates a volume for the selected node.
A claim that waits for its first consumer gets its volume only after a node is selected; no pod is bound before that.
Never allocates a resource claim: a pod goes where its claims are already allocated, or it waits with a reason (K8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from spinney.api.builtin.claims import (
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    StorageClass,
    TopologySelectorTerm,
)
from spinney.api.builtin.pod import Pod, PodResourceClaim
from spinney.api.builtin.selectors import NodeSelector
from spinney.api.labels import PVC_SELECTED_NODE
from spinney.api.placement.problem import Node, NodeFilter, NodeTerm, Term
from spinney.core.inventory.filters import admits
from spinney.core.scheduling.gang.pod_shape import node_term

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
FOR_ONE_POD = "ReadWriteOncePod"
MOST_TERMS = 512

Terms = tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class Volumes:
    """Lookups in the caches: claims by namespace and name, volumes and storage classes by name.

    `users`: the pods that name a claim.
    """

    claim: Callable[[str, str], PersistentVolumeClaim | None]
    volume: Callable[[str], PersistentVolume | None]
    storage_class: Callable[[str], StorageClass | None]
    users: Callable[[str, str], Iterable[Pod]] = lambda _, __: ()


NO_VOLUMES = Volumes(lambda _, __: None, lambda _: None, lambda _: None)


class Reach(msgspec.Struct, frozen=True, gc=False):
    """The restrictions by the claims of a pod. `required`: all entries must hold, each by any one of its terms.

    `waits`: a sentence if the pod cannot be placed yet. `to_mark`: claims that get the selected node annotation at
    bind, so that their provisioner starts.
    """

    required: tuple[Terms, ...] = ()
    waits: str = ""
    to_mark: tuple[str, ...] = ()


ANYWHERE = Reach()


def reach(pod: Pod, volumes: Volumes) -> Reach:
    if not pod.spec.volumes:
        return ANYWHERE
    required: list[Terms] = []
    to_mark: list[str] = []
    for name, ephemeral in _claims(pod):
        claim = volumes.claim(pod.metadata.namespace, name)
        one = _of_claim(name, claim, ephemeral, pod, volumes)
        if one.waits:
            return one
        required.extend(terms for terms in one.required if terms not in required)
        to_mark.extend(one.to_mark)
    return Reach(tuple(required), to_mark=tuple(to_mark))


@lru_cache(maxsize=4096)
def narrowed(wanted: NodeFilter, required: tuple[Terms, ...]) -> NodeFilter | None:
    """The conjunction of the filter and all the others; None: too many combinations to write down.

    A node has to meet one term of each list, so the terms of the result are all their combinations.
    """
    combined = wanted.required
    for terms in required:
        if combined is not None and len(combined) * len(terms) > MOST_TERMS:
            return None
        combined = terms if combined is None else _product(combined, terms)
    return msgspec.structs.replace(wanted, required=combined)


def _product(some: Terms, others: Terms) -> Terms:
    """A term without requirements never matches, and neither does any combination with it."""
    pairs = ((mine, other) for mine in some if not _is_empty(mine) for other in others if not _is_empty(other))
    return tuple(dict.fromkeys(_both(mine, other) for mine, other in pairs))


def _both(mine: NodeTerm, other: NodeTerm) -> NodeTerm:
    expressions = dict.fromkeys((*mine.expressions, *other.expressions))
    return NodeTerm(tuple(expressions), tuple(dict.fromkeys((*mine.fields, *other.fields))))


def _is_empty(term: NodeTerm) -> bool:
    return not term.expressions and not term.fields


def claims_of(pod: Pod) -> Iterator[str]:
    """The names of its claims, in its own namespace."""
    return (name for name, _ in _claims(pod))


def is_for_one_pod(claim: PersistentVolumeClaim | None) -> bool:
    """Whether only one pod at a time may use it."""
    return claim is not None and FOR_ONE_POD in claim.spec.access_modes


def volume_terms(claim: PersistentVolumeClaim, volumes: Volumes) -> Terms | None:
    """The node terms of the claim's volume; None: it can be used from any node, or there is no volume yet."""
    volume = volumes.volume(claim.spec.volume_name) if claim.spec.volume_name else None
    affinity = volume.spec.node_affinity if volume is not None else None
    return _terms(affinity.required) if affinity is not None and affinity.required is not None else None


def _claims(pod: Pod) -> Iterator[tuple[str, bool]]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def _of_claim(name: str, claim: PersistentVolumeClaim | None, ephemeral: bool, pod: Pod, volumes: Volumes) -> Reach:
    if claim is None:
        what = "waiting for ephemeral volume controller to create the " if ephemeral else ""
        return Reach(waits=f'{what}persistentvolumeclaim "{name}"' + ("" if ephemeral else " not found"))
    if claim.metadata.deletion_timestamp is not None:
        return Reach(waits=f'persistentvolumeclaim "{name}" is being deleted')
    if claim.status.phase == "Lost":
        return Reach(waits=f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume')
    owner = claim.metadata.controller
    if ephemeral and (owner is None or owner.uid != pod.metadata.uid):
        return Reach(waits=f'persistentvolumeclaim "{name}" was not created for pod "{pod.metadata.name}"')
    if is_for_one_pod(claim) and _is_taken(claim, pod, volumes):
        return Reach(waits=f'persistentvolumeclaim "{name}" is used by another pod and has access mode {FOR_ONE_POD}')
    return _bound(claim, volumes) if claim.spec.volume_name else _unbound(claim, volumes)


def _is_taken(claim: PersistentVolumeClaim, pod: Pod, volumes: Volumes) -> bool:
    """By a pod with a node, or by the first of those that could get one."""
    users = volumes.users(claim.metadata.namespace, claim.metadata.name)
    others = [each for each in users if each.metadata.uid != pod.metadata.uid and not each.is_over]
    return any(each.spec.node_name or (_may_go(each) and each.metadata.name < pod.metadata.name) for each in others)


def _may_go(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.scheduling_gates


def _bound(claim: PersistentVolumeClaim, volumes: Volumes) -> Reach:
    volume = volumes.volume(claim.spec.volume_name)
    if volume is None:
        return Reach(waits=f'persistentvolume "{claim.spec.volume_name}" not found')
    if claim.status.phase != "Bound":
        return Reach(waits=UNBOUND_IMMEDIATE)
    terms = volume_terms(claim, volumes)
    return ANYWHERE if terms is None else Reach((terms,))


def _unbound(claim: PersistentVolumeClaim, volumes: Volumes) -> Reach:
    class_name = claim.spec.storage_class_name or ""
    storage_class = volumes.storage_class(class_name) if class_name else None
    if class_name and storage_class is None:
        return Reach(waits=f'storageclass.storage.k8s.io "{class_name}" not found')
    if storage_class is None or storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return Reach(waits=UNBOUND_IMMEDIATE)
    if storage_class.provisioner == NO_PROVISIONER:
        return Reach(
            waits=f'persistentvolumeclaim "{claim.metadata.name}" can not be honoured: storage class "{class_name}" '
            "has no provisioner, and its volumes are not matched with claims"
        )
    selected = claim.metadata.annotations.get(PVC_SELECTED_NODE)
    if selected:
        return Reach(((NodeTerm(fields=(Term("metadata.name", "In", (selected,)),)),),))
    allowed = storage_class.allowed_topologies
    required = (tuple(map(_allowed, allowed)),) if allowed else ()
    return Reach(required, to_mark=(claim.metadata.name,))


def _terms(selector: NodeSelector) -> Terms:
    return tuple(map(node_term, selector.node_selector_terms))


def _allowed(term: TopologySelectorTerm) -> NodeTerm:
    return NodeTerm(tuple([Term(one.key, "In", one.values) for one in term.match_label_expressions]))


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


ClaimLookup = Callable[[str, str], ResourceClaim | None]
"""A ResourceClaim by namespace and name."""


def claims_reach(pod: Pod, claim: ClaimLookup) -> Reach:
    """`waits` is a sentence that names the first claim that is not allocated."""
    required = []
    for asked in pod.spec.resource_claims:
        field = f"resourceClaims[{asked.name}]"
        name = _claim_name(pod, asked)
        if name is None:
            return Reach(waits=f"{field} can not be honoured: its ResourceClaim is not created yet")
        if not name:
            continue
        found = claim(pod.metadata.namespace, name)
        if found is None or found.status.allocation is None:
            state = "does not exist" if found is None else "is not allocated"
            return Reach(waits=f"{field} can not be honoured: ResourceClaim {name} {state}")
        selector = found.status.allocation.node_selector
        if selector is not None:
            required.append(tuple(map(node_term, selector.node_selector_terms)))
    return Reach(tuple(required)) if required else ANYWHERE


def _claim_name(pod: Pod, asked: PodResourceClaim) -> str | None:
    """The name of the claim; "": none is needed, None: it is not created yet."""
    if asked.resource_claim_name:
        return asked.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == asked.name:
            return status.resource_claim_name or ""
    return None
