"""Nodes: what they offer, whom they keep away, whether they are well; the zones that an agent publishes for them."""

from __future__ import annotations

from msgspec import field

from spinney.api.builtin.selectors import Amounts
from spinney.api.meta import ObjectMeta, Slim

# NodeResourceTopology (`topology.node.k8s.io/v1alpha2`): the zones of a node, as an agent on it publishes them.

GROUP = "topology.node.k8s.io"
VERSION = "v1alpha2"
PLURAL = "noderesourcetopologies"

Quantity = str | int | float


class ZoneResource(Slim, frozen=True):
    """`available` is what pods with exclusive resources have left of `allocatable`, as of the last look."""

    name: str = ""
    capacity: Quantity = 0
    allocatable: Quantity = 0
    available: Quantity | None = None


class PublishedZone(Slim, frozen=True):
    name: str = ""
    type: str = ""  # Node for a NUMA node
    parent: str = ""
    resources: tuple[ZoneResource, ...] = ()


class Attribute(Slim, frozen=True):
    name: str = ""
    value: str = ""


class NodeResourceTopology(Slim, frozen=True):
    """Named like its node. `topology_policies` is the older way to say what an attribute says."""

    metadata: ObjectMeta
    topology_policies: tuple[str, ...] = ()
    zones: tuple[PublishedZone, ...] = ()
    attributes: tuple[Attribute, ...] = ()

    def attribute(self, name: str) -> str:
        return next((one.value for one in self.attributes if one.name == name), "")


class Taint(Slim, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Slim, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class NodeCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeAddress(Slim, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Slim, frozen=True):
    capacity: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Slim, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> NodeCondition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)


class VolumeNodeResources(Slim, frozen=True):
    count: int | None = None


class CSINodeDriver(Slim, frozen=True):
    """A storage driver on a node, and how many volumes it can attach."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Slim, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Slim, frozen=True):
    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()
