"""LimitRanges: what a container gets that asks for nothing, and how little or much anything may ask for.

Costs one look-up in a dict where a namespace has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kube_apimachinery import quantity
from kube_apimachinery.admission import AdmissionRequest, Object
from kube_embedded.admission import chain

_ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, Any]


class LimitRanger:
    """Knows the LimitRanges until `forget` is called, which every change of one must do."""

    def __init__(self, ranges: Callable[[], Iterable[Object]]) -> None:
        self._ranges = ranges
        self._by_namespace: dict[str, list[Object]] | None = None

    def forget(self) -> None:
        self._by_namespace = None

    def has_none(self, namespace: str) -> bool:
        return not self._of(namespace)

    def with_defaults(self, request: AdmissionRequest) -> Object | None:
        """The pod with the defaults of its namespace's ranges, and a note of what was set."""
        pod = request.object
        for limit_range in self._of(request.namespace):
            pod = _defaulted(pod or {}, limit_range)
        return None if pod is request.object else pod

    def check(self, request: AdmissionRequest) -> None:
        if request.object is None or (request.resource == "pods" and request.operation == "UPDATE"):
            return
        for limit_range in self._of(request.namespace):
            complaints = [c for limit in limit_range["spec"]["limits"] for c in _complaints(limit, request)]
            if complaints:
                why = complaints[0] if len(complaints) == 1 else f"[{', '.join(dict.fromkeys(complaints))}]"
                raise chain.forbidden(request, why)

    def _of(self, namespace: str) -> list[Object]:
        if self._by_namespace is None:
            found: dict[str, list[Object]] = {}
            for one in sorted(self._ranges(), key=lambda one: str(one["metadata"]["name"])):
                found.setdefault(one["metadata"]["namespace"], []).append(one)
            self._by_namespace = found
        return self._by_namespace.get(namespace, [])


def _defaulted(pod: Object, limit_range: Object) -> Object:
    containers = [limit for limit in limit_range["spec"]["limits"] if limit.get("type") == "Container"]
    limits = {k: v for limit in containers for k, v in (limit.get("default") or {}).items()}
    requests = {k: v for limit in containers for k, v in (limit.get("defaultRequest") or {}).items()}
    notes: list[str] = []
    spec = dict(pod.get("spec") or {})
    for field, word in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(field):
            spec[field] = [_filled(one, requests, limits, word, notes) for one in spec[field]]
    if not notes:
        return pod
    metadata = pod.get("metadata") or {}
    noted = {**(metadata.get("annotations") or {}), _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**pod, "metadata": {**metadata, "annotations": noted}, "spec": spec}


def _filled(container: Object, requests: Amounts, limits: Amounts, word: str, notes: list[str]) -> Object:
    resources = dict(container.get("resources") or {})
    for field, shown, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
        missing = {k: v for k, v in defaults.items() if k not in (resources.get(field) or {})}
        if missing:
            resources[field] = {**(resources.get(field) or {}), **missing}
            notes.append(f"{', '.join(sorted(missing))} {shown} for {word} {container['name']}")
    return {**container, "resources": resources} if resources else container


def _complaints(limit: Object, request: AdmissionRequest) -> Iterator[str]:
    kind, spec = limit["type"], (request.object or {}).get("spec") or {}
    if kind == "PersistentVolumeClaim" and request.resource == "persistentvolumeclaims":
        wanted = (spec.get("resources") or {}).get("requests") or {}
        yield from _too_little(limit, wanted, {})
        yield from _too_much(limit, "request", wanted, {})
    elif request.resource == "pods" and kind in ("Container", "Pod"):
        for requests, limits in _amounts(kind, spec):
            yield from _too_little(limit, requests, limits)
            yield from _too_much(limit, "limit", limits, requests)
            yield from _too_stretched(limit, requests, limits)


def _amounts(kind: str, spec: Object) -> Iterator[tuple[Amounts, Amounts]]:
    main, init = spec.get("containers") or [], spec.get("initContainers") or []
    if kind == "Container":
        for container in (*main, *init):
            yield _stated(container, "requests"), _stated(container, "limits")
    else:
        yield _total(main, init, "requests"), _total(main, init, "limits")


def _stated(container: Object, field: str) -> Amounts:
    stated: Amounts = (container.get("resources") or {}).get(field) or {}
    return stated


def _total(main: list[Object], init: list[Object], field: str) -> Amounts:
    """The sum of those that run together, or the largest that runs before them."""
    together = [*main, *(one for one in init if one.get("restartPolicy") == "Always")]
    total: dict[str, int] = {}
    for container in together:
        for name, amount in _stated(container, field).items():
            total[name] = total.get(name, 0) + quantity.milli(amount)
    for container in init:
        for name, amount in _stated(container, field).items():
            total[name] = max(total.get(name, 0), quantity.milli(amount))
    return {name: quantity.canonical(f"{amount}m") for name, amount in total.items()}


def _too_little(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in (limit.get("min") or {}).items():
        rule = f"minimum {name} usage per {limit['type']} is {quantity.canonical(least)}"
        if name not in requests:
            yield f"{rule}.  No request is specified"
        elif quantity.compare(requests[name], least) < 0:
            yield f"{rule}, but request is {quantity.canonical(requests[name])}"
        elif name in limits and quantity.compare(limits[name], least) < 0:
            yield f"{rule}, but limit is {quantity.canonical(limits[name])}"


def _too_much(limit: Object, word: str, amounts: Amounts, others: Amounts) -> Iterator[str]:
    """`amounts` must be there, `others` (requests, beside limits) may be."""
    for name, most in (limit.get("max") or {}).items():
        rule = f"maximum {name} usage per {limit['type']} is {quantity.canonical(most)}"
        if name not in amounts:
            yield f"{rule}.  No {word} is specified"
        elif quantity.compare(amounts[name], most) > 0:
            yield f"{rule}, but {word} is {quantity.canonical(amounts[name])}"
        elif name in others and quantity.compare(others[name], most) > 0:
            yield f"{rule}, but request is {quantity.canonical(others[name])}"


def _too_stretched(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in (limit.get("maxLimitRequestRatio") or {}).items():
        rule = f"{name} max limit to request ratio per {limit['type']} is {quantity.canonical(most)}"
        asked, allowed = quantity.milli(requests.get(name, 0)), quantity.milli(limits.get(name, 0))
        if not asked:
            yield f"{rule}, but no request is specified or request is 0"
        elif not allowed:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif allowed * 1000 > quantity.milli(most) * asked:
            yield f"{rule}, but provided ratio is {allowed / asked:.6f}"
