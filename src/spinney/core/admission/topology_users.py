"""Who uses a topology, and whose pods are scheduled, as far as a look-up shows it."""

from __future__ import annotations

from kube_apimachinery.admission import Lookup, Object
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_PART_OF
from spinney.core.admission.decoding import part, read, text
from spinney.core.topology_constraints import constrained, effective_topology

_OVER = ("Succeeded", "Failed")


def has_scheduled_pods(lookup: Lookup, namespace: str, name: str) -> bool:
    """Whether any pod of the set has a node: by the status of its PodCliques, or by a pod that is ahead of it."""
    labels = {APP_PART_OF: name}
    cliques = lookup.listing(PodClique.GROUP, PodClique.PLURAL, namespace, labels)
    if any(_scheduled_replicas(clique) for clique in cliques):
        return True
    return any(_has_node(pod) for pod in lookup.listing("", "pods", namespace, labels))


def scheduled_users(lookup: Lookup, topology: str, default: str) -> list[str]:
    """`namespace/name` of every set that uses the topology and has scheduled pods, sorted."""
    users = {
        (found.metadata.namespace, found.metadata.name)
        for obj in lookup.listing(PodCliqueSet.GROUP, PodCliqueSet.PLURAL)
        if isinstance(found := read(obj, PodCliqueSet), PodCliqueSet)
        and constrained(found)
        and effective_topology(found, default, scheduled=True) == topology
    }
    if not users:
        return []
    scheduled = {
        _set_of(clique) for clique in lookup.listing(PodClique.GROUP, PodClique.PLURAL) if _scheduled_replicas(clique)
    }
    return sorted("/".join(key) for key in users & scheduled)


def _set_of(clique: Object) -> tuple[str, str]:
    metadata = part(clique, "metadata")
    return text(metadata.get("namespace")), text(part(metadata, "labels").get(APP_PART_OF))


def _scheduled_replicas(clique: Object) -> bool:
    found = part(clique, "status").get("scheduledReplicas")
    return isinstance(found, int) and found > 0


def _has_node(pod: Object) -> bool:
    return bool(part(pod, "spec").get("nodeName")) and part(pod, "status").get("phase") not in _OVER
