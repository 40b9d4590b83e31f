"""What pods claim: volumes, as far as they say where a pod can run, and devices."""

from __future__ import annotations

from typing import Any

from msgspec import field

from spinney.api.builtin.selectors import Amounts, NodeSelector
from spinney.api.meta import ObjectMeta, Slim

# Dynamic resource allocation: claims, slices of devices, classes.
#
# Device attributes, capacities and requests stay opaque: they are judged by expressions, not by fields.


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


class VolumeResourceRequirements(Slim, frozen=True):
    requests: Amounts = field(default_factory=dict)


class PersistentVolumeClaimSpec(Slim, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    resources: VolumeResourceRequirements = VolumeResourceRequirements()


class PersistentVolumeClaimStatus(Slim, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Slim, frozen=True):
    required: NodeSelector | None = None


class ClaimReference(Slim, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Slim, frozen=True):
    capacity: Amounts = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Slim, frozen=True):
    phase: str = ""


class PersistentVolume(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Slim, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Slim, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Slim, frozen=True):
    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
