"""One service of v1alpha1 and one component of v1beta1, one made from the other.

Nothing here keeps what the other side cannot say; that is the business of leftovers.
"""

from __future__ import annotations

import copy
from typing import Any

from spinney.api.dynamo_conversion import pods
from spinney.api.kinds.dynamographdeployment import COMPONENT_TYPES

Part = dict[str, Any]

Paths = tuple[tuple[str, ...], ...]

ONLY_ALPHA: Paths = (("serviceName",), ("dynamoNamespace",), ("autoscaling",), ("ingress",))
ONLY_BETA: Paths = (
    ("providerOverride",),
    ("runtimeVersionOverride",),
    ("experimental", "grove"),
    ("multinode", "leader"),
    ("multinode", "worker"),
)
_SAME = ("globalDynamoNamespace", "replicas", "minAvailable", "modelRef", "eppConfig", "topologyConstraint")
_OF_COMPONENT = (("podTemplate", "frontendSidecar", "compilationCache"),)
_OF_SERVICE = (
    (
        *("annotations", "labels", "resources", "envs", "envFromSecret", "volumeMounts", "livenessProbe"),
        *("readinessProbe", "extraPodMetadata", "extraPodSpec", "frontendSidecar"),
    ),
    ("componentType", "subComponentType"),
)
"""Fields that say one thing of the other version together: its pod, its type."""
_ROLES = ("prefill", "decode")
_SWITCHED = ("gpuMemoryService", "failover")


def component_of(name: str, service: Part) -> Part:
    """The component that a service describes."""
    component: Part = {"name": name, **_copied(service, _SAME), **_component_type(service)}
    if service.get("multinode") is not None:
        component["multinode"] = _copied(service["multinode"], ("nodeCount",))
    if (service.get("scalingAdapter") or {}).get("enabled"):
        component["scalingAdapter"] = {}
    if service.get("sharedMemory"):
        component |= _shared_memory_size(service["sharedMemory"])
    component |= _compilation_cache(service)
    component |= _experiments(service)
    template = pods.pod_template(service)
    if template is not None:
        component["podTemplate"] = template
    if service.get("frontendSidecar"):
        component["frontendSidecar"] = pods.FRONTEND_SIDECAR
    return component


def service_of(component: Part) -> Part:
    """The service that a component describes."""
    service: Part = {**_copied(component, _SAME), **_service_type(component)}
    if component.get("multinode") is not None:
        service["multinode"] = _copied(component["multinode"], ("nodeCount",))
    if component.get("scalingAdapter") is not None:
        service["scalingAdapter"] = {"enabled": True}
    if component.get("sharedMemorySize") is not None:
        size = component["sharedMemorySize"]
        service["sharedMemory"] = {"disabled": True} if str(size) == "0" else {"size": size}
    service |= _flat_experiments(component.get("experimental") or {})
    service |= pods.flat_fields(component.get("podTemplate") or {}, component.get("frontendSidecar"))
    cache = component.get("compilationCache")
    if cache:
        mount = {"name": cache["pvcName"], "useAsCompilationCache": True}
        mount |= {"mountPoint": cache["mountPath"]} if cache.get("mountPath") else {}
        service["volumeMounts"] = [*service.get("volumeMounts", ()), mount]
    return service


def keep_unedited(converted: Part, original: Part, back: Part) -> Part:
    """The converted part with the fields of the original that nobody has edited, as the original has them.

    `back` is the original by way of the other version: where it says what the converted part says, there was no edit.
    Fields that describe the same thing are kept together or not at all.
    """
    together = _OF_COMPONENT if "name" in original else _OF_SERVICE
    grouped = {key for keys in together for key in keys}
    single = [(key,) for key in {**original, **back, **converted} if key not in grouped]
    unedited = {
        key for keys in (*together, *single) if all(converted.get(one) == back.get(one) for one in keys) for key in keys
    }
    kept = {key: copy.deepcopy(value) for key, value in original.items() if key in unedited}
    return _with_sidecar(kept | {key: value for key, value in converted.items() if key not in unedited}, original)


def _with_sidecar(component: Part, original: Part) -> Part:
    """A service cannot say that a container of another name is the frontend: it is as long as it is there."""
    name = original.get("frontendSidecar")
    containers = ((component.get("podTemplate") or {}).get("spec") or {}).get("containers") or ()
    if "frontendSidecar" not in component and any(one.get("name") == name for one in containers):
        return component | {"frontendSidecar": name}
    return component


def put_back(converted: Part, original: Part, paths: Paths) -> Part:
    """The converted part with those fields of the original that have no counterpart, where their place still exists."""
    for *parents, key in paths:
        source: Part = original
        target: Part | None = converted
        for parent in parents:
            source = source.get(parent) or {}
            target = converted.setdefault(parent, {}) if parent == "experimental" and source else converted.get(parent)
        if target is not None and key in source:
            target[key] = copy.deepcopy(source[key])
    return converted


def _copied(part: Part, keys: tuple[str, ...]) -> Part:
    return {key: copy.deepcopy(part[key]) for key in keys if part.get(key) is not None}


def _component_type(service: Part) -> Part:
    role, kind = service.get("subComponentType"), service.get("componentType")
    if kind in (None, "", "worker") and role in _ROLES:
        return {"type": role}
    return {"type": kind} if kind in COMPONENT_TYPES else {}


def _service_type(component: Part) -> Part:
    kind = component.get("type")
    if kind in _ROLES:
        return {"componentType": "worker", "subComponentType": kind}
    return {"componentType": kind} if kind else {}


def _shared_memory_size(memory: Part) -> Part:
    if memory.get("disabled"):
        return {"sharedMemorySize": "0"}
    return {"sharedMemorySize": memory["size"]} if memory.get("size") is not None else {}


def _compilation_cache(service: Part) -> Part:
    for mount in service.get("volumeMounts") or ():
        if mount.get("useAsCompilationCache"):
            cache = {"pvcName": mount["name"]}
            return {"compilationCache": cache | ({"mountPath": mount["mountPoint"]} if mount.get("mountPoint") else {})}
    return {}


def _experiments(service: Part) -> Part:
    """Features that are switched on; v1beta1 has no switch, their presence is it."""
    found: Part = {}
    for key in _SWITCHED:
        feature = service.get(key) or {}
        if feature.get("enabled"):
            found[key] = _with_mode({name: value for name, value in feature.items() if name != "enabled"}, str.upper)
    if service.get("checkpoint"):
        found["checkpoint"] = copy.deepcopy(service["checkpoint"])
    return {"experimental": found} if found else {}


def _flat_experiments(experimental: Part) -> Part:
    found: Part = {}
    for key in _SWITCHED:
        if experimental.get(key) is not None:
            found[key] = {"enabled": True, **_with_mode(experimental[key], str.lower)}
    if experimental.get("checkpoint"):
        found["checkpoint"] = copy.deepcopy(experimental["checkpoint"])
    return found


def _with_mode(feature: Part, case: Any) -> Part:
    """`intraPod` is written `IntraPod` in v1beta1."""
    mode = feature.get("mode")
    changed = {"mode": case(mode[0]) + mode[1:]} if isinstance(mode, str) and mode else {}
    return copy.deepcopy(feature) | changed
