"""Children that nobody owns, as after `kubectl delete --cascade=orphan`: the next owner who selects them has them.

Pure. Never takes a child from anybody, nor one that is ending.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_apimachinery.selectors import from_object
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import ResourcePath
from spinney.sim.controllers.effects import Patch, ref_of, state_of
from spinney.sim.controllers.template import owner_reference
from spinney.sim.objects import Json, Pod
from spinney.sim.resources import PODS


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
