"""Which built-in kinds are served, under which names, with which verbs and subresources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import ALL_VERBS, Resource, ScalePaths
from kube_embedded.builtins import snapshot
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.builtins.kinds import (
    access,
    apps,
    autoscaling,
    batch,
    core,
    devices,
    events,
    nodes,
    pod_policies,
    services,
    storage,
    webhooks,
)
from kube_embedded.builtins.pod import pods

Converter = Callable[[Object, str], Object]

_REPLICAS = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_WITHOUT_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_ASKED = ("create",)
_EXTENSIONS = ("api-extensions",)
_ALL = ("all",)
_AUTHN, _AUTHZ = "authentication.k8s.io", "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: str
    rules: Rules
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    plural: str = ""
    scale: ScalePaths | None = None
    graceful: bool = False
    storage_version: str = ""
    returns_deleted: bool = False
    conditional: bool = False  # an update must name the version that it is based on


_CORE = (
    _Entry("Binding", access.asked("io.k8s.api.core.v1.Binding", namespaced=True), verbs=_ASKED),
    _Entry("ConfigMap", core.CONFIG_MAPS, ("cm",)),
    _Entry("Endpoints", services.ENDPOINTS, ("ep",), plural="endpoints"),
    _Entry("Event", events.CORE_EVENTS, ("ev",)),
    _Entry("LimitRange", core.LIMIT_RANGES, ("limits",)),
    _Entry(
        "Namespace",
        core.NAMESPACES,
        ("ns",),
        subresources=("finalize", "status"),
        verbs=_WITHOUT_COLLECTION,
        returns_deleted=True,
    ),
    _Entry("Node", nodes.NODES, ("no",), subresources=("status",)),
    _Entry("PersistentVolumeClaim", storage.CLAIMS, ("pvc",), subresources=("status",), returns_deleted=True),
    _Entry("PersistentVolume", storage.VOLUMES, ("pv",), subresources=("status",), returns_deleted=True),
    _Entry(
        "Pod",
        pods.PODS,
        ("po",),
        _ALL,
        subresources=("binding", "eviction", "log", "status"),
        graceful=True,
        returns_deleted=True,
    ),
    _Entry("PodTemplate", core.POD_TEMPLATES, returns_deleted=True),
    _Entry(
        "ReplicationController",
        core.CONTROLLERS,
        ("rc",),
        _ALL,
        subresources=("scale", "status"),
        scale=_REPLICAS,
    ),
    _Entry("ResourceQuota", core.QUOTAS, ("quota",), subresources=("status",), returns_deleted=True),
    _Entry("Secret", core.SECRETS),
    _Entry("ServiceAccount", core.SERVICE_ACCOUNTS, ("sa",), subresources=("token",), returns_deleted=True),
    _Entry("Service", services.SERVICES, ("svc",), _ALL, subresources=("status",), returns_deleted=True),
)
_APPS = (
    _Entry("ControllerRevision", apps.CONTROLLER_REVISIONS),
    _Entry("DaemonSet", apps.DAEMON_SETS, ("ds",), _ALL, ("status",)),
    _Entry("Deployment", apps.DEPLOYMENTS, ("deploy",), _ALL, ("scale", "status"), scale=_REPLICAS),
    _Entry("ReplicaSet", apps.REPLICA_SETS, ("rs",), _ALL, ("scale", "status"), scale=_REPLICAS),
    _Entry("StatefulSet", apps.STATEFUL_SETS, ("sts",), _ALL, ("scale", "status"), scale=_REPLICAS),
)
_GROUPS: tuple[tuple[str, str, tuple[_Entry, ...]], ...] = (
    ("", "v1", _CORE),
    (
        "admissionregistration.k8s.io",
        "v1",
        (
            _Entry("MutatingWebhookConfiguration", webhooks.MUTATING, (), _EXTENSIONS, conditional=True),
            _Entry("ValidatingWebhookConfiguration", webhooks.VALIDATING, (), _EXTENSIONS, conditional=True),
        ),
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        (
            _Entry(
                "CustomResourceDefinition",
                access.DEFINITIONS,
                ("crd", "crds"),
                _EXTENSIONS,
                ("status",),
                conditional=True,
            ),
        ),
    ),
    ("apps", "v1", _APPS),
    (
        _AUTHN,
        "v1",
        (
            _Entry("SelfSubjectReview", access.asked("io.k8s.api.authentication.v1.SelfSubjectReview"), verbs=_ASKED),
            _Entry("TokenReview", access.asked("io.k8s.api.authentication.v1.TokenReview"), verbs=_ASKED),
        ),
    ),
    (
        _AUTHZ,
        "v1",
        tuple(
            _Entry(kind, access.asked(f"io.k8s.api.authorization.v1.{kind}", kind.startswith("Local")), verbs=_ASKED)
            for kind in (
                "LocalSubjectAccessReview",
                "SelfSubjectAccessReview",
                "SelfSubjectRulesReview",
                "SubjectAccessReview",
            )
        ),
    ),
    (
        "autoscaling",
        "v2",
        (_Entry("HorizontalPodAutoscaler", autoscaling.AUTOSCALERS, ("hpa",), _ALL, ("status",)),),
    ),
    (
        "autoscaling",
        "v1",
        (
            _Entry(
                "HorizontalPodAutoscaler",
                autoscaling.AUTOSCALERS_V1,
                ("hpa",),
                _ALL,
                ("status",),
                storage_version="v2",
            ),
        ),
    ),
    (
        "batch",
        "v1",
        (
            _Entry("CronJob", batch.CRON_JOBS, ("cj",), _ALL, ("status",)),
            _Entry("Job", batch.JOBS, (), _ALL, ("status",)),
        ),
    ),
    ("coordination.k8s.io", "v1", (_Entry("Lease", nodes.LEASES, conditional=True),)),
    ("discovery.k8s.io", "v1", (_Entry("EndpointSlice", services.ENDPOINT_SLICES),)),
    ("events.k8s.io", "v1", (_Entry("Event", events.NEW_EVENTS, ("ev",)),)),
    ("node.k8s.io", "v1", (_Entry("RuntimeClass", pod_policies.RUNTIME_CLASSES, plural="runtimeclasses"),)),
    (
        "policy",
        "v1",
        (_Entry("PodDisruptionBudget", pod_policies.BUDGETS, ("pdb",), subresources=("status",), conditional=True),),
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        (
            _Entry("ClusterRoleBinding", access.CLUSTER_ROLE_BINDINGS),
            _Entry("ClusterRole", access.CLUSTER_ROLES),
            _Entry("RoleBinding", access.ROLE_BINDINGS),
            _Entry("Role", access.ROLES),
        ),
    ),
    (
        "resource.k8s.io",
        "v1",
        (
            _Entry("DeviceClass", devices.DEVICE_CLASSES, plural="deviceclasses", returns_deleted=True),
            _Entry("ResourceClaim", devices.CLAIMS, subresources=("status",), returns_deleted=True),
            _Entry("ResourceClaimTemplate", devices.CLAIM_TEMPLATES, returns_deleted=True),
            _Entry("ResourceSlice", devices.SLICES, returns_deleted=True),
        ),
    ),
    (
        "scheduling.k8s.io",
        "v1",
        (_Entry("PriorityClass", pod_policies.PRIORITY_CLASSES, ("pc",), plural="priorityclasses"),),
    ),
    (
        "storage.k8s.io",
        "v1",
        (
            _Entry("CSIDriver", storage.CSI_DRIVERS, returns_deleted=True, conditional=True),
            _Entry("CSINode", storage.CSI_NODES, returns_deleted=True, conditional=True),
            _Entry("StorageClass", storage.STORAGE_CLASSES, ("sc",), plural="storageclasses", returns_deleted=True),
            _Entry(
                "VolumeAttachment",
                storage.VOLUME_ATTACHMENTS,
                subresources=("status",),
                returns_deleted=True,
                conditional=True,
            ),
        ),
    ),
)


def builtin_resources() -> list[Resource]:
    """Every built-in kind, group by group; the preferred version of a group comes first."""
    return [_resource(group, version, entry) for group, version, entries in _GROUPS for entry in entries]


def builtin_converters() -> dict[tuple[str, str], Converter]:
    """Conversions between the faces of a kind, by group and plural; each takes an object and an apiVersion."""
    return {
        ("autoscaling", "horizontalpodautoscalers"): autoscaling.convert,
        ("events.k8s.io", "events"): events.convert,
    }


def _resource(group: str, version: str, entry: _Entry) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=entry.kind,
        plural=entry.plural or f"{entry.kind.lower()}s",
        singular=entry.kind.lower(),
        namespaced=entry.rules.namespaced,
        schema=snapshot.schema(entry.rules.component),
        strategy=entry.rules,
        list_kind=f"{entry.kind}List",
        short_names=entry.short,
        categories=entry.categories,
        verbs=entry.verbs,
        subresources=entry.subresources,
        scale=entry.scale,
        graceful=entry.graceful,
        schema_name=entry.rules.component,
        storage_version=entry.storage_version,
        returns_deleted=entry.returns_deleted,
        unconditional_update=not entry.conditional,
    )
