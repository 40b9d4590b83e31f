"""Workloads of Kubernetes' own: Jobs, as the pod-grouper reads them, and the autoscalers that the operator makes."""

from __future__ import annotations

from typing import Any

from spinney.api.builtin.selectors import LabelSelector
from spinney.api.meta import ObjectMeta, Slim


class JobSpec(Slim, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool = False
    backoff_limit: int | None = None
    selector: LabelSelector | None = None


class JobCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class JobStatus(Slim, frozen=True):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[JobCondition, ...] = ()


class Job(Slim, frozen=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CrossVersionObjectReference(Slim, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(Slim, frozen=True):
    """The metrics stay as the user wrote them."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[dict[str, Any], ...] = ()


class HorizontalPodAutoscaler(Slim, frozen=True):
    metadata: ObjectMeta
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
