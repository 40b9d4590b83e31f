"""Priorities, disruption budgets, and quotas as far as they are about priorities."""

from __future__ import annotations

from spinney.api.builtin.selectors import LabelSelector
from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


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
