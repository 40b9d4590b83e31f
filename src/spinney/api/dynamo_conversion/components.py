"""One service of v1alpha1 and one component of v1beta1 with its pods, one made from the other.

Nothing here keeps what the other side cannot say; that is the business of leftovers.
"""

from __future__ import annotations

import copy
from typing import Any

from spinney.api.dynamo_conversion.preserved_fields import Part
from spinney.api.kinds.dynamographdeployment import COMPONENT_TYPES

# The flat pod fields of v1alpha1 and the pod template of v1beta1, one made from the other.
#
# Nothing here keeps what the other side cannot say; that is the business of leftovers.

MAIN = "main"
FRONTEND_SIDECAR = "sidecar-frontend"
GPU = "nvidia.com/gpu"
_FLAT_RESOURCES = {"cpu": "cpu", "memory": "memory"}
_PROBES = ("livenessProbe", "readinessProbe")
_MOUNT_KEYS = {"name", "mountPath"}
_SIDECAR_KEYS = {"name", "image", "args", "env", "envFrom"}


def pod_template(service: Part) -> Part | None:
    """The pod template that the flat fields of a service describe; None if they say nothing."""
    spec = copy.deepcopy(service.get("extraPodSpec") or {})
    user_main = spec.pop("mainContainer", None) or {}
    others: list[Part] = spec.pop("containers", None) or []
    main = _merged(_flat_container(service), user_main)
    containers = [{**main, "name": MAIN}] if main else []
    containers += others + _frontend_sidecar(service)
    if containers:
        spec["containers"] = containers
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in _claims(service)]
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    template = {"metadata": _metadata(service), "spec": spec}
    return {key: value for key, value in template.items() if value} or None


def flat_fields(template: Part, sidecar: str | None) -> Part:
    """The flat fields of a service that describe this pod template."""
    service: Part = {}
    metadata = template.get("metadata") or {}
    extra = {key: copy.deepcopy(metadata[key]) for key in ("annotations", "labels") if metadata.get(key)}
    if extra:
        service["extraPodMetadata"] = extra
    spec = copy.deepcopy(template.get("spec") or {})
    containers = spec.pop("containers", None) or []
    main: Part = next((one for one in containers if one.get("name") == MAIN), {})
    others = [one for one in containers if one is not main]
    others = _take_sidecar(service, others, sidecar)
    _take_mounts(service, spec, main)
    rest = _take_flat(service, main)
    spec |= {"containers": others} if others else {}
    spec |= {"mainContainer": rest} if rest else {}
    if spec:
        service["extraPodSpec"] = spec
    return service


def _metadata(service: Part) -> Part:
    extra = service.get("extraPodMetadata") or {}
    joined = {key: {**(service.get(key) or {}), **(extra.get(key) or {})} for key in ("annotations", "labels")}
    return {key: value for key, value in joined.items() if value}


def _flat_container(service: Part) -> Part:
    found: Part = {
        "resources": _resources(service.get("resources") or {}),
        "env": copy.deepcopy(service.get("envs") or []),
        "envFrom": _secret(service.get("envFromSecret")),
        "volumeMounts": [{"name": one["name"], "mountPath": one.get("mountPoint", "")} for one in _mounts(service)],
    }
    found |= {probe: copy.deepcopy(service.get(probe)) for probe in _PROBES}
    return {key: value for key, value in found.items() if value}


def _merged(flat: Part, user: Part) -> Part:
    """The user's container over the flat fields: non-empty values win, lists of variables and mounts are joined, and
    so are resources: who names a claim in one place keeps the GPUs that are asked for in the other.
    """
    merged = flat | {key: value for key, value in user.items() if value not in (None, "", [], {}) and key != "name"}
    if flat.get("resources") and user.get("resources"):
        merged["resources"] = _joined(flat["resources"], user["resources"])
    if flat.get("env") and user.get("env"):
        named = {one.get("name"): one for one in (*flat["env"], *user["env"])}
        merged["env"] = list(named.values())
    for key in ("volumeMounts", "envFrom"):
        if flat.get(key) and user.get(key):
            merged[key] = [*user[key], *flat[key]]
    return merged


def _joined(flat: Part, user: Part) -> Part:
    """Amounts by name, the user's over the flat ones; claims as a whole."""
    halves = {half: {**(flat.get(half) or {}), **(user.get(half) or {})} for half in ("requests", "limits")}
    claims = user.get("claims") or flat.get("claims")
    found = {**flat, **user, **halves, "claims": claims}
    return {key: value for key, value in found.items() if value}


def _resources(resources: Part) -> Part:
    found: Part = {}
    for half in ("requests", "limits"):
        item = resources.get(half) or {}
        amounts = {name: item[key] for key, name in _FLAT_RESOURCES.items() if item.get(key)}
        if item.get("gpu"):
            amounts[item.get("gpuType") or GPU] = item["gpu"]
        amounts |= item.get("custom") or {}
        found |= {half: amounts} if amounts else {}
    if resources.get("claims"):
        found["claims"] = copy.deepcopy(resources["claims"])
    return found


