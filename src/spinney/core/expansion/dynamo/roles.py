"""The roles of a component: one clique for a single node, a leader and its workers for several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spinney.api.changes import Json
from spinney.api.meta import MOST_PODS

WORKER_TYPES = ("worker", "prefill", "decode")

RoleKind = Literal["main", "leader", "worker"]


@dataclass(frozen=True, slots=True)
class Role:
    """A clique of a component."""

    kind: RoleKind
    clique: str
    replicas: int
    min_available: int


def is_worker(component: Json) -> bool:
    return component.get("type", "") in WORKER_TYPES


def node_count(component: Json) -> int:
    """On how many nodes one replica runs."""
    multinode = component.get("multinode")
    return 1 if multinode is None else _number(multinode, "nodeCount", 2)


def _number(holder: Json, key: str, otherwise: int) -> int:
    """`null` is as if nothing was said."""
    value = holder.get(key)
    return otherwise if value is None else int(value)


def is_group(component: Json) -> bool:
    """Whether it becomes a scaling group."""
    grove = (component.get("experimental") or {}).get("grove") or {}
    return node_count(component) > 1 or bool(grove.get("forceScalingGroup"))


def replicas_of(component: Json) -> int:
    return _number(component, "replicas", 1)


def excess_pods(deployment: Json) -> str:
    """What is too many pods for one deployment; empty if it is within the limit. Counted, never listed."""
    components = (deployment.get("spec") or {}).get("components") or ()
    pods = sum(replicas_of(each) * node_count(each) for each in components)
    return f"{pods} pods, at most {MOST_PODS} are allowed" if pods > MOST_PODS else ""


def min_available_of(component: Json) -> int:
    return _number(component, "minAvailable", 1)


def roles_of(component: Json) -> tuple[Role, ...]:
    """In the order of the cliques."""
    name, nodes = component["name"].lower(), node_count(component)
    if nodes > 1:
        others = nodes - 1
        return Role("leader", f"{name}-ldr", 1, 1), Role("worker", f"{name}-wkr", others, others)
    if is_group(component):
        return (Role("main", name, 1, 1),)
    return (Role("main", name, replicas_of(component), min_available_of(component)),)
