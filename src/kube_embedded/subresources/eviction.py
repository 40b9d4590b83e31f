"""Evict a pod: a deletion that asks the pod's disruption budget first."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.selectors import from_object
from kube_embedded.base.errors import ApiError, too_many_requests
from kube_embedded.requests.deletion import DeleteOptions, delete, parse_options
from kube_embedded.requests.kernel import Call, Kernel

_BUDGETS = "policy/poddisruptionbudgets"
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


async def evict(kernel: Kernel, call: Call, eviction: Object) -> Object:
    """Delete the pod if its budget allows it; returns the Status that answers the request."""
    record = kernel.existing(call.resource, call.target.namespace, call.target.name)
    pod = kernel.decode(record, call.resource)
    options = parse_options({**call.query}, eviction.get("deleteOptions"))
    if not _may_go_freely(pod):
        _take_disruption(kernel, pod, options)
    await delete(kernel, call, options, asked=True, mark=lambda obj: _mark_disrupted(kernel, obj))
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _may_go_freely(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _take_disruption(kernel: Kernel, pod: Object, options: DeleteOptions) -> None:
    found = _budgets(kernel, pod)
    if len(found) > 1:
        raise ApiError(500, "", _MANY)
    if not found:
        return
    budget = found[0]
    if not _is_ready(pod) and _spares_unhealthy(budget):
        return
    _check(budget)
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = kernel.timestamp()
    resource = kernel.registry.find("policy", "v1", "poddisruptionbudgets")
    if resource is not None and not options.dry_run:
        kernel.save(resource, budget)


def _check(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(_REFUSED, 10, _cause(why))
    if status.get("disruptionsAllowed", 0) <= 0:
        why = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise too_many_requests(_REFUSED, 0, _cause(why))


def _cause(message: str) -> dict[str, Any]:
    return {"causes": [{"reason": "DisruptionBudget", "message": message}]}


def _budgets(kernel: Kernel, pod: Object) -> list[Object]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    found = []
    for record in kernel.store.collection(_BUDGETS).after(None):
        if record.namespace != namespace:
            continue
        budget = kernel.lookup("policy", "poddisruptionbudgets", namespace, record.name)
        if budget is not None and from_object((budget.get("spec") or {}).get("selector")).matches(labels):
            found.append(budget)
    return found


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _spares_unhealthy(budget: Object) -> bool:
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _mark_disrupted(kernel: Kernel, pod: Object) -> None:
    """Say on the pod why it goes; watchers see it with the deletion."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one["type"] != "DisruptionTarget"]
    conditions.append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": kernel.timestamp(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
    )
