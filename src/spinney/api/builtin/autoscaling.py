"""Autoscalers that the operator makes for cliques and scaling groups."""

from __future__ import annotations

from typing import Any

from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


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
