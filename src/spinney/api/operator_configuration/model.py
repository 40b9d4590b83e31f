"""OperatorConfiguration as values, with the defaults of every field.

Durations stay texts here (`15s`); they have been judged when a configuration exists.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct, convert, field

from kube_apimachinery.duration import seconds
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.clustertopology import TopologyLevel
from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.roles.catalog import WEBHOOK_CERTIFICATES

API_VERSION = "operator.config.grove.io/v1alpha1"
KIND = "OperatorConfiguration"
_QPS, _BURST = 100.0, 120


class Part(Struct, frozen=True, rename="camel", kw_only=True):
    """A part of the file."""

    DURATIONS: ClassVar[tuple[str, ...]] = ()
    PORTS: ClassVar[tuple[str, ...]] = ()
    POSITIVE: ClassVar[tuple[str, ...]] = ()


class ClientConnection(Part, frozen=True):
    """Without `qps` and `burst` nothing is limited; with one of them the other has upstream's default."""

    qps: float | None = None
    burst: int | None = None
    content_type: str = ""
    accept_content_types: str = ""

    @property
    def limit(self) -> tuple[float, int] | None:
        """Requests in a second, and how many at once; None: as many as there are."""
        if (self.qps is None and self.burst is None) or (self.qps is not None and self.qps < 0):
            return None
        return _QPS if self.qps is None else self.qps, max(1, _BURST if self.burst is None else self.burst)


class LeaderElection(Part, frozen=True):
    """A role may have durations of its own; where the file gives one of them, the file's and these defaults count."""

    DURATIONS: ClassVar = ("lease_duration", "renew_deadline", "retry_period")

    enabled: bool = False
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str = "leases"
    resource_name: str = "grove-operator-leader-election"
    resource_namespace: str = ""

    @property
    def gives_durations(self) -> bool:
        return any(each is not None for each in (self.lease_duration, self.renew_deadline, self.retry_period))

    @property
    def lease_duration_s(self) -> float:
        return seconds(self.lease_duration or "15s")

    @property
    def renew_deadline_s(self) -> float:
        return seconds(self.renew_deadline or "10s")

    @property
    def retry_period_s(self) -> float:
        return seconds(self.retry_period or "2s")


class Webhooks(Part, frozen=True):
    PORTS: ClassVar = ("port",)

    bind_address: str = ""
    port: int = 2750
    server_cert_dir: str = "/etc/grove-operator/webhook-certs"
    secret_name: str = WEBHOOK_CERTIFICATES
    cert_provision_mode: Literal["auto", "manual"] = "auto"


class HealthProbes(Part, frozen=True):
    PORTS: ClassVar = ("port",)

    bind_address: str = ""
    port: int = 2751


class Metrics(Part, frozen=True):
    PORTS: ClassVar = ("port",)

    bind_address: str = ""
    port: int = 2752


class Server(Part, frozen=True):
    webhooks: Webhooks = Webhooks()
    health_probes: HealthProbes = HealthProbes()
    metrics: Metrics = Metrics()


class Debugging(Part, frozen=True):
    PORTS: ClassVar = ("pprof_bind_port",)

    enable_profiling: bool = False
    pprof_bind_host: str = "127.0.0.1"
    pprof_bind_port: int = 2753


class PodCliqueSetController(Part, frozen=True):
    POSITIVE: ClassVar = ("concurrent_syncs",)

    concurrent_syncs: int = 10


class PodCliqueController(Part, frozen=True):
    POSITIVE: ClassVar = ("concurrent_syncs",)

    concurrent_syncs: int = 10


class ScalingGroupController(Part, frozen=True):
    POSITIVE: ClassVar = ("concurrent_syncs",)

    concurrent_syncs: int = 5


class PodGangController(Part, frozen=True):
    POSITIVE: ClassVar = ("concurrent_syncs",)

    concurrent_syncs: int = 5


class Controllers(Part, frozen=True):
    pod_clique_set: PodCliqueSetController = PodCliqueSetController()
    pod_clique: PodCliqueController = PodCliqueController()
    pod_clique_scaling_group: ScalingGroupController = ScalingGroupController()
    pod_gang: PodGangController = PodGangController()


