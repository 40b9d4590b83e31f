"""The main container of a component: defaults by type, the user's own values over them (3.7)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kube_apimachinery import quantity
from spinney.api import labels as known
from spinney.api.changes import Json
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.roles import is_worker

MAIN = "main"
SHARED_MEMORY = "shared-memory"
FRONTEND_PORT, SYSTEM_PORT, NIXL_PORT, METRICS_PORT = 8000, 9090, 19090, 9085
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CACHE = "compilation-cache"
_SHELL = ["/bin/sh", "-c"]


def main_container(deployment: Json, component: Json, settings: DynamoSettings) -> Json:
    """Everything that is not empty in the user's container wins; environment and mounts are merged."""
    own = _own_main(component)
    found = merged(_defaults(deployment, component), own)
    found["name"] = MAIN
    found["env"] = _environment(deployment, component, settings, own)
    mounts = [*(own.get("volumeMounts") or []), *(mount for _, mount in storage_of(component))]
    if mounts:
        found["volumeMounts"] = mounts
    return found


def other_containers(deployment: Json, component: Json, settings: DynamoSettings) -> list[Json]:
    """The user's other containers in their order; one of them may serve as the frontend of the main one."""
    found = []
    for one in containers_of(component):
        if one.get("name") == MAIN:
            continue
        if one.get("name") == component.get("frontendSidecar"):
            as_frontend = {**component, "type": "frontend"}
            one = {
                **merged(_frontend(), one),
                "env": _environment(deployment, as_frontend, settings, one),
                **_mounts_of_sidecar(component, one),
            }
        found.append(copy.deepcopy(one))
    return found


def _mounts_of_sidecar(component: Json, own: Json) -> Json:
    """Paths of models that the main container tells its frontend have to be there."""
    mounts = list(own.get("volumeMounts") or ())
    taken = {one.get("name") for one in mounts} | {SHARED_MEMORY}
    offered = [*(_own_main(component).get("volumeMounts") or ()), *(mount for _, mount in storage_of(component))]
    mounts += [one for one in offered if one.get("name") not in taken]
    return {"volumeMounts": mounts} if mounts else {}


def _own_main(component: Json) -> Json:
    return next((one for one in containers_of(component) if one.get("name") == MAIN), {})


def containers_of(component: Json) -> list[Json]:
    return list((((component.get("podTemplate") or {}).get("spec")) or {}).get("containers") or ())


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> Json:
    """The user's values over the defaults; an empty value is no value."""
    result = copy.deepcopy(dict(defaults))
    for key, value in own.items():
        if value not in (None, "", [], {}):
            result[key] = copy.deepcopy(value)
    return result


def shared_memory_size(component: Json) -> str:
    """Empty where it is switched off."""
    size = str(component.get("sharedMemorySize", "8Gi"))
    return "" if size == "0" else size


def cache_path(component: Json) -> str:
    """The mount path of the compilation cache; empty if there is none."""
    cache = component.get("compilationCache")
    return str(cache.get("mountPath") or "/root/.cache") if cache else ""


def storage_of(component: Json) -> list[tuple[Json, Json]]:
    """Volumes with their mounts in the main container; none where the user mounts something of his own."""
    found: list[tuple[Json, Json]] = []
    if size := shared_memory_size(component):
        volume = {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        found.append((volume, {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}))  # noqa: S108 - inside the container
    if path := cache_path(component):
        claim = {"claimName": component["compilationCache"]["pvcName"]}
        found.append(({"name": _CACHE, "persistentVolumeClaim": claim}, {"name": _CACHE, "mountPath": path}))
    taken = {str(one.get("mountPath")).rstrip("/") for one in _own_main(component).get("volumeMounts") or ()}
    return [(volume, mount) for volume, mount in found if mount["mountPath"].rstrip("/") not in taken]


def volumes_of(component: Json, own: list[Json]) -> list[Json]:
    """Generated volumes, the user's own, and a PVC volume for each mount of the main container without a volume."""
    named = {one.get("name") for one in own}
    found = [*(volume for volume, _ in storage_of(component) if volume["name"] not in named), *own]
    known_names = {one.get("name") for one in found}
    mounted = dict.fromkeys(one.get("name") for one in _own_main(component).get("volumeMounts") or ())
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in mounted]
    return [*found, *(claim for claim in claims if claim["name"] not in known_names)]


def gpus_of(container: Mapping[str, Any]) -> int:
    """The whole GPUs of a container."""
    resources = container.get("resources") or {}
    for part in ("limits", "requests"):
        amount = (resources.get(part) or {}).get(known.GPU_RESOURCE)
        if amount is not None:
            return _whole(amount)
    return 0


