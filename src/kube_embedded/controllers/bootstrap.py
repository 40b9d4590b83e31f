"""The objects that every cluster has from the start."""

from __future__ import annotations

from kube_embedded.access.bootstrap_policy import cluster_role_bindings, cluster_roles
from kube_embedded.base.identity import ADMIN
from kube_embedded.base.resource import Object
from kube_embedded.base.target import Target
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.requests.writing import create

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system", "spinney-system")
_PRIORITIES = (
    ("system-cluster-critical", 2_000_000_000, "Pods that a cluster cannot do without, and that may be moved."),
    ("system-node-critical", 2_000_001_000, "Pods that a node cannot do without."),
)


async def bootstrap(kernel: Kernel) -> None:
    """Create what is missing; what is there stays as it is."""
    for obj in [*_namespaces(), *_priorities(), *cluster_roles(), *cluster_role_bindings()]:
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = kernel.registry.by_kind(group, obj["kind"], version)
        assert resource is not None, f"{obj['kind']} is built in"
        namespace = obj["metadata"].get("namespace", "")
        if kernel.record(resource, namespace, obj["metadata"]["name"]) is None:
            target = Target(group, version, resource.plural, namespace)
            await create(kernel, Call(resource, target, {}, ADMIN, "kube-apiserver"), obj)


def _namespaces() -> list[Object]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES]


def _priorities() -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        for name, value, description in _PRIORITIES
    ]
