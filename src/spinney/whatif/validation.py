"""Offline admission: schema validation, defaulting and admission rules, for manifests and for planned pods.

By the server's own rules, for planned pods with the PriorityClasses and LimitRanges of the simulated cluster. Never
writes anything; with a cluster it only reads the objects that the rules need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_apimachinery.field_errors import OMITTED, ErrorType, FieldError, forbidden, not_supported
from kube_embedded.admission.builtin_plugins import DefaultStorageClass, Priority, with_tolerations
from kube_embedded.admission.limit_ranger import LimitRanger
from kube_embedded.base.errors import ApiError
from kube_embedded.base.resource import Context, Resource
from kube_embedded.builtins.common.metadata import SUBDOMAIN, validate_metadata
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.decode import conform
from kube_embedded.builtins.kinds import apps, batch
from kube_embedded.builtins.pod.defaults import default_pod
from kube_embedded.builtins.pod.spec import check_images, check_pod_spec
from kube_embedded.customresources.strategy import metadata_error, resources
from kube_embedded.schema.shaping import prune
from spinney.api.changes import Json
from spinney.api.crds import Conversion, crd
from spinney.api.crds.catalog import DEFINITIONS
from spinney.api.dynamo_conversion import ConversionError, from_list_form
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.core.admission.decoding import part
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.serve.webhook.handler import AdmissionUnion
from spinney.serve.webhook.live_lookup import Reader, ask
from spinney.whatif.inputs.manifests import Manifest, ManifestError
from spinney.whatif.simulator import ClusterSimulator

_MISSHAPEN = (KeyError, TypeError, AttributeError, ValueError)


class PodRefused(ValueError):
    """The server would refuse the pod; the text says why."""


class PodAdmission:
    """Admits pods into a simulated cluster; `limit_ranges` as the server returns them."""

    def __init__(self, simulator: ClusterSimulator, limit_ranges: Sequence[Object] = ()) -> None:
        self._classes = _Classes(simulator)
        self._priority = Priority(lambda: map(_plain, simulator.views.priority_classes))
        self._storage = DefaultStorageClass(lambda: map(_plain, simulator.views.storage_classes))
        self._limits = LimitRanger(lambda: limit_ranges)

    def pod(self, body: Object, *, check: bool = True) -> Object:
        """A copy with the server's defaults. Raises PodRefused; `check=False` is for pods that are admitted already."""
        pod = _copied(body)
        metadata = pod["metadata"]
        for name in ("labels", "annotations"):
            metadata[name] = metadata.get(name) or {}
        try:
            default_pod(pod)
            pod = self._mutated(pod) if check else pod
            if check:
                self._check(pod)
        except ApiError as error:
            raise PodRefused(f"{_workload_title(pod)}: {error}") from None
        except _MISSHAPEN as error:
            if isinstance(error, PodRefused):
                raise
            raise PodRefused(f"{_workload_title(pod)}: spec is of the wrong shape: {error}") from None
        return pod

    def claim(self, body: Object) -> Object:
        return self._storage.with_class(body) or body

    def _mutated(self, pod: Object) -> Object:
        pod = self._priority.resolve(_create_request(pod), self._classes) or pod
        pod = with_tolerations(pod) or pod
        return self._limits.with_defaults(_create_request(pod)) or pod

    def _check(self, pod: Object) -> None:
        errors = check_pod_spec(pod["spec"]) + check_images(pod["spec"])
        if errors:
            raise PodRefused(f"{_workload_title(pod)}: {errors[0]}")
        self._limits.check(_create_request(pod))


class _Classes:
    """The lookup of PriorityClasses for the admission rules."""

    def __init__(self, simulator: ClusterSimulator) -> None:
        self._views = simulator.views

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


def _workload_title(pod: Object) -> str:
    return f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _create_request(pod: Object) -> AdmissionRequest:
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
    ("batch/v1", "Job"): batch.JOBS,
    ("batch/v1", "CronJob"): batch.CRON_JOBS,
    ("apps/v1", "Deployment"): apps.DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): apps.REPLICA_SETS,
    ("apps/v1", "StatefulSet"): apps.STATEFUL_SETS,
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
    for name in _TEXTS:
        found = metadata.get(name)
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            kept[name] = found
    return {"metadata": kept}


