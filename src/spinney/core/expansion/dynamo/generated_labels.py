"""Names, labels and annotations of what a deployment generates; later labels win (3.4, 3.5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from spinney.api import labels as known
from spinney.api.changes import Json
from spinney.core.expansion.dynamo.roles import is_group, is_worker, roles_of

# Settings of the Dynamo controller, read at start-up.


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """`kai`, `volcano`: which scheduler takes the pods; `environment`: what components are given beside their own."""

    kai: bool = True
    volcano: bool = False
    default_queue: str = "default-queue"
    discovery: str = "kubernetes"
    termination_delay: str = "15m"
    ssh_secret: str = "mpi-run-ssh-secret"
    environment: dict[str, str] = field(default_factory=dict)


# Names of what a deployment generates; long ones are cut so that pod names stay within their limit.

POD_NAME_LIMIT = 45
_LEAST_ROOM = 8
_DIGEST = 5  # a hyphen and four digits


def component_names(deployment: str, component: str) -> str:
    """The selector of a component."""
    return f"{deployment}-{component.lower()}"


def service(deployment: str, component: str) -> str:
    """Names of Services have no dots; names of models often do."""
    return component_names(deployment, component).replace(".", "-")


def child(podcliqueset: str, component: str) -> str:
    """The PodClique or scaling group of a component; a deployment is one replica of its set."""
    return f"{podcliqueset}-0-{component.lower()}"


def longest_clique(component: Json) -> str:
    return max((role.clique for role in roles_of(component)), key=len)


def used_by(component: Json) -> int:
    """How much of a pod's name the component takes."""
    own = len(component["name"])
    return own + len(longest_clique(component)) if is_group(component) else own


def podcliqueset(deployment: str, components: Iterable[Json]) -> str:
    """The deployment's own name unless its pods would have too long ones; Services are named after it."""
    room = max(_LEAST_ROOM, POD_NAME_LIMIT - max((used_by(one) for one in components), default=0))
    fits = len(deployment) <= room
    name = deployment if fits else f"{deployment[: room - _DIGEST]}-{_fnv1a(deployment) & 0xFFFF:04x}"
    return name.replace(".", "-")


def _fnv1a(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


_NOT_HASHED = ("replicas", "minAvailable", "scalingAdapter")
_HANDED_DOWN = (
    known.DYNAMO_ENABLE_METRICS,
    known.DYNAMO_DISCOVERY_BACKEND,
    known.DYNAMO_DISCOVERY_MODE,
    known.DYNAMO_ORIGIN_VERSION,
    known.DYNAMO_VLLM_EXECUTOR,
)
_SUB_TYPES = ("prefill", "decode")


def annotations_of(obj: Json) -> dict[str, str]:
    return dict(obj["metadata"].get("annotations") or {})


def dynamo_namespace(deployment: Json, component: Json) -> str:
    """Where components find each other."""
    if component.get("globalDynamoNamespace"):
        return "dynamo"
    metadata = deployment["metadata"]
    return f"{metadata['namespace']}-{metadata['name'].replace('.', '-')}"


def worker_hash(deployment: Json) -> str:
    """Changes when pods of workers change, never by scaling."""
    workers = [
        {key: value for key, value in one.items() if key not in _NOT_HASHED}
        for one in deployment["spec"].get("components", ())
        if is_worker(one)
    ]
    seen = [deployment["spec"].get("env") or [], workers]
    return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()[:8]


def set_labels(deployment: Json) -> dict[str, str]:
    spec = deployment["spec"]
    return {**(spec.get("labels") or {}), known.DYNAMO_GRAPH_DEPLOYMENT: deployment["metadata"]["name"]}


def clique_labels(deployment: Json, component: Json, settings: DynamoSettings, queue: str) -> dict[str, str]:
    template = (component.get("podTemplate") or {}).get("metadata") or {}
    own = _system_labels(deployment, component)
    found = dict(own)
    if annotations_of(deployment).get(known.DYNAMO_ENABLE_METRICS, "").lower() != "false":
        found[known.DYNAMO_METRICS_ENABLED] = "true"
    found |= deployment["spec"].get("labels") or {}
    found |= template.get("labels") or {}
    found |= own
    if is_worker(component):
        found[known.DYNAMO_WORKER_HASH] = worker_hash(deployment)
    if discovery_of(deployment, settings) == "kubernetes":
        found |= {known.DYNAMO_DISCOVERY_BACKEND: "kubernetes", known.DYNAMO_DISCOVERY_ENABLED: "true"}
    if queue:
        found[known.KAI_QUEUE] = queue
    return found


def clique_annotations(deployment: Json, component: Json) -> dict[str, str]:
    template = (component.get("podTemplate") or {}).get("metadata") or {}
    given = annotations_of(deployment)
    handed_down = {key: given[key] for key in _HANDED_DOWN if key in given}
    return {**(deployment["spec"].get("annotations") or {}), **handed_down, **(template.get("annotations") or {})}


def discovery_of(deployment: Json, settings: DynamoSettings) -> str:
    return annotations_of(deployment).get(known.DYNAMO_DISCOVERY_BACKEND) or settings.discovery


def _system_labels(deployment: Json, component: Json) -> dict[str, str]:
    name, kind = deployment["metadata"]["name"], component.get("type", "")
    found = {
        known.DYNAMO_SELECTOR: component_names(name, component["name"]),
        known.DYNAMO_GRAPH_DEPLOYMENT: name,
        known.DYNAMO_COMPONENT: component["name"],
        known.DYNAMO_NAMESPACE: dynamo_namespace(deployment, component),
    }
    if kind:
        found[known.DYNAMO_COMPONENT_TYPE] = kind
    if kind in _SUB_TYPES:
        found[known.DYNAMO_SUB_COMPONENT_TYPE] = kind
    if is_worker(component) and any(one.get("type") == "epp" for one in deployment["spec"].get("components", ())):
        found[known.DYNAMO_COMPONENT_CLASS] = "worker"
    return found
