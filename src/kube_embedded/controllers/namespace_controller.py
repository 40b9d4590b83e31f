"""The life of namespaces: the ones that every cluster has from the start, and how one ends: content first."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_embedded.access.bootstrap_policy import cluster_role_bindings, cluster_roles
from kube_embedded.base.errors import ApiError
from kube_embedded.base.http import Target
from kube_embedded.base.identity import ADMIN
from kube_embedded.base.store import Event
from kube_embedded.controllers.internal_writer import InternalWriter
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


NAMESPACES = "/namespaces"


class NamespaceController:
    """Empties namespaces that are being deleted, and finalizes them when nothing is left."""

    def __init__(self, kernel: Kernel, writer: InternalWriter) -> None:
        self._kernel = kernel
        self._writer = writer
        self._dying: set[str] = set()

    def observe(self, collection: str, event: Event) -> bool:
        """Remember namespaces that die; whether there is work now."""
        if collection == NAMESPACES:
            if event.new is not None and event.new.deleting:
                self._dying.add(event.new.name)
            elif event.new is None and event.old is not None:
                self._dying.discard(event.old.name)
            return bool(self._dying)
        return event.new is None and event.old is not None and event.old.namespace in self._dying

    async def process(self) -> bool:
        """Whether something was refused and is to be tried again."""
        refused = [name for name in sorted(self._dying) if not await self._empty(name)]
        return bool(refused)

    async def _empty(self, namespace: str) -> bool:
        """Delete what is left; False when a rule refused a deletion."""
        left = refused = False
        for resource in self._kernel.registry.stored():
            if not resource.namespaced:
                continue
            collection = self._kernel.store.collections.get(resource.collection)
            if collection is None:
                continue
            for record in [r for r in collection.after(None) if r.namespace == namespace]:
                if not record.deleting:
                    try:
                        await self._writer.remove(resource, record, "Background")
                    except ApiError:
                        refused = True
                left = left or self._kernel.record(resource, namespace, record.name) is not None
        if not left:
            await self._finish(namespace)
        return not refused

    async def _finish(self, name: str) -> None:
        resource = self._writer.resource_of(NAMESPACES)
        record = self._kernel.store.get(NAMESPACES, "", name)
        if resource is None or record is None or not record.deleting:
            self._dying.discard(name)
            return
        await self._writer.change(resource, ("", name), _finalized)


def _finalized(obj: Object) -> Object:
    spec = obj.setdefault("spec", {})
    kept = [one for one in spec.get("finalizers") or () if one != "kubernetes"]
    if kept:
        spec["finalizers"] = kept
    else:
        spec.pop("finalizers", None)
    return obj
