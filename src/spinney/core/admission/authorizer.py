"""What the operator made for a set is the operator's to change, where the authorizer is switched on.

The set itself is always its user's; pods may always be deleted; the scheduler marks pods as it has to; and the garbage
collector, the namespace controller, whoever scales and whoever takes a finalizer away get through in any case (INV8).
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_MANAGED_BY, APP_PART_OF, DISABLE_PROTECTION, MANAGED_BY_OPERATOR
from spinney.api.reserved_keys import SCHEDULER_POD_KEYS
from spinney.core.admission.decoding import part, text
from spinney.core.admission.settings import AdmissionSettings

PROTECTED = frozenset(
    {
        ("", "pods"),
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("grove.io", "podcliques"),
        ("grove.io", "podcliquescalinggroups"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
        ("resource.k8s.io", "resourceclaims"),
        ("scheduler.grove.io", "podgangs"),
    }
)
OPERATIONS = ("UPDATE", "DELETE")
CLUSTER_USERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
"""Who cleans up, in every cluster."""


def exempt_users(settings: AdmissionSettings) -> frozenset[str]:
    return settings.operator_users | settings.exempt_users | frozenset(CLUSTER_USERS)


def authorize(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup) -> Verdict:
    labels = part(request.old_object, "metadata", "labels")
    owner = text(labels.get(APP_PART_OF))
    if labels.get(APP_MANAGED_BY) != MANAGED_BY_OPERATOR or not owner or request.user in exempt_users(settings):
        return Verdict()
    if (request.resource, request.operation) == ("pods", "DELETE") or is_leaving(request):
        return Verdict()
    if is_scheduling(request, settings):
        return Verdict()
    found = part(lookup(PodCliqueSet.GROUP, PodCliqueSet.PLURAL, request.namespace, owner), "metadata")
    released = text(part(found, "annotations").get(DISABLE_PROTECTION)) == "true"
    if not found or found.get("deletionTimestamp") or released:
        return Verdict()
    return Verdict(False, message=_refusal(request, owner))


def is_leaving(request: AdmissionRequest) -> bool:
    """Being deleted, and nothing asked of it but to lose finalizers."""
    old, obj = request.old_object, request.object
    if request.operation != "UPDATE" or not part(old, "metadata").get("deletionTimestamp"):
        return False
    return _beside(old, frozenset(), "finalizers") == _beside(obj, frozenset(), "finalizers")


def is_scheduling(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """The scheduler marks a pod: with its gang, its place, or that a place was given up. Nothing else is changed."""
    if request.user not in settings.scheduler_users or request.operation != "UPDATE":
        return False
    if (request.group, request.resource) != ("", "pods"):
        return False
    return _beside(request.old_object, SCHEDULER_POD_KEYS) == _beside(request.object, SCHEDULER_POD_KEYS)


def _beside(obj: Object | None, keys: frozenset[str], *fields: str) -> dict[str, Any]:
    """An object without these labels and annotations, these fields of its metadata, and what the server keeps there."""
    metadata = part(obj, "metadata")
    kept = {key: value for key, value in metadata.items() if key not in (*_BOOKKEEPING, *_MARKED, *fields)}
    marks = {name: {key: value for key, value in part(metadata, name).items() if key not in keys} for name in _MARKED}
    return {**part(obj), "metadata": {**kept, **marks}}


_MARKED = ("labels", "annotations")
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation")


def _refusal(request: AdmissionRequest, owner: str) -> str:
    done = "deleted" if request.operation == "DELETE" else "changed"
    return (
        f'it is managed for PodCliqueSet "{request.namespace}/{owner}" and may not be {done} by "{request.user}": '
        f"change the PodCliqueSet, or annotate it with {DISABLE_PROTECTION}=true"
    )
