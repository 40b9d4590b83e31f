"""Planned pods and claims as an API server would take them: its defaults, and what it refuses.

The server's own rules for pods, over the classes and limits of a copy of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spinney.api.admission import AdmissionRequest, Object
from spinney.cli.plan_shadow import Shadow
from spinney.serve.apiserver.admission.defaults import DefaultStorageClass, with_tolerations
from spinney.serve.apiserver.admission.limits import LimitRanger
from spinney.serve.apiserver.admission.priority import Priority
from spinney.serve.apiserver.builtins.pod_defaults import default_pod
from spinney.serve.apiserver.builtins.pod_spec import check_images, check_pod_spec
from spinney.serve.apiserver.errors import ApiError

_MISSHAPEN = (KeyError, TypeError, AttributeError, ValueError)


class PodRefused(ValueError):
    """The server would not have the pod; the text says why."""


class Gatekeeper:
    """Over the views of a shadow; `limit_ranges` as the server gives them."""

    def __init__(self, shadow: Shadow, limit_ranges: Sequence[Object] = ()) -> None:
        self._classes = _Classes(shadow)
        self._priority = Priority(lambda: map(_plain, shadow.views.priority_classes))
        self._storage = DefaultStorageClass(lambda: map(_plain, shadow.views.storage_classes))
        self._limits = LimitRanger(lambda: limit_ranges)

    def pod(self, body: Object, *, check: bool = True) -> Object:
        """A copy with what the server adds. Raises PodRefused; one that is not checked has been taken before."""
        pod = _copied(body)
        metadata = pod["metadata"]
        for part in ("labels", "annotations"):
            metadata[part] = metadata.get(part) or {}
        try:
            default_pod(pod)
            pod = self._mutated(pod) if check else pod
            if check:
                self._check(pod)
        except ApiError as error:
            raise PodRefused(f"{_title(pod)}: {error}") from None
        except _MISSHAPEN as error:
            if isinstance(error, PodRefused):
                raise
            raise PodRefused(f"{_title(pod)}: spec is of the wrong shape: {error}") from None
        return pod

    def claim(self, body: Object) -> Object:
        return self._storage.with_class(body) or body

    def _mutated(self, pod: Object) -> Object:
        pod = self._priority.resolve(_request(pod), self._classes) or pod
        pod = with_tolerations(pod) or pod
        return self._limits.with_defaults(_request(pod)) or pod

    def _check(self, pod: Object) -> None:
        errors = check_pod_spec(pod["spec"]) + check_images(pod["spec"])
        if errors:
            raise PodRefused(f"{_title(pod)}: {errors[0]}")
        self._limits.check(_request(pod))


class _Classes:
    """PriorityClasses as rules look them up."""

    def __init__(self, shadow: Shadow) -> None:
        self._views = shadow.views

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Object | None:
        found = self._views.priority_classes.get(("", name))
        return _plain(found) if found is not None else None

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        return [_plain(one) for one in self._views.priority_classes]


def _plain(thing: Any) -> Object:
    found: Object = msgspec.json.decode(msgspec.json.encode(thing))
    return found


def _copied(body: Object) -> Object:
    found: Object = msgspec.json.decode(msgspec.json.encode(body))
    return found


def _title(pod: Object) -> str:
    return f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _request(pod: Object) -> AdmissionRequest:
    metadata = pod["metadata"]
    return AdmissionRequest(
        uid="",
        operation="CREATE",
        group="",
        version="v1",
        kind="Pod",
        resource="pods",
        subresource="",
        namespace=metadata["namespace"],
        name=metadata["name"],
        user="",
        groups=(),
        object=pod,
        old_object=None,
        dry_run=True,
    )
