"""Dynamic resource allocation: claims, slices of devices, classes.

Device attributes, capacities and requests stay opaque: they are judged by expressions, not by fields.
"""

from __future__ import annotations

from typing import Any

from spinney.api.builtin.selectors import NodeSelector
from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


class DeviceClaim(Slim, frozen=True):
    requests: tuple[dict[str, Any], ...] | None = ()  # a server says null where there are none
    constraints: tuple[dict[str, Any], ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class ResourceClaimSpec(Slim, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class AllocationResult(Slim, frozen=True):
    devices: dict[str, Any] | None = None
    node_selector: NodeSelector | None = None


class ResourceClaimConsumerReference(Slim, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Slim, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Slim, frozen=True):
    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourcePool(Slim, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Slim, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: tuple[dict[str, Any], ...] = ()


class ResourceSlice(Slim, frozen=True):
    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(Slim, frozen=True):
    selectors: tuple[dict[str, Any], ...] = ()


class DeviceClass(Slim, frozen=True):
    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()
