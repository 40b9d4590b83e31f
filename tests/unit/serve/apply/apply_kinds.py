"""A workload, described small: every kind of list and map that ownership tells apart."""

from __future__ import annotations

import copy
from typing import Any

from kube_embedded.apply import scope_of
from kube_embedded.schema.model import Compiler

NOW = "2030-01-01T00:00:00Z"
LATER = "2030-01-01T00:00:05Z"

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_PORT = _object(containerPort={"type": "integer"}, protocol={"type": "string", "default": "TCP"}, name=_STRING)
_CONTAINER = _object(
    name=_STRING,
    image=_STRING,
    args={**_STRINGS, "x-kubernetes-list-type": "atomic"},
    env={"type": "array", **_BY_NAME, "items": _object(name=_STRING, value=_STRING)},
    ports={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "items": _PORT,
    },
)
_SPEC = {
    **_object(
        replicas={"type": "integer"},
        paused={"type": "boolean"},
        containers={"type": "array", **_BY_NAME, "items": _CONTAINER},
        nodeSelector={
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": _STRING,
        },
        zones={**_STRINGS, "x-kubernetes-list-type": "set"},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        limits={"type": "object", "additionalProperties": _object(soft={"type": "integer"}, hard={"type": "integer"})},
    ),
    "required": ["containers"],
}
KIND = Compiler().compile(
    {
        "type": "object",
        "properties": {
            "apiVersion": _STRING,
            "kind": _STRING,
            "metadata": {"type": "object"},
            "spec": {**_SPEC, "default": {}},
            "status": _object(ready={"type": "integer"}),
        },
    }
)
MAIN = scope_of(KIND, "apps/v1", ignored=("status",), kind="Workload")
STATUS = scope_of(KIND, "apps/v1", "status", ignored=("spec", "metadata"))
CUSTOM = scope_of(KIND, "apps/v1", ignored=("status",), builtin=False)


def workload(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """An object as a client writes it."""
    obj = {"apiVersion": "apps/v1", "kind": "Workload", "metadata": {"name": "w", "namespace": "n", **metadata}}
    return copy.deepcopy(obj if spec is None else {**obj, "spec": spec})


def stored(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """An object as the server keeps it."""
    return workload(spec, **{"uid": "u-1", "resourceVersion": "5", **metadata})
