"""Volumes, as far as they say where a pod can run."""

from __future__ import annotations

from msgspec import field

from spinney.api.builtin.selectors import Amounts, NodeSelector
from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


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
