"""What Kubernetes' admission plug-ins that are on by default add to pods and claims.

Every function changes the object in place; what it must know of other objects it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spinney.serve.apiserver.builtins.storage import is_default_class
from spinney.serve.apiserver.errors import ApiError, forbidden
from spinney.serve.apiserver.resource import Object

TOLERATED_S = 300
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def add_default_tolerations(pod: Object) -> None:
    """A pod stays 300 s on a node that became not ready or unreachable, unless it says otherwise."""
    tolerations = pod["spec"].get("tolerations") or []
    missing = [key for key in (_NOT_READY, _UNREACHABLE) if not any(_covers(one, key) for one in tolerations)]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S}
            for key in missing
        ]


def _covers(toleration: Object, key: str) -> bool:
    effect = toleration.get("effect", "")
    return toleration.get("key", "") in ("", key) and effect in ("", "NoExecute")


def resolve_priority(
    pod: Object, find: Callable[[str], Object | None], global_default: Callable[[], Object | None]
) -> None:
    """Fill priority and preemptionPolicy from the PriorityClass that the pod names, or from the global default.

    Raises ApiError 403 for a class that does not exist, and for a priority that contradicts its class.
    """
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("priorityClassName", "")
    if name:
        chosen = find(name)
        if chosen is None:
            raise _refused(meta, f"no PriorityClass with name {name} was found")
    else:
        chosen = global_default()
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    priority = chosen.get("value", 0) if chosen is not None else 0
    policy = chosen.get("preemptionPolicy") if chosen is not None else None
    policy = policy or "PreemptLowerPriority"
    _agree(pod, "priority", priority)
    _agree(pod, "preemptionPolicy", policy)
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _agree(pod: Object, field: str, computed: int | str) -> None:
    given = pod["spec"].get(field)
    if given is None or given == computed:
        return
    if field == "priority":
        why = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"  # noqa: E501
    else:
        why = f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"  # noqa: E501
    raise _refused(pod["metadata"], why)


def _refused(meta: Object, why: str) -> ApiError:
    return forbidden("", "pods", meta.get("name", ""), why)


def default_storage_class(claim: Object, classes: Callable[[], Iterable[Object]]) -> None:
    """A claim that says nothing about its class gets the default one, if there is one (the newest of several)."""
    spec = claim["spec"]
    annotated = (claim["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    if "storageClassName" in spec or annotated is not None:
        return
    candidates = [one for one in classes() if is_default_class(one)]
    if candidates:
        newest = max(
            candidates, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"])
        )
        spec["storageClassName"] = newest["metadata"]["name"]
