"""Pods: what they ask for, where they may go, where they are and how they are.

Never grows a field that nobody reads: there are a hundred thousand pods, and every field is decoded with every change.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import force_setattr

from spinney.api.builtin.selectors import Amounts, LabelSelector, NodeSelector, NodeSelectorTerm
from spinney.api.meta import ObjectMeta, Slim

# Words that nearly all pods share: each is kept once, not once for every pod and change.
#
# Never refuses a word that a newer server sends: it is learned. Never differs from the plain string it stands for.


class _InternedWord(StrEnum):
    """The decoder gives the one member instead of a new string, and asks `_missing_` for a word it does not know."""

    __repr__ = str.__repr__

    @staticmethod
    def _generate_next_value_(name: str, *_: Any) -> str:
        return name

    @classmethod
    def _missing_(cls, value: object) -> _InternedWord:
        return _interned(cls, str(value))


@lru_cache(maxsize=1024)
def _interned(words: type[_InternedWord], value: str) -> _InternedWord:
    word = str.__new__(words, value)
    word._name_ = word._value_ = value
    return word


if TYPE_CHECKING:  # strings to whoever reads or makes them
    ConditionStatus = str
    ConditionType = str
    Phase = str
    PreemptionPolicy = str
    TaintEffect = str
    TolerationOperator = str
else:
    ConditionStatus = _InternedWord("ConditionStatus", "True False Unknown", module=__name__)
    ConditionType = _InternedWord(
        "ConditionType",
        "Ready ContainersReady Initialized PodScheduled PodReadyToStartContainers DisruptionTarget",
        module=__name__,
    )
    Phase = _InternedWord("Phase", "Pending Running Succeeded Failed Unknown", module=__name__)
    PreemptionPolicy = _InternedWord("PreemptionPolicy", "PreemptLowerPriority Never", module=__name__)
    TaintEffect = _InternedWord("TaintEffect", "NoSchedule PreferNoSchedule NoExecute", module=__name__)
    TolerationOperator = _InternedWord("TolerationOperator", "Equal Exists", module=__name__)


class ClaimName(Slim, frozen=True):
    """A resource claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Slim, frozen=True):
    """What is asked for. Limits are not read: a server copies those without a request into the requests."""

    requests: Amounts = field(default_factory=dict)
    claims: tuple[ClaimName, ...] = ()


class ContainerPort(Slim, frozen=True):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")
    name: str = ""


class ConfigMapReference(Slim, frozen=True):
    name: str = ""
    optional: bool | None = None


class EnvVarSource(Slim, frozen=True):
    config_map_key_ref: ConfigMapReference | None = None


class EnvVar(Slim, frozen=True):
    value_from: EnvVarSource | None = None


class EnvFromSource(Slim, frozen=True):
    config_map_ref: ConfigMapReference | None = None


class VolumeMount(Slim, frozen=True):
    name: str = ""


class Container(Slim, frozen=True):
    """A container or init container; `restart_policy` Always marks a sidecar.

    `env`, `env_from` and `volume_mounts` are empty in a pod: `PodSpec.config_maps` has what is read of them.
    """

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class Toleration(Slim, frozen=True):
    key: str = ""
    operator: TolerationOperator = "Equal"
    value: str = ""
    effect: TaintEffect = ""


class PreferredSchedulingTerm(Slim, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Slim, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Slim, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Slim, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Slim, frozen=True):
    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAntiAffinity(Slim, frozen=True):
    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Slim, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Slim, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


class PodSchedulingGate(Slim, frozen=True):
    name: str = ""


class PersistentVolumeClaimVolumeSource(Slim, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Slim, frozen=True):
    """A claim made for the pod, named `<pod>-<volume>`; its template is not read."""


class ProjectedSource(Slim, frozen=True):
    config_map: ConfigMapReference | None = None


class ProjectedVolumeSource(Slim, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()


class Volume(Slim, frozen=True):
    """`config_map` and `projected` are None in a pod: `PodSpec.config_maps` has what is read of them."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    config_map: ConfigMapReference | None = None
    projected: ProjectedVolumeSource | None = None


class PodResourceClaim(Slim, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Slim, frozen=True):
    """`config_maps`: the names of the ConfigMaps without which it does not start, each with the field that names it."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: PreemptionPolicy | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Amounts | None = None
    resources: ResourceRequirements | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    config_maps: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Environments and mounts are long and read for one thing only: they are not kept."""
        named = {ref.name: where for where, ref in _config_maps(self) if not ref.optional and ref.name != ROOT_CA}
        if named:
            force_setattr(self, "config_maps", named)
        for container in (*self.containers, *self.init_containers):
            for emptied in ("env", "env_from", "volume_mounts"):
                force_setattr(container, emptied, ())
        for volume in self.volumes:
            force_setattr(volume, "config_map", None)
            force_setattr(volume, "projected", None)


ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap that Kubernetes makes in every namespace; nearly all pods have it, by their service account token."""


def _config_maps(spec: PodSpec) -> Iterator[tuple[str, ConfigMapReference]]:
    """A volume that no container mounts is not set up."""
    mounted: set[str] = set()
    for container in (*spec.init_containers, *spec.containers):
        mounted.update([mount.name for mount in container.volume_mounts])
        for env in container.env:
            if env.value_from is not None and env.value_from.config_map_key_ref is not None:
                yield f"containers[{container.name}].env", env.value_from.config_map_key_ref
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield f"containers[{container.name}].envFrom", source.config_map_ref
    for volume in spec.volumes:
        if volume.name in mounted:
            projected = volume.projected.sources if volume.projected is not None else ()
            for ref in (volume.config_map, *[each.config_map for each in projected]):
                if ref is not None:
                    yield f"volumes[{volume.name}]", ref


class PodCondition(Slim, frozen=True):
    type: ConditionType = ""
    status: ConditionStatus = ""
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Slim, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Slim, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class ContainerState(Slim, frozen=True):
    """Why a container does not run; empty for one that does."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Slim, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodResourceClaimStatus(Slim, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Slim, frozen=True):
    phase: Phase = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """It has run to its end, well or not, and holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_here(self) -> bool:
        """Neither leaving nor at its end."""
        return self.metadata.deletion_timestamp is None and not self.is_over

    def condition(self, kind: str) -> PodCondition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)
