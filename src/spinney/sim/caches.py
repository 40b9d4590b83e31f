"""What all parts of the simulation look at: pods and nodes as slim values, everything else whole.

Never decides anything. Every view has to be asked for before the caches run.
"""

from __future__ import annotations

from spinney.api.labels import PODCLIQUE
from spinney.drive.client.api import Selection
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import ResourcePath
from spinney.sim.objects import Json, Node, Pod
from spinney.sim.resources import NODES, PODS


class Views:
    """The caches, by what they hold."""

    def __init__(self, caches: SharedCaches) -> None:
        self._caches = caches
        self.nodes: Cache[Node] = caches.cache(Selection(NODES), Node)
        self.pods: Cache[Pod] = caches.cache(
            Selection(PODS),
            Pod,
            indexes={
                "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
                "owner": lambda pod: (owner.uid,) if (owner := pod.metadata.controller) is not None else (),
                "orphan": lambda pod: () if pod.metadata.owner_references else (pod.metadata.namespace,),
                "namespace": lambda pod: (pod.metadata.namespace,),
                "clique": _clique_keys,
            },
        )

    def of(self, resource: ResourcePath) -> Cache[Json]:
        """The view of any resource, with the indexes `owner` and `namespace`."""
        indexes = {"owner": _owner_of, "namespace": _namespace_of}
        return self._caches.cache(Selection(resource), dict, indexes=indexes)


def clique_key(namespace: str, clique: str) -> str:
    return f"{namespace}/{clique}"


def _clique_keys(pod: Pod) -> tuple[str, ...]:
    clique = pod.metadata.labels.get(PODCLIQUE)
    return (clique_key(pod.metadata.namespace, clique),) if clique else ()


def _owner_of(obj: Json) -> tuple[str, ...]:
    owners = obj["metadata"].get("ownerReferences") or ()
    return tuple(owner["uid"] for owner in owners if owner.get("controller"))


def _namespace_of(obj: Json) -> tuple[str, ...]:
    return (obj["metadata"].get("namespace", ""),)
