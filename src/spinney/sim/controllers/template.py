"""Pods and other children from the templates of their owners; templates stay what their authors wrote.

Never shares a part of an owner with a child: what is changed is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spinney.core.expansion.objects import short_hash
from spinney.sim.objects import Json, Pod


def owner_reference(owner: Json) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_for(
    owner: Json,
    name: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, object] | None = None,
) -> Json:
    """A pod of the owner's template, with what the owner adds."""
    template = owner["spec"]["template"]
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), **(labels or {})},
            "annotations": {**(metadata.get("annotations") or {}), **(annotations or {})},
            "finalizers": list(metadata.get("finalizers") or ()),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {**template["spec"], **(spec or {})},
    }


def template_hash(template: Json, collisions: int = 0) -> str:
    """A short name for a template, the same for the same template."""
    return short_hash([template, collisions])


def owned(pods: Iterable[Pod], owner: Json) -> list[Pod]:
    """The pods an owner controls, by uid."""
    uid = owner["metadata"]["uid"]
    return [pod for pod in pods if (ref := pod.metadata.controller) is not None and ref.uid == uid]


def expendable_first(pods: Iterable[Pod]) -> list[Pod]:
    """The order in which pods are given up: unbound, pending, not ready, youngest; then by name."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}
    by_name = sorted(pods, key=lambda pod: pod.metadata.name)
    by_age = sorted(by_name, key=lambda pod: pod.metadata.creation_timestamp or "", reverse=True)
    return sorted(by_age, key=lambda pod: (bool(pod.spec.node_name), phases.get(pod.status.phase, 3), pod.ready))


def count_of(value: object, total: int, round_up: bool) -> int:
    """An int-or-string such as 1 or "25%" of a total."""
    if isinstance(value, str) and value.endswith("%"):
        scaled = int(value[:-1]) * total
        return -(-scaled // 100) if round_up else scaled // 100
    return int(str(value))
