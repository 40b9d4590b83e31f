"""HorizontalPodAutoscalers: kept as autoscaling/v2, also shown as autoscaling/v1.

What v1 has no field for travels in annotations, as in Kubernetes.
"""

from __future__ import annotations

import json
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, UNKNOWN, UNSET, cell, table
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.decode import conform

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_COMPONENTS = {
    "autoscaling/v1": "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
    "autoscaling/v2": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
}
_SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _cpu_metric(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _default(scaler: Object) -> None:
    spec = scaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu_metric(80)]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = {**_SCALE_UP, **behavior.get("scaleUp", {})}
        behavior["scaleDown"] = {**_SCALE_DOWN, **behavior.get("scaleDown", {})}


def _default_v1(scaler: Object) -> None:
    """What v2 would default, as far as v1 can show it."""
    scaler["spec"].setdefault("minReplicas", 1)
    annotated = _METRICS in (scaler["metadata"].get("annotations") or {})
    if not annotated:
        scaler["spec"].setdefault("targetCPUUtilizationPercentage", 80)


def _check(scaler: Object) -> list[FieldError]:
    spec = scaler["spec"]
    low, high = spec["minReplicas"], spec.get("maxReplicas", 0)
    errors: list[FieldError] = []
    if low < 1:
        errors.append(invalid("spec.minReplicas", low, "must be greater than or equal to 1"))
    if high < 1:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    if high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    target = spec["scaleTargetRef"]
    for name in ("kind", "name"):
        if not target.get(name):
            errors.append(required(f"spec.scaleTargetRef.{name}"))
    version = target.get("apiVersion", "")
    if "/" not in version and target.get("kind") != "ReplicationController":
        errors.append(invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _target_cell(scaler: Object) -> str:
    target = scaler["spec"]["scaleTargetRef"]
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics_cell(scaler: Object) -> str:
    scaler = to_v2(scaler) if scaler["apiVersion"] == "autoscaling/v1" else scaler
    metrics = scaler["spec"].get("metrics") or []
    current = (scaler.get("status") or {}).get("currentMetrics") or []
    if not metrics:
        return NONE
    shown = [_metric_cell(one, current[at] if at < len(current) else {}) for at, one in enumerate(metrics)]
    text = ", ".join(shown[:2])
    return f"{text} + {len(shown) - 2} more..." if len(shown) > 2 else text


def _metric_cell(metric: Object, current: Object) -> str:
    field = _SOURCES.get(metric.get("type", ""), "")
    source, now = metric.get(field) or {}, (current.get(field) or {}).get("current") or {}
    target = source.get("target") or {}
    prefix = f"{source.get('name', '')}: " if field in ("resource", "containerResource") else ""
    if "averageValue" in target:
        suffix = " (avg)" if field in ("external", "object") else ""
        return f"{prefix}{now.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    if prefix:
        percent = f"{now['averageUtilization']}%" if "averageUtilization" in now else UNKNOWN
        wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
        return f"{prefix}{percent}/{wanted}"
    return f"{now.get('value', UNKNOWN)}/{target.get('value', '0')}"


def convert(scaler: Object, version: str) -> Object:
    """The autoscaler in the version that is asked for."""
    return to_v2(scaler) if version == "autoscaling/v2" else from_v2(scaler)


def to_v2(scaler: Object) -> Object:
    """An autoscaling/v1 autoscaler as v2 keeps it."""
    meta = dict(scaler["metadata"])
    annotations = dict(meta.get("annotations") or {})
    spec, status = dict(scaler["spec"]), dict(scaler.get("status") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _read(annotations, _METRICS, [])
    spec["metrics"] = ([] if percent is None else [_cpu_metric(percent)]) + metrics
    behavior = _read(annotations, _BEHAVIOR, None)
    if behavior:
        spec["behavior"] = behavior
    used = status.pop("currentCPUUtilizationPercentage", None)
    now = _read(annotations, _CURRENT, [])
    if used is not None:
        now = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}, *now]
    if now:
        status["currentMetrics"] = now
    conditions = _read(annotations, _CONDITIONS, [])
    if conditions:
        status["conditions"] = conditions
    return _assemble(scaler, "autoscaling/v2", meta, annotations, spec, status)


def from_v2(scaler: Object) -> Object:
    """An autoscaling/v2 autoscaler as v1 shows it."""
    meta = dict(scaler["metadata"])
    annotations = dict(meta.get("annotations") or {})
    spec, status = dict(scaler["spec"]), dict(scaler.get("status") or {})
    percent, others = _split_cpu(spec.pop("metrics", None) or [], "target")
    used, other_now = _split_cpu(status.pop("currentMetrics", None) or [], "current")
    if percent is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    if used is not None:
        status["currentCPUUtilizationPercentage"] = used
    for key, value in (
        (_METRICS, others),
        (_BEHAVIOR, spec.pop("behavior", None)),
        (_CURRENT, other_now),
        (_CONDITIONS, status.pop("conditions", None)),
    ):
        if value:
            annotations[key] = json.dumps(value, separators=(",", ":"))
    return _assemble(scaler, "autoscaling/v1", meta, annotations, spec, status)


def _split_cpu(metrics: list[Object], side: str) -> tuple[int | None, list[Object]]:
    percent, others = None, []
    for one in metrics:
        resource = one.get("resource") or {}
        share = (resource.get(side) or {}).get("averageUtilization")
        if percent is None and resource.get("name") == "cpu" and share is not None:
            percent = share
        else:
            others.append(one)
    return percent, others


def _read(annotations: dict[str, str], key: str, otherwise: Any) -> Any:
    text = annotations.pop(key, None)
    try:
        return json.loads(text) if text else otherwise
    except ValueError:
        return otherwise


def _assemble(
    scaler: Object, version: str, meta: Object, annotations: dict[str, str], spec: Object, status: Object
) -> Object:
    meta.pop("annotations", None)
    if annotations:
        meta["annotations"] = annotations
    converted = {**scaler, "apiVersion": version, "metadata": meta, "spec": spec, "status": status}
    conform(converted, _COMPONENTS[version])
    return converted


_TABLE = table(
    NAME,
    cell("Reference", _target_cell),
    cell("Targets", _metrics_cell),
    cell("MinPods", lambda scaler: str(scaler["spec"].get("minReplicas", UNSET))),
    cell("MaxPods", "spec.maxReplicas", 0),
    cell("Replicas", "status.currentReplicas", 0),
    AGE,
)
AUTOSCALERS = Rules(
    component=_COMPONENTS["autoscaling/v2"],
    table=_TABLE,
    defaults=_default,
    check=_check,
    has_status=True,
)
AUTOSCALERS_V1 = Rules(
    component=_COMPONENTS["autoscaling/v1"],
    table=_TABLE,
    defaults=_default_v1,
    check=_check,
    has_status=True,
)
