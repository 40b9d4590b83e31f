"""NodeResourceTopology (`topology.node.k8s.io/v1alpha2`): the zones of a node, as an agent on it publishes them."""

from __future__ import annotations

from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta

GROUP = "topology.node.k8s.io"
VERSION = "v1alpha2"
KIND = "NodeResourceTopology"
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
