"""What surrounds the pods: namespaces, services, leases, events, configuration, priorities, budgets, quotas."""

from __future__ import annotations

from msgspec import field

from spinney.api.builtin.selectors import LabelSelector
from spinney.api.meta import ObjectMeta, Slim

# Priorities, disruption budgets, and quotas as far as they are about priorities.


class PriorityClass(Slim, frozen=True):
    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class PodDisruptionBudgetSpec(Slim, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Slim, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class ScopeExpression(Slim, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Slim, frozen=True):
    match_expressions: tuple[ScopeExpression, ...] = ()


class ResourceQuotaSpec(Slim, frozen=True):
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuota(Slim, frozen=True):
    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class NamespaceStatus(Slim, frozen=True):
    phase: str = ""


class Namespace(Slim, frozen=True):
    metadata: ObjectMeta
    status: NamespaceStatus = NamespaceStatus()


class ObjectName(Slim, frozen=True):
    """The least that a cache has to know of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ConfigMap(Slim, frozen=True):
    """Only that it exists: neither its content nor its annotations, which may repeat the content, are cached."""

    metadata: ObjectName


class Secret(Slim, frozen=True):
    """Only that it exists and of which type; its content is never cached."""

    metadata: ObjectMeta
    type: str = ""


class ServiceAccount(Slim, frozen=True):
    metadata: ObjectMeta


class ServicePort(Slim, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(Slim, frozen=True):
    cluster_ip: str = field(default="", name="clusterIP")
    selector: dict[str, str] = field(default_factory=dict)
    publish_not_ready_addresses: bool = False
    ports: tuple[ServicePort, ...] = ()
    type: str = ""


class Service(Slim, frozen=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class LeaseSpec(Slim, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class Lease(Slim, frozen=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Slim, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Slim, frozen=True):
    component: str = ""
    host: str = ""


class Event(Slim, frozen=True):
    """A v1 Event, old and new style together."""

    metadata: ObjectMeta
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