def _whole(amount: Any) -> int:
    """The quantity as a whole number; an invalid one counts as 0, because the PodCliqueSet is refused for it anyway."""
    try:
        return quantity.base_units(amount, False)
    except quantity.QuantityError:
        return 0


def _defaults(deployment: Json, component: Json) -> Json:
    kind = component.get("type", "")
    if kind == "frontend":
        return _frontend()
    if is_worker(component):
        return {"command": _SHELL, **_serving(_port("system", SYSTEM_PORT), _port("nixl", NIXL_PORT))}
    if kind == "planner":
        return {"command": _SHELL, **_serving(_port("metrics", METRICS_PORT), _port("system", SYSTEM_PORT))}
    return {} if kind == "epp" else {"command": _SHELL}


def _frontend() -> Json:
    return {
        "command": ["python3"],
        "args": ["-m", "dynamo.frontend"],
        "ports": [_port("http", FRONTEND_PORT)],
        "livenessProbe": _probe("/live", "http", 10, 1, 3) | {"initialDelaySeconds": 15},
        "readinessProbe": _probe("/health", "http", 10, 3, 3) | {"initialDelaySeconds": 10},
    }


def _serving(*ports: Json) -> Json:
    return {
        "ports": list(ports),
        "livenessProbe": _probe("/live", "system", 5, 4, 1),
        "readinessProbe": _probe("/health", "system", 10, 4, 3),
        "startupProbe": _probe("/live", "system", 10, 5, 720),
    }


def _port(name: str, number: int) -> Json:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, port: str, period: int, timeout: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _environment(deployment: Json, component: Json, settings: DynamoSettings, own: Mapping[str, Any]) -> list[Json]:
    """Environment variables sorted by name; the more specific source takes precedence."""
    found: dict[str, Json] = {}
    given: Iterable[Json] = (*(deployment["spec"].get("env") or ()), *(own.get("env") or ()))
    for entry in (*_common(deployment, component, settings), *_of_type(deployment, component), *given):
        found[entry["name"]] = copy.deepcopy(dict(entry))
    return [found[name] for name in sorted(found)]


def _common(deployment: Json, component: Json, settings: DynamoSettings) -> list[Json]:
    metadata = deployment["metadata"]
    found = [
        *(_value(name, value) for name, value in settings.environment.items()),
        _value("DYN_NAMESPACE", generated_labels.dynamo_namespace(deployment, component)),
        _value("DYN_COMPONENT", component.get("type", "")),
        _value("DYN_PARENT_DGD_K8S_NAME", metadata["name"]),
        _value("DYN_PARENT_DGD_K8S_NAMESPACE", metadata["namespace"]),
        _field("POD_NAME", "metadata.name"),
        _field("POD_NAMESPACE", "metadata.namespace"),
        _field("POD_UID", "metadata.uid"),
    ]
    if generated_labels.discovery_of(deployment, settings) == "kubernetes":
        found.append(_value("DYN_DISCOVERY_BACKEND", "kubernetes"))
    return found


def _of_type(deployment: Json, component: Json) -> list[Json]:
    kind = component.get("type", "")
    if kind == "frontend":
        return [
            _value("DYNAMO_PORT", str(FRONTEND_PORT)),
            _value("DYN_HTTP_PORT", str(FRONTEND_PORT)),
            _value("DYN_NAMESPACE_PREFIX", generated_labels.dynamo_namespace(deployment, component)),
        ]
    if kind == "planner":
        return [_value("PLANNER_PROMETHEUS_PORT", str(METRICS_PORT)), _value("DYN_SYSTEM_PORT", str(SYSTEM_PORT))]
    if not is_worker(component):
        return []
    values = {
        "DYN_SYSTEM_ENABLED": "true",
        "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS": '["generate"]',
        "DYN_SYSTEM_PORT": str(SYSTEM_PORT),
        "DYN_HEALTH_CHECK_ENABLED": "false",
        "NIXL_TELEMETRY_ENABLE": "n",
        "NIXL_TELEMETRY_EXPORTER": "prometheus",
        "NIXL_TELEMETRY_PROMETHEUS_PORT": str(NIXL_PORT),
        "DYN_FORWARDPASS_METRIC_PORT": "20380",
        "DYN_NAMESPACE_WORKER_SUFFIX": generated_labels.worker_hash(deployment),
    }
    return [_value(name, value) for name, value in values.items()]


def _value(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
