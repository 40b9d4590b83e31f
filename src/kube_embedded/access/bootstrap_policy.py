"""The ClusterRoles and bindings that are there from the start, for the kinds that this server serves.

cluster-admin, admin, edit and view are what users bind; by the system: roles everybody may look around.
"""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_embedded.access.rbac import GROUP
from kube_embedded.base.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz")

_VIEWED = {
    "": (
        "configmaps endpoints events limitranges namespaces namespaces/status persistentvolumeclaims"
        " persistentvolumeclaims/status pods pods/log pods/status resourcequotas resourcequotas/status"
        " serviceaccounts services services/status bindings"
    ),
    "apps": (
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
        " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"
    ),
    "autoscaling": "horizontalpodautoscalers horizontalpodautoscalers/status",
    "batch": "cronjobs cronjobs/status jobs jobs/status",
    "discovery.k8s.io": "endpointslices",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses ingresses/status networkpolicies",
    "policy": "poddisruptionbudgets poddisruptionbudgets/status",
    "resource.k8s.io": "resourceclaims resourceclaims/status resourceclaimtemplates",
}
_EDITED = {
    "": "configmaps events persistentvolumeclaims pods secrets serviceaccounts services services/proxy"
    " pods/attach pods/exec pods/portforward pods/proxy",
    "apps": "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale"
    " statefulsets statefulsets/scale",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
}


def cluster_roles() -> list[Object]:
    return [
        _role("cluster-admin", [_rule(("*",), "*", "*"), _paths(("*",), "*")]),
        _gathering("admin"),
        _gathering("edit", to="admin"),
        _gathering("view", to="edit"),
        _role("system:aggregate-to-admin", _administered(), to="admin"),
        _role("system:aggregate-to-edit", _edited(), to="edit"),
        _role("system:aggregate-to-view", [_rule(_READ, group, names) for group, names in _VIEWED.items()], to="view"),
        _role("system:auth-delegator", _delegated()),
        _role("system:basic-user", _about_oneself()),
        _role("system:discovery", [_paths(("get",), *_DISCOVERY, "/version", "/version/")]),
        _role("system:public-info-viewer", [_paths(("get",), *_HEALTH)]),
    ]


def cluster_role_bindings() -> list[Object]:
    return [
        _binding("cluster-admin", MASTERS),
        _binding("system:basic-user", AUTHENTICATED),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
    ]


def _administered() -> list[Object]:
    reviews = _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews")
    return [reviews, _rule(_ALL, GROUP, "rolebindings roles")]


def _edited() -> list[Object]:
    secrets = "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"
    return [
        _rule(_READ, "", secrets),
        _rule(("impersonate",), "", "serviceaccounts"),
        _rule(("create",), "", "pods/eviction serviceaccounts/token"),
        *(_rule(_WRITE, group, names) for group, names in _EDITED.items()),
        _rule(_ALL, "coordination.k8s.io", "leases"),
    ]


def _delegated() -> list[Object]:
    tokens = _rule(("create",), "authentication.k8s.io", "tokenreviews")
    return [tokens, _rule(("create",), "authorization.k8s.io", "subjectaccessreviews")]


def _about_oneself() -> list[Object]:
    access = _rule(("create",), "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews")
    return [access, _rule(("create",), "authentication.k8s.io", "selfsubjectreviews")]


def _rule(verbs: tuple[str, ...], group: str, resources: str) -> Object:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": sorted(resources.split())}


def _paths(verbs: tuple[str, ...], *paths: str) -> Object:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _metadata(name: str, labels: dict[str, str]) -> Object:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **labels},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }


def _role(name: str, rules: list[Object], to: str = "") -> Object:
    labels = {f"{_AGGREGATE}{to}": "true"} if to else {}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name, labels),
        "rules": rules,
    }


def _gathering(name: str, to: str = "") -> Object:
    """Its rules are those of the roles that say they aggregate to it."""
    selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
    return {**_role(name, [], to), "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _binding(role: str, *groups: str) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(role, {}),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }
