"""Admission of planned pods, claims and pod owners as an API server does it: defaulting and validation.

Uses the server's own rules with the PriorityClasses and LimitRanges of the simulated cluster. It does not create the
pods of an owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_embedded.admission.builtin_plugins import DefaultStorageClass, Priority, with_tolerations
from kube_embedded.admission.limit_ranger import LimitRanger
from kube_embedded.base.errors import ApiError
from kube_embedded.base.resource import Context
from kube_embedded.builtins.common.metadata import SUBDOMAIN, validate_metadata
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.decode import conform
from kube_embedded.builtins.pod.defaults import default_pod
from kube_embedded.builtins.pod.spec import check_images, check_pod_spec
from kube_embedded.builtins.workload import apps, cronjobs, jobs, statefulsets
from spinney.api.changes import Json
from spinney.whatif.simulator import ClusterSimulator

_MISSHAPEN = (KeyError, TypeError, AttributeError, ValueError)


class PodRefused(ValueError):
    """The server would refuse the pod; the text says why."""


class PodAdmission:
    """Admits pods into a simulated cluster; `limit_ranges` as the server returns them."""

    def __init__(self, shadow: ClusterSimulator, limit_ranges: Sequence[Object] = ()) -> None:
        self._classes = _Classes(shadow)
        self._priority = Priority(lambda: map(_plain, shadow.views.priority_classes))
        self._storage = DefaultStorageClass(lambda: map(_plain, shadow.views.storage_classes))
        self._limits = LimitRanger(lambda: limit_ranges)

    def pod(self, body: Object, *, check: bool = True) -> Object:
        """A copy with the server's defaults. Raises PodRefused; `check=False` is for pods that are admitted already."""
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
    """The lookup of PriorityClasses for the admission rules."""

    def __init__(self, shadow: ClusterSimulator) -> None:
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


_RULES: dict[tuple[str, str], Rules] = {
    ("batch/v1", "Job"): jobs.JOBS,
    ("batch/v1", "CronJob"): cronjobs.CRON_JOBS,
    ("apps/v1", "Deployment"): apps.DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): apps.REPLICA_SETS,
    ("apps/v1", "StatefulSet"): statefulsets.STATEFUL_SETS,
}
_TEXTS = ("labels", "annotations")


def refusals(body: Json) -> tuple[str, ...]:
    """Why a server would refuse the object. Type errors are left out: creating the pods reports them better."""
    rules = _RULES.get((str(body["apiVersion"]), str(body["kind"])))
    obj: Json = msgspec.json.decode(msgspec.json.encode(body))
    if rules is None:
        return tuple(map(str, validate_metadata(_named(obj), True, SUBDOMAIN)))
    if conform(obj, rules.component).errors:
        return ()
    rules.default(obj)
    rules.prepare_create(obj, Context(0.0))
    return tuple(dict.fromkeys(map(str, rules.validate_create(obj))))


def _named(obj: Json) -> Json:
    """The object with only its name, namespace and those labels and annotations that are string maps."""
    metadata: dict[str, Any] = obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace")}
    for part in _TEXTS:
        found = metadata.get(part)
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            kept[part] = found
    return {"metadata": kept}
