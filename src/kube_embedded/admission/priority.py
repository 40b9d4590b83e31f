"""Priority classes: a pod's class becomes a number, and there is at most one default class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object
from kube_embedded.admission import refusal

GROUP = "scheduling.k8s.io"
_PREEMPTS = "PreemptLowerPriority"
Classes = Callable[[], Iterable[Object]]


class Priority:
    """Knows the default class until `forget` is called, which every change of a class must do."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._known: Object | None = None
        self._fresh = False

    def forget(self) -> None:
        self._fresh = False

    def default_class(self) -> Object | None:
        """Of several, which a race may leave behind, the lowest."""
        if not self._fresh:
            defaults = [one for one in self._classes() if one.get("globalDefault")]
            self._known = min(defaults, key=lambda one: (one["value"], one["metadata"]["name"]), default=None)
            self._fresh = True
        return self._known

    def resolve(self, request: AdmissionRequest, lookup: Lookup) -> Object | None:
        """The pod with the number of its class; a number of its own must be that one."""
        pod = request.object
        if pod is None:
            return None
        spec = pod.get("spec") or {}
        if request.operation == "UPDATE":
            return _kept(pod, spec, request.old_object or {})
        resolved = self._resolved(request, spec, lookup)
        return None if resolved.items() <= spec.items() else {**pod, "spec": {**spec, **resolved}}

    def _resolved(self, request: AdmissionRequest, spec: dict[str, Any], lookup: Lookup) -> dict[str, Any]:
        name = spec.get("priorityClassName") or ""
        if name:
            found = lookup(GROUP, "priorityclasses", "", name)
            if found is None:
                raise refusal.forbidden(request, f"no PriorityClass with name {name} was found")
        else:
            found = self.default_class()
        value = found["value"] if found else 0
        policy = found.get("preemptionPolicy", _PREEMPTS) if found else _PREEMPTS
        _refuse_other(request, spec, value, policy)
        resolved = {"priority": value, "preemptionPolicy": policy}
        return {**resolved, "priorityClassName": found["metadata"]["name"]} if found else resolved

    def check_class(self, request: AdmissionRequest) -> None:
        """Only one class may be the default."""
        wanted = request.object or {}
        default = self.default_class() if wanted.get("globalDefault") else None
        if default is None:
            return
        name = default["metadata"]["name"]
        if request.operation == "CREATE" or name != wanted["metadata"]["name"]:
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise refusal.forbidden(request, why)


def _refuse_other(request: AdmissionRequest, spec: dict[str, Any], value: int, policy: str) -> None:
    given, computed = spec.get("priority"), "priority admission controller computed"
    source = "from the given PriorityClass name"
    if given is not None and given != value:
        why = f"the integer value of priority ({given}) must not be provided in pod spec; {computed} {value} {source}"
        raise refusal.forbidden(request, why)
    stated = spec.get("preemptionPolicy")
    if stated is not None and stated != policy:
        where = "must not be provided in pod spec"
        raise refusal.forbidden(
            request, f"the string value of PreemptionPolicy ({stated}) {where}; {computed} {policy} {source}"
        )


def _kept(pod: Object, spec: dict[str, Any], old: Object) -> Object | None:
    """An update that leaves the numbers out keeps them."""
    before = old.get("spec") or {}
    missing = {
        k: before[k] for k in ("priority", "preemptionPolicy") if spec.get(k) is None and before.get(k) is not None
    }
    return {**pod, "spec": {**spec, **missing}} if missing else None
