"""Rights as values, and those of every role. A test records what roles do and compares: nothing more, nothing less.

Secrets are never listed or watched; roles that only look never write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A right as a value: verbs on resources of one API group, on all objects or on named ones.
#
# No wildcard can be written down.

_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Grant:
    """`resources` and `verbs` as RBAC spells them; a subresource is `resource/subresource`.

    A watch that is limited to names has to select `metadata.name`.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = set(self.verbs) - _VERBS
        if unknown or any("*" in word for word in (self.group, *self.resources, *self.names)):
            raise ValueError(
                f"{self}: found {sorted(unknown) or 'a wildcard'}, expected words of RBAC without wildcards"
            )
        if self.names and {"create", "list"} & set(self.verbs):
            raise ValueError(f"{self}: create and list cannot be limited to names")

    def rule(self) -> dict[str, Any]:
        """As a rule of a Role or ClusterRole."""
        shown = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return shown | ({"resourceNames": list(self.names)} if self.names else {})


def grant(group: str, resources: str, verbs: str, *names: str) -> Grant:
    """The same, written shortly: words between blanks."""
    return Grant(group, tuple(resources.split()), tuple(verbs.split()), names)


WEBHOOK_CONFIGURATION = "spinney"
"""The name of both webhook configurations."""
WEBHOOK_CERTIFICATES = "spinney-webhook-certificates"
"""The Secret in which the replicas of the webhook share their authorities."""
SCHEDULER_RECORDS = "spinney-scheduler-records"
"""The Secret with the keys that schedulers sign their plans with."""
CONVERTED_DEFINITION = "dynamographdeployments.nvidia.com"
"""The definition of the kind whose versions the webhook converts."""
OPERATOR_LEASE = "grove-operator-leader-election"
SCHEDULER_LEASE = "spinney-scheduler"
DYNAMO_LEASE = "spinney-dynamo"

_KEPT = "get list watch create patch delete"
_DEFINITIONS = grant("apiextensions.k8s.io", "customresourcedefinitions", "list watch")
"""Of which roles watch the metadata, to learn which kinds are served."""


@dataclass(frozen=True, slots=True)
class RoleRights:
    """In the whole cluster, in the namespace that the role runs in, and on kinds of others, where they are served."""

    cluster: tuple[Grant, ...]
    own_namespace: tuple[Grant, ...] = ()
    foreign: tuple[Grant, ...] = ()


def _with(subresource: str) -> str:
    kinds = ("clustertopologies", "clustertopologybindings", "podcliquesets", "podcliques", "podcliquescalinggroups")
    return " ".join(f"{kind}/{subresource}" for kind in kinds)


def _lease(name: str) -> tuple[Grant, ...]:
    return (
        grant("coordination.k8s.io", "leases", "create"),
        grant("coordination.k8s.io", "leases", "get watch patch", name),
    )


_OPERATOR = RoleRights(
    cluster=(
        grant("grove.io", "clustertopologies clustertopologybindings podcliques podcliquescalinggroups", _KEPT),
        grant("grove.io", "podcliquesets", "get list watch patch"),
        grant("grove.io", _with("status"), "patch"),
        grant("grove.io", _with("finalizers"), "update"),
        grant("scheduler.grove.io", "podgangs", _KEPT),
        grant("scheduler.grove.io", "podgangs/status", "patch"),
        grant("scheduler.grove.io", "podgangs/finalizers", "update"),
        grant("scheduling.run.ai", "podgroups", "get list watch create patch"),
        grant("kai.scheduler", "topologies", "get list watch create delete"),
        grant("", "pods services", _KEPT),
        grant("", "pods/status", "get list watch"),
        grant("", "nodes", "list watch"),
        grant("", "serviceaccounts", "get list watch create"),
        grant("", "secrets events", "create"),
        grant("rbac.authorization.k8s.io", "roles", "get list watch create patch"),
        grant("rbac.authorization.k8s.io", "rolebindings", "get list watch create"),
        grant("autoscaling", "horizontalpodautoscalers", _KEPT),
        grant("resource.k8s.io", "resourceclaims", _KEPT),
        grant("resource.k8s.io", "resourceclaimtemplates", "list watch"),
        grant("resource.nvidia.com", "computedomains", _KEPT),
        _DEFINITIONS,
    ),
    own_namespace=_lease(OPERATOR_LEASE),
)
"""What it writes and watches it may also get: to find out about a write whose answer was lost. It hands on the right
to read pods to the init containers of sets, and can only do so while it has it.
"""

_WEBHOOK = RoleRights(
    cluster=(
        grant("grove.io", "clustertopologies clustertopologybindings", "get"),
        grant("grove.io", "podcliquesets", "get list"),
        grant("grove.io", "podcliques", "list"),
        grant("kai.scheduler", "topologies", "get"),
        grant("", "pods", "list"),
        grant(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations validatingwebhookconfigurations",
            "get patch",
            WEBHOOK_CONFIGURATION,
        ),
        grant("apiextensions.k8s.io", "customresourcedefinitions", "get patch", CONVERTED_DEFINITION),
    ),
    own_namespace=(grant("", "secrets", "get patch", WEBHOOK_CERTIFICATES),),
)