def _flat_resources(resources: Part) -> Part:
    found: Part = {}
    for half in ("requests", "limits"):
        amounts = {name: str(amount) for name, amount in (resources.get(half) or {}).items()}
        item: Part = {key: amounts.pop(name) for key, name in _FLAT_RESOURCES.items() if name in amounts}
        if GPU in amounts:
            item["gpu"] = amounts.pop(GPU)
        item |= {"custom": amounts} if amounts else {}
        found |= {half: item} if item else {}
    return found | ({"claims": resources["claims"]} if resources.get("claims") else {})


def _mounts(service: Part) -> list[Part]:
    """All but the compilation cache, which has a field of its own; a second one is a mount like the others."""
    mounts = list(service.get("volumeMounts") or ())
    cache = next((one for one in mounts if one.get("useAsCompilationCache")), None)
    return [one for one in mounts if one is not cache]


def _claims(service: Part) -> list[str]:
    known = {one.get("name") for one in (service.get("extraPodSpec") or {}).get("volumes") or ()}
    return [name for name in dict.fromkeys(one["name"] for one in _mounts(service)) if name not in known]


def _secret(name: str | None) -> list[Part]:
    return [{"secretRef": {"name": name}}] if name else []


def _frontend_sidecar(service: Part) -> list[Part]:
    sidecar = service.get("frontendSidecar")
    if not sidecar:
        return []
    container: Part = {"name": FRONTEND_SIDECAR, "image": sidecar.get("image"), "args": sidecar.get("args")}
    container |= {"env": sidecar.get("envs"), "envFrom": _secret(sidecar.get("envFromSecret"))}
    return [copy.deepcopy({key: value for key, value in container.items() if value})]


def _take_sidecar(service: Part, containers: list[Part], sidecar: str | None) -> list[Part]:
    """Moves the frontend sidecar into its own field where that field can say all of it."""
    found = next((one for one in containers if one.get("name") == sidecar), None)
    if sidecar != FRONTEND_SIDECAR or found is None or not _SIDECAR_KEYS.issuperset(found):
        return containers
    secret = _secret_name(found.get("envFrom") or [])
    if found.get("envFrom") and not secret:
        return containers
    flat = {"image": found.get("image"), "args": found.get("args"), "envs": found.get("env"), "envFromSecret": secret}
    service["frontendSidecar"] = {key: value for key, value in flat.items() if value}
    return [one for one in containers if one is not found]


def _secret_name(sources: list[Part]) -> str | None:
    if len(sources) == 1 and set(sources[0]) == {"secretRef"} and set(sources[0]["secretRef"]) == {"name"}:
        return str(sources[0]["secretRef"]["name"])
    return None


def _take_mounts(service: Part, spec: Part, main: Part) -> None:
    """Moves mounts of claims that are named like their volume into the flat list."""
    plain = {
        one["name"]: one
        for one in spec.get("volumes") or ()
        if one == {"name": one.get("name"), "persistentVolumeClaim": {"claimName": one.get("name")}}
    }
    mounts = main.get("volumeMounts") or []
    flat = [one for one in mounts if set(one) == _MOUNT_KEYS and one["name"] in plain]
    if not flat:
        return
    service["volumeMounts"] = [{"name": one["name"], "mountPoint": one["mountPath"]} for one in flat]
    taken = {one["name"] for one in flat}
    _replace(main, "volumeMounts", [one for one in mounts if one not in flat])
    _replace(spec, "volumes", [one for one in spec["volumes"] if one.get("name") not in taken])


def _replace(part: Part, key: str, value: list[Part]) -> None:
    if value:
        part[key] = value
    else:
        part.pop(key, None)


def _take_flat(service: Part, main: Part) -> Part:
    """Moves what the flat fields can say out of the main container; the rest of the container is returned."""
    rest = {key: value for key, value in main.items() if key != "name"}
    resources = _flat_resources(rest.get("resources") or {})
    if resources:
        service["resources"] = resources
        del rest["resources"]
    if rest.get("env"):
        service["envs"] = rest.pop("env")
    secret = _secret_name(rest.get("envFrom") or [])
    if secret:
        service["envFromSecret"] = secret
        del rest["envFrom"]
    service |= {probe: rest.pop(probe) for probe in _PROBES if rest.get(probe)}
    return rest


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
    template = pod_template(service)
    if template is not None:
        component["podTemplate"] = template
    if service.get("frontendSidecar"):
        component["frontendSidecar"] = FRONTEND_SIDECAR
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
    service |= flat_fields(component.get("podTemplate") or {}, component.get("frontendSidecar"))
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
