"""Nodes: what they offer, whom they keep away, whether they are well."""

from __future__ import annotations

from msgspec import field

from spinney.api.builtin.selectors import Amounts
from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


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
