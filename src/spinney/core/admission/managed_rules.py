"""What the operator made for a set is the operator's to change, where the authorizer is switched on.

The set itself is always its user's; pods may always be deleted; and the garbage collector, the namespace controller and
whoever scales get through in any case (INV8).
"""

from __future__ import annotations

from spinney.api.admission import AdmissionRequest, Lookup, Verdict
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_MANAGED_BY, APP_PART_OF, DISABLE_PROTECTION, MANAGED_BY_OPERATOR
from spinney.core.admission.reading import part, text
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


def judge_managed(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup) -> Verdict:
    labels = part(request.old_object, "metadata", "labels")
    owner = text(labels.get(APP_PART_OF))
    if labels.get(APP_MANAGED_BY) != MANAGED_BY_OPERATOR or not owner or request.user in exempt_users(settings):
        return Verdict()
    if (request.resource, request.operation) == ("pods", "DELETE"):
        return Verdict()
    found = part(lookup(PodCliqueSet.GROUP, PodCliqueSet.PLURAL, request.namespace, owner), "metadata")
    released = text(part(found, "annotations").get(DISABLE_PROTECTION)) == "true"
    if not found or found.get("deletionTimestamp") or released:
        return Verdict()
    return Verdict(False, message=_refusal(request, owner))


def _refusal(request: AdmissionRequest, owner: str) -> str:
    done = "deleted" if request.operation == "DELETE" else "changed"
    return (
        f'it is managed for PodCliqueSet "{request.namespace}/{owner}" and may not be {done} by "{request.user}": '
        f"change the PodCliqueSet, or annotate it with {DISABLE_PROTECTION}=true"
    )
