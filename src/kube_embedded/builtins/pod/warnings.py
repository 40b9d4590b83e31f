"""What a client is told about pods that are accepted and yet look like mistakes.

Warns and never refuses; changes nothing. Every pod comes by here: what a pod does not have costs one look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.name_validation import LABEL_LIMIT, dns_label, label_value
from kube_apimachinery.quantity import canonical, milli

Texts = list[str]
Placed = list[tuple[str, Object]]
"""Parts of a pod, each with its path."""


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a kind keeps its pods, and when it is looked at."""

    path: tuple[str, ...]
    named: str = ""  # what its own name is used for
    by_template: bool = False  # an update is looked at when the template changes, not the generation
    behind: bool = False  # an update is told of the template that it replaces


_PODS_NAMES = "Pod names and hostnames"
_HOMES = {
    "io.k8s.api.core.v1.PodTemplate": _Home(("template",)),
    "io.k8s.api.core.v1.ReplicationController": _Home(("spec", "template"), _PODS_NAMES, behind=True),
    "io.k8s.api.apps.v1.Deployment": _Home(("spec", "template"), _PODS_NAMES),
    "io.k8s.api.apps.v1.ReplicaSet": _Home(("spec", "template"), _PODS_NAMES),
    "io.k8s.api.apps.v1.StatefulSet": _Home(("spec", "template")),
    "io.k8s.api.apps.v1.DaemonSet": _Home(("spec", "template"), by_template=True),
    "io.k8s.api.batch.v1.Job": _Home(("spec", "template"), _PODS_NAMES),
    "io.k8s.api.batch.v1.CronJob": _Home(("spec", "jobTemplate", "spec", "template"), _PODS_NAMES),
}
POD = "io.k8s.api.core.v1.Pod"
_AMOUNTS = ("overhead", "limits", "requests")
_BYTES = ("memory", "ephemeral-storage")
_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_VOLUME_FIELDS = {"storageos": "storageOS"}
"""Fields that are called otherwise in warnings than in objects."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def on_create(component: str, obj: Object) -> Texts:
    """About a new object that passed validation; nothing about kinds without pods."""
    if component == POD:
        return _of_name(obj, "the Pod's hostname") + _of_pod(obj, "")
    home = _HOMES.get(component)
    if home is None:
        return []
    return (_of_name(obj, home.named) if home.named else []) + _of_template(obj, home)


def is_plain(metadata: Object) -> bool:
    """Whether no metadata of a pod is ever warned of, whatever its spec is."""
    name = metadata.get("name") or metadata.get("generateName") or ""
    if "." in name or len(name) > LABEL_LIMIT:
        return False
    return not any(".alpha." in key for key in metadata.get("annotations") or ())


def on_update(component: str, obj: Object, old: Object) -> Texts:
    """About a change that passed validation; pods themselves change too often to be looked at."""
    home = _HOMES.get(component)
    if home is None:
        return []
    if home.by_template:
        changed = _template(obj, home) != _template(old, home)
    else:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
    return _of_template(old if home.behind else obj, home) if changed else []


def _template(obj: Any, home: _Home) -> Any:
    for key in home.path:
        obj = obj.get(key) or {}
    return obj


def _of_template(obj: Object, home: _Home) -> Texts:
    return _of_pod(_template(obj, home), ".".join(home.path) + ".")


def _of_name(obj: Object, use: str) -> Texts:
    """A name that passed validation is a subdomain: what keeps it from being a label is a dot, or its length."""
    name = obj["metadata"]["name"]
    if "." not in name and len(name) <= LABEL_LIMIT:
        return []
    why = " ".join(dns_label(name))
    surprise = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used in {use}, {surprise}: [{why}]"]


def _of_pod(pod: Object, path: str) -> Texts:
    """In the order of Kubernetes. `path` is empty or ends with a dot."""
    spec, annotations = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations")
    where = f"{path}spec"
    texts: Texts = []
    if "nodeSelector" in spec:
        texts += _of_node_selector(spec["nodeSelector"], where)
    affinity = spec.get("affinity")
    if affinity and "nodeAffinity" in affinity:
        texts += _of_node_affinity(affinity["nodeAffinity"], f"{where}.affinity.nodeAffinity")
    if "topologySpreadConstraints" in spec:
        texts += _of_spreads(_placed(spec, where, "topologySpreadConstraints"))
    if annotations:
        texts += _of_annotations(annotations, f"{path}metadata.annotations")
    if "volumes" in spec:
        texts += _of_volumes(spec["volumes"], f"{where}.volumes")
    texts += _of_twins(spec, where)
    if "overhead" in spec:
        texts += _of_resources({"overhead": spec["overhead"]}, where)
    if annotations:
        texts += _of_seccomp(spec, annotations, f"{path}metadata.annotations")
    texts += _of_containers(spec, where)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        detail = "must be >= 0; negative values are invalid and will be treated as 1"
        texts.append(f"{where}.terminationGracePeriodSeconds: {detail}")
    if affinity:
        texts += _of_pod_affinity(affinity, f"{where}.affinity")
    return texts


def _placed(owner: Object, path: str, name: str) -> Placed:
    return [(f"{path}.{name}[{index}]", each) for index, each in enumerate(owner.get(name) or ())]


def _of_node_selector(selector: Object, path: str) -> Texts:
    return [f"{path}.nodeSelector[{key}]: {_DEPRECATED_LABELS[key]}" for key in selector if key in _DEPRECATED_LABELS]


def _of_node_affinity(affinity: Object, path: str) -> Texts:
    texts: Texts = []
    for where, term in _placed(affinity.get(_REQUIRED) or {}, f"{path}.{_REQUIRED}", "nodeSelectorTerms"):
        texts += _of_node_term(term, where)
    for where, weighted in _placed(affinity, path, _PREFERRED):
        texts += _of_node_term(weighted.get("preference") or {}, f"{where}.preference", values=True)
    return texts


def _of_node_term(term: Object, path: str, *, values: bool = False) -> Texts:
    texts: Texts = []
    for where, expression in _placed(term, path, "matchExpressions"):
        key = expression.get("key", "")
        if key in _DEPRECATED_LABELS:
            texts.append(f"{where}.key: {key} is {_DEPRECATED_LABELS[key]}")
        for index, value in enumerate(expression.get("values") or () if values else ()):
            texts += [f"{where}.values[{index}]: {value} is invalid, {why}" for why in label_value(value)]
    return texts


def _of_spreads(spreads: Placed) -> Texts:
    texts: Texts = []
    for where, spread in spreads:
        key = spread.get("topologyKey", "")
        if key in _DEPRECATED_LABELS:
            texts.append(f"{where}.topologyKey: {key} is {_DEPRECATED_LABELS[key]}")
        if "labelSelector" not in spread:
            texts.append(f"{where}.labelSelector: {_NO_SELECTOR}")
    return texts


def _of_annotations(annotations: Object, path: str) -> Texts:
    if _DEPRECATED_ANNOTATIONS.keys().isdisjoint(annotations):
        return []
    return [f"{path}[{key}]: {text}" for key, text in _DEPRECATED_ANNOTATIONS.items() if key in annotations]


def _of_volumes(volumes: list[Object], path: str) -> Texts:
    return [
        f"{path}[{index}].{_VOLUME_FIELDS.get(source, source)}: {_DEPRECATED_VOLUMES[source]}"
        for index, volume in enumerate(volumes)
        for source in volume
        if source in _DEPRECATED_VOLUMES
    ]


def _of_twins(spec: Object, path: str) -> Texts:
    """Host aliases and pull secrets: lists that apply merges by key, and where a key may yet come twice."""
    texts: Texts = []
    if "hostAliases" in spec:
        texts += _twins(_placed(spec, path, "hostAliases"), "ip")
    if "imagePullSecrets" in spec:
        secrets = _placed(spec, path, "imagePullSecrets")
        texts += _twins(secrets, "name")
        texts += [f'{where}.name: invalid empty name ""' for where, secret in secrets if not secret.get("name")]
    return texts


def _twins(items: Placed, key: str) -> Texts:
    texts: Texts = []
    seen: set[str] = set()
    for where, item in items:
        value = item.get(key, "")
        if value in seen:
            texts.append(f'{where}.{key}: duplicate {key} "{value}"')
        seen.add(value)
    return texts


@lru_cache(maxsize=2048)
def _fraction(amount: str) -> str:
    """The amount as Kubernetes writes it, when it is no whole number of bytes."""
    return canonical(amount) if milli(amount) % 1000 else ""


def _of_seccomp(spec: Object, annotations: Object, path: str) -> Texts:
    """Annotations that were once the way to choose a seccomp profile."""
    if not any("seccomp.security.alpha" in key for key in annotations):
        return []
    old = [("seccomp.security.alpha.kubernetes.io/pod", spec)]
    old += [(f"container.seccomp.security.alpha.kubernetes.io/{one['name']}", one) for _, one in _containers(spec, "")]
    return [
        f'{path}[{key}]: non-functional in v1.27+; use the "seccompProfile" field instead'
        for key, owner in old
        if key in annotations and not (owner.get("securityContext") or {}).get("seccompProfile")
    ]


def _containers(spec: Object, path: str) -> Placed:
    found = _placed(spec, path, "containers")
    if "initContainers" in spec:
        found = _placed(spec, path, "initContainers") + found
    if "ephemeralContainers" in spec:
        found += _placed(spec, path, "ephemeralContainers")
    return found


def _of_containers(spec: Object, path: str) -> Texts:
    texts: Texts = []
    ports: Placed = []
    for where, container in _containers(spec, path):
        resources = container.get("resources")
        if resources:
            texts += _of_resources(resources, f"{where}.resources")
        if "env" in container:
            texts += _of_env(container["env"], f"{where}.env")
        if "ports" in container:
            ports += _placed(container, where, "ports")
    return texts + _of_ports(ports) if ports else texts


def _of_resources(resources: dict[str, Object], path: str) -> Texts:
    texts: Texts = []
    for name in _BYTES:
        for kind in _AMOUNTS:
            amount = resources[kind].get(name) if kind in resources else None
            if amount and _fraction(amount):
                detail = f'fractional byte value "{_fraction(amount)}" is invalid, must be an integer'
                texts.append(f"{path}.{kind}[{name}]: {detail}")
    return texts


def _of_env(env: list[Object], path: str) -> Texts:
    """A variable that comes again may build upon its former value, and hides it otherwise."""
    texts: Texts = []
    seen: set[str] = set()
    if len({variable["name"] for variable in env}) == len(env):
        return texts
    for index, variable in enumerate(env):
        name = variable["name"]
        if name not in seen:
            seen.add(name)
        elif _hides(variable, f"$({name})"):
            detail = f'hides previous definition of "{name}", which may be dropped when using apply'
            texts.append(f"{path}[{index}]: {detail}")
    return texts


def _hides(variable: Object, former: str) -> bool:
    value = variable.get("value", "")
    return "valueFrom" in variable or value == former or former not in value


def _of_ports(ports: Placed) -> Texts:
    return [*_clashes(ports), *_twin_names(ports)]


def _clashes(ports: Placed) -> Iterator[str]:
    seen: dict[tuple[int, str], Placed] = {}
    for where, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{where}: hostIP set without hostPort: {_shown(port)}"
        others = seen.setdefault((port["containerPort"], port.get("protocol", "")), [])
        for other_where, other in others:
            how = _clash(port, other)
            if how:
                yield f"{where}: {how} port definition with {other_where}"
        others.append((where, port))


def _clash(port: Object, other: Object) -> str:
    """How two definitions of one port get into each other's way; empty where they do not."""
    address, others = port.get("hostIP", ""), other.get("hostIP", "")
    number, other_number = port.get("hostPort", 0), other.get("hostPort", 0)
    if (address, number) == (others, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    ambiguous = number == other_number and bool(address) != bool(others)
    return "dangerously ambiguous" if ambiguous else ""


def _shown(port: Object) -> str:
    """A port as Go prints it."""
    name, number = port.get("name", ""), port["containerPort"]
    return (
        f"{{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{port.get('protocol', '')} HostIP:{port['hostIP']}}}"
    )


def _twin_names(ports: Placed) -> Iterator[str]:
    first: dict[str, str] = {}
    for where, port in ports:
        name = port.get("name")
        if not name:
            continue
        other = first.setdefault(name, where)
        if other is not where:
            use = f"services and probes that select ports by name will use {other}"
            yield f'{where}: duplicate port name "{name}" with {other}, {use}'


def _of_pod_affinity(affinity: Object, path: str) -> Texts:
    texts: Texts = []
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind)
        if not terms:
            continue
        found = _placed(terms, f"{path}.{kind}", _REQUIRED)
        for where, weighted in _placed(terms, f"{path}.{kind}", _PREFERRED):
            found.append((f"{where}.podAffinityTerm", weighted.get("podAffinityTerm") or {}))
        texts += [f"{where}.labelSelector: {_NO_SELECTOR}" for where, term in found if "labelSelector" not in term]
    return texts
