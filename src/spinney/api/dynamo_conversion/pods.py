"""The flat pod fields of v1alpha1 and the pod template of v1beta1, one made from the other.

Nothing here keeps what the other side cannot say; that is the business of leftovers.
"""

from __future__ import annotations

import copy
from typing import Any

Part = dict[str, Any]

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