_SCHEDULER = RoleRights(
    cluster=(
        grant("", "pods", "get list watch patch"),
        grant("", "pods/binding pods/eviction", "create"),
        grant("", "pods/status", "patch"),
        grant("", "configmaps nodes persistentvolumes", "list watch"),
        grant("", "persistentvolumeclaims", "get list watch patch"),
        grant("", "events", "create"),
        grant("resource.k8s.io", "resourceclaims", "list watch"),
        grant("storage.k8s.io", "storageclasses", "list watch"),
        grant("scheduling.k8s.io", "priorityclasses", "list watch"),
        grant("policy", "poddisruptionbudgets", "list watch"),
        grant("", "resourcequotas", "list watch"),
        grant("scheduling.run.ai", "podgroups", _KEPT),
        grant("scheduling.run.ai", "podgroups/status queues/status", "patch"),
        grant("scheduling.run.ai", "queues", "get list watch create"),
        grant("kai.scheduler", "topologies", "list watch"),
        grant("grove.io", "clustertopologies clustertopologybindings", "list watch"),
        grant("grove.io", "podcliques podcliquescalinggroups podcliquesets", "get"),
        grant("scheduler.grove.io", "podgangs", "get"),
        grant("apps", "deployments replicasets statefulsets", "get"),
        grant("batch", "cronjobs jobs", "get"),
        _DEFINITIONS,
    ),
    own_namespace=(*_lease(SCHEDULER_LEASE), grant("", "secrets", "get patch", SCHEDULER_RECORDS)),
    foreign=(
        grant("argoproj.io", "workflows", "get"),
        grant("jobset.x-k8s.io", "jobsets", "get"),
        grant("kubeflow.org", "jaxjobs mpijobs notebooks pytorchjobs tfjobs xgboostjobs", "get"),
        grant("leaderworkerset.x-k8s.io", "leaderworkersets", "get"),
        grant("nvidia.com", "dynamographdeployments", "get"),
        grant("ray.io", "rayclusters rayjobs rayservices", "get"),
        grant("serving.knative.dev", "configurations revisions services", "get"),
        grant("topology.node.k8s.io", "noderesourcetopologies", "list watch"),
        grant("trainer.kubeflow.org", "trainjobs", "get"),
    ),
)
"""Owners of pods are read one by one, to find out what belongs together. Other kinds of owners take a further role."""

_DYNAMO = RoleRights(
    cluster=(
        grant("nvidia.com", "dynamographdeployments", "get list watch"),
        grant("nvidia.com", "dynamographdeployments/status", "patch"),
        grant("nvidia.com", "dynamographdeployments/finalizers", "update"),
        grant("grove.io", "podcliquesets", "get list watch create patch"),
        grant("grove.io", "podcliques podcliquescalinggroups", "get list watch"),
        grant("grove.io", "podcliques/scale podcliquescalinggroups/scale", "patch"),
        grant("scheduler.grove.io", "podgangs", "list watch"),
        grant("scheduling.run.ai", "queues", "list watch"),
        grant("", "configmaps serviceaccounts services", "get list watch create"),
        grant("", "events", "create"),
        grant("rbac.authorization.k8s.io", "rolebindings roles", "get list watch create"),
        grant("", "endpoints pods", "get list watch"),
        grant("discovery.k8s.io", "endpointslices", "get list watch"),
    ),
    own_namespace=_lease(DYNAMO_LEASE),
)
"""It hands on the right to find pods to the components of deployments, and can only do so while it has it."""
_DASHBOARD = RoleRights(
    cluster=(
        grant("", "nodes pods", "list watch"),
        grant("", "events limitranges persistentvolumeclaims persistentvolumes resourcequotas", "list"),
        grant("scheduling.run.ai", "podgroups queues", "list watch"),
        grant("", "namespaces", "get"),
        grant("kai.scheduler", "topologies", "list watch"),
        grant("grove.io", "clustertopologies clustertopologybindings podcliquesets", "get list watch"),
        grant("grove.io", "podcliques podcliquescalinggroups", "list"),
        grant("nvidia.com", "dynamographdeployments", "get"),
        grant("policy", "poddisruptionbudgets", "list"),
        grant("resource.k8s.io", "resourceclaims", "list"),
        grant("scheduling.k8s.io", "priorityclasses", "list"),
        grant("storage.k8s.io", "storageclasses", "list"),
        grant("apps", "deployments statefulsets", "get"),
        grant("batch", "jobs", "get"),
        _DEFINITIONS,
    ),
    foreign=(
        grant("jobset.x-k8s.io", "jobsets", "get"),
        grant("kubeflow.org", "mpijobs pytorchjobs", "get"),
        grant("leaderworkerset.x-k8s.io", "leaderworkersets", "get"),
        grant("ray.io", "rayclusters rayjobs", "get"),
        grant("topology.node.k8s.io", "noderesourcetopologies", "list"),
    ),
)
"""Pages watch what they show; the rest is what a plan looks at, read when somebody asks for one."""

ROLES: Mapping[str, RoleRights] = {
    "operator": _OPERATOR,
    "webhook": _WEBHOOK,
    "scheduler": _SCHEDULER,
    "dynamo": _DYNAMO,
    "dashboard": _DASHBOARD,
}
