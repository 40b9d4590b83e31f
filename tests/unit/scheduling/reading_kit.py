"""Pods and PodGroups in few words."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang, read_gang

RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
CONTEXT = Context(RESOURCES)


def pod(name: str, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    """A pod of one GPU unless its spec says otherwise."""
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata},
        "spec": {"containers": [container({"nvidia.com/gpu": "1"})], **(spec or {})},
        "status": {"phase": "Pending", **(status or {})},
    }
    return msgspec.convert(body, Pod)


def member(
    name: str, leaf: str | None = None, node: str = "", gpus: int = 1, labels: dict[str, str] | None = None, **more: Any
) -> Pod:
    """A pod of a leaf, bound where a node is given."""
    spec: dict[str, Any] = {"containers": [container({"nvidia.com/gpu": str(gpus)})], **more.pop("spec", {})}
    if node:
        spec["nodeName"] = node
    given = dict(labels or {})
    if leaf is not None:
        given["kai.scheduler/subgroup-name"] = leaf
    return pod(name, spec, more.pop("status", {"phase": "Running"} if node else None), labels=given, **more)


def members(count: int, leaf: str | None = None, start: int = 0, **more: Any) -> list[Pod]:
    return [member(f"{leaf or 'p'}-{index}", leaf, **more) for index in range(start, start + count)]


def container(requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests or {}}, **more}


def podgroup(spec: dict[str, Any] | None = None, **metadata: Any) -> PodGroup:
    return msgspec.convert(
        {"metadata": {"name": "gang", "namespace": "ns", "uid": "uid-gang", **metadata}, "spec": spec or {}}, PodGroup
    )


def subgroup(name: str, min_member: int | None = None, parent: str | None = None, **more: Any) -> dict[str, Any]:
    given = {"name": name, "minMember": min_member, "parent": parent, **more}
    return {key: value for key, value in given.items() if value is not None}


def queue(name: str, parent: str = "", priority: int | None = None, **resources: dict[str, float]) -> Queue:
    """Resources that are not given are unlimited."""
    free = {"quota": -1, "limit": -1}
    shares = {kind: {**free, **resources.get(kind, {})} for kind in ("gpu", "cpu", "memory")}
    spec = {"parentQueue": parent, "priority": priority, "resources": shares}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)


def reading(spec: dict[str, Any], pods: list[Pod], context: Context = CONTEXT, **metadata: Any) -> ParsedGang:
    return read_gang(podgroup(spec, **metadata), pods, context)


def waiting_names(found: ParsedGang) -> dict[str, list[str]]:
    return {path: [each.key[1] for each in pods] for path, pods in found.waiting.items()}
