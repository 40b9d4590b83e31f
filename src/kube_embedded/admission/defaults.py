"""Small things that are set where the user left them open: tolerations of pods, the storage class of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kube_apimachinery.admission import Object

_WAIT_S = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def with_tolerations(pod: Object) -> Object | None:
    """Every pod stays five minutes on a node that is not ready or not reachable, unless it says how long itself."""
    spec = pod.get("spec") or {}
    own: list[dict[str, Any]] = spec.get("tolerations") or []
    missing = [_toleration(taint) for taint in _TAINTS if not any(_covers(one, taint) for one in own)]
    return {**pod, "spec": {**spec, "tolerations": [*own, *missing]}} if missing else None


def _covers(toleration: dict[str, Any], taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _toleration(taint: str) -> dict[str, Any]:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _WAIT_S}


class DefaultStorageClass:
    """Knows the default class until `forget` is called, which every change of a storage class must do."""

    def __init__(self, classes: Callable[[], Iterable[Object]]) -> None:
        self._classes = classes
        self._known: str | None = None
        self._fresh = False

    def forget(self) -> None:
        self._fresh = False

    def with_class(self, claim: Object) -> Object | None:
        spec = claim.get("spec") or {}
        annotations = (claim.get("metadata") or {}).get("annotations") or {}
        if spec.get("storageClassName") is not None or "volume.beta.kubernetes.io/storage-class" in annotations:
            return None
        name = self._default()
        return {**claim, "spec": {**spec, "storageClassName": name}} if name is not None else None

    def _default(self) -> str | None:
        """Of several, the newest, and of equally new ones the first by name."""
        if not self._fresh:
            marked = sorted((one["metadata"] for one in self._classes() if _is_default(one)), key=lambda m: m["name"])
            marked.sort(key=lambda metadata: str(metadata.get("creationTimestamp", "")), reverse=True)
            self._known = marked[0]["name"] if marked else None
            self._fresh = True
        return self._known


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in _DEFAULT_CLASS)
