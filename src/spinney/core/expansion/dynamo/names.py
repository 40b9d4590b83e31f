"""Names of what a deployment generates; long ones are cut so that pod names stay within their limit."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.changes import Json
from spinney.core.expansion.dynamo.roles import is_group, roles_of

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
