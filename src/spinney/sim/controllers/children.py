"""Children of workloads: made from their owner's template; orphans that it selects are adopted.

Pure. Never shares a part of an owner with a child (what is changed is copied), never takes a child from anybody, nor
one that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kube_apimachinery.selectors import from_object
from spinney.core.expansion.objects import short_hash
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import ResourcePath
from spinney.sim.controllers.effects import Patch, ref_of, state_of
from spinney.sim.objects import PODS, Json, Pod


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


def adopt_pods(owner: Json, pods: Iterable[Pod]) -> tuple[Patch, ...]:
    """`pods`: those of the owner's namespace that nobody owns."""
    return tuple(
        Patch(
            PODS.ref(pod.metadata.name, pod.metadata.namespace),
            _owned_by(owner),
            Precondition(pod.metadata.uid, pod.metadata.resource_version),
        )
        for pod in pods
        if not pod.leaving and not pod.finished and _selects(owner, pod.metadata.labels)
    )


def adopt(owner: Json, resource: ResourcePath, objects: Iterable[Json]) -> tuple[Patch, ...]:
    """`objects`: those of one kind in the owner's namespace."""
    return tuple(
        Patch(ref_of(resource, each), _owned_by(owner), state_of(each))
        for each in objects
        if not each["metadata"].get("ownerReferences")
        and not each["metadata"].get("deletionTimestamp")
        and _selects(owner, each["metadata"].get("labels") or {})
    )


def _selects(owner: Json, labels: dict[str, str]) -> bool:
    """An owner on its way out takes nobody over."""
    return not owner["metadata"].get("deletionTimestamp") and from_object(owner["spec"]["selector"]).matches(labels)


def _owned_by(owner: Json) -> Json:
    return {"metadata": {"ownerReferences": [owner_reference(owner)]}}
