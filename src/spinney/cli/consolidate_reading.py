"""The cluster read for a survey of moves, and requests written: an annotation on the PodGroups of gangs that wait."""

from __future__ import annotations

from typing import TypeVar

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.policy import PodDisruptionBudget, PriorityClass
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.topology import Topology
from spinney.api.labels import CONSOLIDATE
from spinney.api.placement.problem import Consolidate
from spinney.cli.consolidate_survey import Objects, Offer
from spinney.core.scheduling.consolidation import request
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ConfigError, NotFound, Undecodable
from spinney.drive.client.paths import ResourcePath
from spinney.drive.client.unreadable import Complaint
from spinney.drive.loop.scheduler.views import (
    BUDGETS,
    CLUSTER_TOPOLOGIES,
    NODES,
    PODGROUPS,
    PODS,
    PRIORITY_CLASSES,
    TOPOLOGIES,
)

T = TypeVar("T")


async def read_objects(client: ApiClient, gang: str = "") -> Objects:
    """Everything that a survey looks at. Raises ClientError where it, or the gang asked for, cannot be read."""
    try:
        groups = await client.list(Selection(PODGROUPS), PodGroup)
    except NotFound:
        served = f"{PodGroup.PLURAL}.{PodGroup.GROUP}"
        raise ConfigError(f"the cluster does not serve {served}: apply `spinney manifests crds` first") from None
    asked = next((thing for thing in groups.broken if "/".join(thing.key) == gang), None)
    if asked is not None:
        raise Undecodable(str(Complaint(PODGROUPS, asked)))
    pods = await client.list(Selection(PODS), Pod)
    return Objects(
        nodes=await _all(client, NODES, Node),
        pods=pods.items,
        unreadable_pods=pods.broken,
        groups=groups.items,
        classes=await _all(client, PRIORITY_CLASSES, PriorityClass),
        budgets=await _all(client, BUDGETS, PodDisruptionBudget),
        topologies=await _all(client, TOPOLOGIES, Topology),
        cluster_topologies=await _all(client, CLUSTER_TOPOLOGIES, ClusterTopology),
    )


async def ask_for(door: Door, offer: Offer, limits: Consolidate) -> None:
    """The scheduler makes the moves, as they are best when it does. Raises ClientError where that is refused."""
    group = offer.group
    body = {"metadata": {"annotations": {CONSOLIDATE: request(limits)}}}
    written(await door.merge_patch(PODGROUPS.ref(group.name, group.namespace), body, Precondition(group.uid)))


async def _all(client: ApiClient, path: ResourcePath, kind: type[T]) -> tuple[T, ...]:
    """None where the server does not know the kind."""
    try:
        return (await client.list(Selection(path), kind)).items
    except NotFound:
        return ()