_CONTEXT = Context(0.0)
_RULES_UNCHECKED = "<nil>"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The admission result of one manifest. `admitted`: the object with its defaults, unless it is refused."""

    manifest: Manifest
    object: str
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    judged: bool = True  # False: not one of our kinds
    admitted: Object | None = None

    @property
    def verdict(self) -> str:
        return "refused" if self.errors else "allowed" if self.judged else "skipped"

    def to_json(self) -> dict[str, Any]:
        return {
            "where": self.manifest.where,
            "object": self.object,
            "verdict": self.verdict,
            "errors": [_shown(error) for error in self.errors],
            "warnings": list(self.warnings),
        }


def _shown(error: FieldError) -> dict[str, Any]:
    shown = {"field": error.path, "reason": error.type.value, "detail": error.detail, "message": str(error)}
    hidden = error.value is OMITTED or error.value is None
    return shown if hidden else {**shown, "found": error.value}


class KnownObjects:
    """Objects in memory that take precedence over a cluster, if there is one."""

    def __init__(self, cluster: Reader | None) -> None:
        self._cluster = cluster
        self._objects: dict[tuple[str, str, str, str], Object] = {}

    def put(self, group: str, plural: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self._objects[group, plural, metadata.get("namespace", ""), metadata["name"]] = obj

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        own = self._objects.get((group, plural, namespace, name))
        if own is not None or self._cluster is None:
            return own
        return await self._cluster.get(group, plural, namespace, name)

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        """Objects of the cluster only: objects in memory have no running pods."""
        return await self._cluster.list(group, plural, namespace, labels) if self._cluster is not None else ()


class Validator:
    """Validates manifests in order; admitted objects exist for those that follow."""

    def __init__(self, settings: AdmissionSettings, cluster: Reader | None = None) -> None:
        graphs = DynamoAdmission(DynamoAdmissionSettings(default_topology=settings.default_topology))
        self._rules = AdmissionUnion((OperatorAdmission(settings), graphs))
        self._known = KnownObjects(cluster)

    def know_default(self, configuration: OperatorConfiguration) -> None:
        """The default topology that an operator with this configuration would write."""
        if configuration.topology_enabled and configuration.writes_default_topology:
            levels = [msgspec.to_builtins(one) for one in configuration.topology_aware_scheduling.levels]
            obj = {"metadata": {"name": configuration.default_topology}, "spec": {"levels": levels}}
            self._known.put(ClusterTopology.GROUP, ClusterTopology.PLURAL, obj)

    async def know_topologies(self, manifests: Sequence[Manifest]) -> None:
        """Add topologies that count as existing in the cluster; each must pass admission."""
        for manifest in manifests:
            kinds = (ClusterTopology.KIND, ClusterTopologyBinding.KIND)
            if manifest.kind not in kinds:
                raise ManifestError(f"{manifest}: found kind {manifest.kind}, expected {' or '.join(kinds)}")
            judgement = await self.judge(manifest)
            if judgement.errors:
                raise ManifestError(f"{manifest}: {judgement.errors[0]}")

    async def judge(self, manifest: Manifest) -> ValidationResult:
        content = _in_a_served_form(manifest)
        resource = _resource(content["apiVersion"], manifest.kind)
        if resource is None:
            misspelt = _misspelt(content["apiVersion"], manifest.kind)
            return ValidationResult(manifest, _title(content, ""), misspelt, judged=bool(misspelt))
        obj: Object = msgspec.json.decode(msgspec.json.encode(content))
        if complaint := metadata_error(obj, resource.schema):
            error = FieldError("metadata", ErrorType.TYPE_INVALID, OMITTED, complaint)
            return ValidationResult(manifest, _title(content, ""), (error,))
        namespace = _place(obj, resource)
        errors = [forbidden(path, "unknown field") for path in prune(obj, resource.schema)]
        resource.strategy.default(obj)
        old = await self._known.get(resource.group, resource.plural, namespace, manifest.name)
        request = _request(resource, namespace, manifest.name, obj, old)
        if self._rules.handles(request):
            changed = (await ask(self._rules.mutate, request, self._known)).object
            obj = obj if changed is None else changed
        errors += _schema_errors(resource, obj, old)
        more, warnings = await self._by_rules(msgspec.structs.replace(request, object=obj), bool(errors))
        unique = tuple({str(error): error for error in (*errors, *_new(more, errors))}.values())
        if not unique:
            self._known.put(resource.group, resource.plural, obj)
        admitted = None if unique else obj
        return ValidationResult(manifest, _title(content, namespace), unique, warnings, admitted=admitted)

    async def _by_rules(self, request: AdmissionRequest, already: bool) -> tuple[list[FieldError], tuple[str, ...]]:
        """Errors and warnings of the rules; type errors that the schema has already reported are dropped."""
        if not self._rules.handles(request):
            return [], ()
        verdict = await ask(self._rules.validate, request, self._known)
        errors = [error for error in verdict.errors if not (already and error.type is ErrorType.TYPE_INVALID)]
        if verdict.message:
            errors.append(FieldError("", ErrorType.INTERNAL, None, verdict.message))
        return errors, verdict.warnings


def _new(errors: Sequence[FieldError], known: Sequence[FieldError]) -> list[FieldError]:
    """Rule errors that the schema has not reported already."""
    return [error for error in errors if not any(_covers(one, error) for one in known)]


def _covers(known: FieldError, error: FieldError) -> bool:
    """Whether `known` covers `error`: the same unsupported value, or the same detail at the field or around it."""
    unknown = (known.path, known.type) == (error.path, error.type) and error.type is ErrorType.NOT_SUPPORTED
    around = error.path.startswith(known.path) and bool(error.detail) and known.detail.endswith(error.detail)
    return unknown or around


def _in_a_served_form(manifest: Manifest) -> Object:
    """Convert a deployment that lists its services, a form that no served API version has (D12)."""
    content = manifest.content
    listed = isinstance(part(content, "spec").get("services"), list)
    if not (listed and manifest.kind == DynamoGraphDeployment.KIND):
        return content
    try:
        return from_list_form(content)
    except ConversionError as error:
        raise ManifestError(f"{manifest}: {error}") from error


@lru_cache(maxsize=64)
def _resource(api_version: str, kind: str) -> Resource | None:
    """The served resource of one of our kinds in a version; its schema is compiled on first use."""
    if kind not in (one.stored.KIND for one in DEFINITIONS):
        return None
    served = resources(crd(kind, Conversion()))
    return next((one for one in served if one.group_version == api_version), None)


def _misspelt(api_version: str, kind: str) -> tuple[FieldError, ...]:
    """The error for one of our kinds with an unknown version or wrong capitalisation."""
    group = api_version.rpartition("/")[0]
    for stored in (one.stored for one in DEFINITIONS):
        if (group, kind.lower()) != (stored.GROUP, stored.KIND.lower()):
            continue
        if kind != stored.KIND:
            return (not_supported("kind", kind, (stored.KIND,)),)
        served = tuple(one.group_version for one in resources(crd(kind, Conversion())))
        return (not_supported("apiVersion", api_version, served),)
    return ()


def _place(obj: Object, resource: Resource) -> str:
    """The namespace of the object; set to `default` if it is missing."""
    if not resource.namespaced:
        obj["metadata"].pop("namespace", None)
        return ""
    obj["metadata"]["namespace"] = str(obj["metadata"].get("namespace") or "default")
    return str(obj["metadata"]["namespace"])


def _schema_errors(resource: Resource, obj: Object, old: Object | None) -> list[FieldError]:
    strategy = resource.strategy
    if old is None:
        strategy.prepare_create(obj, _CONTEXT)
        found = strategy.validate_create(obj)
    else:
        found = strategy.validate_update(obj, old)
    found = validate_metadata(obj, resource.namespaced, SUBDOMAIN, any_finalizer=True) + found
    return [error for error in found if error.path != _RULES_UNCHECKED]


def _request(resource: Resource, namespace: str, name: str, obj: Object, old: Object | None) -> AdmissionRequest:
    return AdmissionRequest(
        uid="",
        operation="CREATE" if old is None else "UPDATE",
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        resource=resource.plural,
        subresource="",
        namespace=namespace,
        name=name,
        user="",
        groups=(),
        object=obj,
        old_object=old,
        dry_run=True,
    )


def _title(content: Object, namespace: str) -> str:
    name = content["metadata"]["name"]
    return f"{content['kind']} {namespace}/{name}" if namespace else f"{content['kind']} {name}"
