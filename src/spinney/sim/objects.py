"""What the simulation reads of a cluster: parts of pods and nodes as slim frozen values, paths, times, and the caches.

Never written back: what is not named here would be lost. Conditions are kept whole, for they are shared lists. Every
view has to be asked for before the caches run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kube_apimachinery.times import seconds
from spinney.api.labels import PODCLIQUE
from spinney.drive.client.api import Selection
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import ResourcePath


def parse_time(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time."""
    return seconds(text) if text else None


PODS = ResourcePath("", "v1", "pods")
NODES = ResourcePath("", "v1", "nodes", namespaced=False)
NAMESPACES = ResourcePath("", "v1", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = ResourcePath("", "v1", "serviceaccounts")
CLAIMS = ResourcePath("", "v1", "persistentvolumeclaims")
VOLUMES = ResourcePath("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = ResourcePath("storage.k8s.io", "v1", "storageclasses", namespaced=False)
LEASES = ResourcePath("coordination.k8s.io", "v1", "leases")
JOBS = ResourcePath("batch", "v1", "jobs")
REPLICASETS = ResourcePath("apps", "v1", "replicasets")
DEPLOYMENTS = ResourcePath("apps", "v1", "deployments")
STATEFULSETS = ResourcePath("apps", "v1", "statefulsets")
BUDGETS = ResourcePath("policy", "v1", "poddisruptionbudgets")


Json = dict[str, Any]

START_DELAY = "spinney.dev/sim-start-delay"
RUN_SECONDS = "spinney.dev/sim-run-seconds"
EXIT_CODE = "spinney.dev/sim-exit-code"
FAIL = "spinney.dev/sim-fail"
STATE = "spinney.dev/sim-state"

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class Slim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of the read-only views: unknown fields are passed over, names are those of the API."""


class OwnerReference(Slim, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Slim, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Probe(Slim, frozen=True, gc=False, rename="camel"):
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1


class Resources(Slim, frozen=True, gc=False, rename="camel"):
    requests: dict[str, str | int | float] = {}


class Container(Slim, frozen=True, gc=False, rename="camel"):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    restart_policy: str = ""
    resources: Resources = Resources()
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None


class Toleration(Slim, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ReadinessGate(Slim, frozen=True, gc=False, rename="camel"):
    condition_type: str = ""


class SchedulingGate(Slim, frozen=True, gc=False, rename="camel"):
    name: str = ""


class PodSpec(Slim, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Json | None = None
    overhead: dict[str, str | int | float] = {}
    host_network: bool = False
    restart_policy: str = "Always"
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()


class Running(Slim, frozen=True, gc=False, rename="camel"):
    started_at: str | None = None


class ContainerState(Slim, frozen=True, gc=False, rename="camel"):
    running: Running | None = None


class ContainerStatus(Slim, frozen=True, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Slim, frozen=True, gc=False, rename="camel"):
    phase: str = "Pending"
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Json, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Slim, frozen=True, gc=False, rename="camel"):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    @property
    def ready(self) -> bool:
        return condition(self.status.conditions, "Ready") == "True"

    @property
    def leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


class NodeSpec(Slim, frozen=True, gc=False, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Json, ...] = ()


class Address(Slim, frozen=True, gc=False, rename="camel"):
    type: str = ""
    address: str = ""


class NodeStatus(Slim, frozen=True, gc=False, rename="camel"):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[Json, ...] = ()
    addresses: tuple[Address, ...] = ()


class Node(Slim, frozen=True, gc=False, rename="camel"):
    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> tuple[str, str]:
        return "", self.metadata.name


def condition(conditions: tuple[Json, ...], wanted: str) -> str:
    """The status of a condition, empty where there is none."""
    for each in conditions:
        if each.get("type") == wanted:
            return str(each.get("status", ""))
    return ""


def merged(conditions: tuple[Json, ...], ours: list[Json]) -> list[Json]:
    """Our conditions in place of those of the same type; those of others stay as they are."""
    by_type = {each["type"]: each for each in ours}
    kept = [by_type.pop(each.get("type", ""), each) for each in conditions]
    return [*kept, *by_type.values()]


KUBELET = "spinney.dev/kubelet"
"""The label of nodes that are not simulated."""


class Views:
    """The caches, by what they hold. Nodes with a real kubelet, where there may be any, are not in them."""

    def __init__(self, caches: SharedCaches, beside_kubelets: bool = False) -> None:
        self._caches = caches
        nodes = Selection(NODES, labels=f"!{KUBELET}") if beside_kubelets else Selection(NODES)
        self.nodes: Cache[Node] = caches.cache(nodes, Node)
        self.pods: Cache[Pod] = caches.cache(
            Selection(PODS),
            Pod,
            indexes={
                "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
                "owner": _owner_of_pod,
                "orphan": lambda pod: () if pod.metadata.owner_references else (pod.metadata.namespace,),
                "namespace": lambda pod: (pod.metadata.namespace,),
                "clique": _clique_keys,
            },
        )

    def of(self, resource: ResourcePath) -> Cache[Json]:
        """The view of any resource, with the indexes `owner` and `namespace`."""
        indexes = {"owner": _owner_of, "namespace": _namespace_of}
        return self._caches.cache(Selection(resource), dict, indexes=indexes)


def clique_key(namespace: str, clique: str) -> str:
    return f"{namespace}/{clique}"


def _clique_keys(pod: Pod) -> tuple[str, ...]:
    clique = pod.metadata.labels.get(PODCLIQUE)
    return (clique_key(pod.metadata.namespace, clique),) if clique else ()


def owned_by(owner: Json) -> str:
    """The key of the index `owner`."""
    return _owner_key(owner["metadata"].get("namespace", ""), owner["metadata"]["uid"])


def _owner_key(namespace: str, uid: str) -> str:
    """An object of another namespace that names the owner's uid is not owned by it."""
    return f"{namespace}/{uid}"


def _owner_of_pod(pod: Pod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (_owner_key(pod.metadata.namespace, owner.uid),) if owner is not None else ()


def _owner_of(obj: Json) -> tuple[str, ...]:
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return tuple(_owner_key(metadata.get("namespace", ""), owner["uid"]) for owner in owners if owner.get("controller"))


def _namespace_of(obj: Json) -> tuple[str, ...]:
    return (obj["metadata"].get("namespace", ""),)