class Authorizer(Part, frozen=True):
    enabled: bool = False
    exempt_service_account_user_names: tuple[str, ...] = ()


class TopologyAwareScheduling(Part, frozen=True):
    """The default topology is written by the operator from these levels."""

    enabled: bool = False
    levels: tuple[TopologyLevel, ...] = ()
    auto_preferred: Literal["Never", "Constrained", "Always"] = "Constrained"
    protect_used: bool = True


class Topology(Part, frozen=True):
    """The first design's form: an existing topology is the default one."""

    enabled: bool = False
    name: str = DEFAULT_TOPOLOGY


class Network(Part, frozen=True):
    auto_mnnvl_enabled: bool = field(default=False, name="autoMNNVLEnabled")


Strategy = Literal["binpack", "spread"]


class PlacementStrategy(Part, frozen=True):
    """How best fit chooses among domains and nodes: for gangs that ask for GPUs or the like, and for all others."""

    gpu: Strategy = "binpack"
    cpu: Strategy = "binpack"

    @classmethod
    def both(cls, strategy: Strategy) -> PlacementStrategy:
        return cls(strategy, strategy)


class Consolidation(Part, frozen=True):
    """What the scheduler may move for a gang that fits nowhere; without `enabled`: unless a strategy is spread."""

    enabled: bool | None = None
    max_moves: int = 16
    max_gpus: int = field(default=64, name="maxGPUs")
    every_seconds: int = 60


class KaiConfig(Part, frozen=True):
    create_topology_resources: bool = True
    numa: bool = True
    placement_strategy: PlacementStrategy = PlacementStrategy()
    require_queue: bool = False
    consolidation: Consolidation = Consolidation()


class Profile(Part, frozen=True):
    """A scheduler back-end that workloads may use; `config` is the back-end's own."""

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    default: bool = False

    @property
    def kai(self) -> KaiConfig:
        """The configuration of the KAI back-end; its defaults for every other one."""
        given = self.config if self.name == SCHEDULER_KAI else {}
        return KaiConfig(
            create_topology_resources=given.get("createTopologyResources") is not False,
            numa=given.get("numa") is not False,
            placement_strategy=convert(given.get("placementStrategy") or {}, PlacementStrategy),
            require_queue=given.get("requireQueue") is True,
            consolidation=convert(given.get("consolidation") or {}, Consolidation),
        )


class Scheduler(Part, frozen=True):
    profiles: tuple[Profile, ...] = ()
    default_profile_name: str = ""


class OperatorConfiguration(Part, frozen=True):
    """The whole file. Read once, at start (C7)."""

    api_version: str = API_VERSION
    kind: str = KIND
    runtime_client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    server: Server = Server()
    debugging: Debugging = Debugging()
    controllers: Controllers = Controllers()
    log_level: Literal["debug", "info", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    authorizer: Authorizer = Authorizer()
    topology_aware_scheduling: TopologyAwareScheduling = TopologyAwareScheduling()
    topology: Topology | None = None
    network: Network = Network()
    scheduler: Scheduler = Scheduler()

    @property
    def topology_enabled(self) -> bool:
        return self.topology.enabled if self.topology else self.topology_aware_scheduling.enabled

    @property
    def default_topology(self) -> str:
        return self.topology.name if self.topology else DEFAULT_TOPOLOGY

    @property
    def writes_default_topology(self) -> bool:
        """Whether the default topology is the operator's to write (C3), not an admin's (C6), and not missing."""
        return self.topology is None and (bool(self.topology_aware_scheduling.levels) or not self.topology_enabled)

    @property
    def default_profile(self) -> str:
        """The back-end of workloads that name none."""
        marked = next((profile.name for profile in self.scheduler.profiles if profile.default), "")
        return marked or self.scheduler.default_profile_name or SCHEDULER_DEFAULT

    def profile(self, name: str) -> Profile | None:
        return next((profile for profile in self.scheduler.profiles if profile.name == name), None)
