"""The caches that all parts of the simulation share: one watch per resource, however many read it.

Never decides anything; it only keeps views up to date.
"""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.api.clock import Dice
from spinney.api.labels import PODCLIQUE
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.cache import Cache
from spinney.drive.client.codec import Codec, codec_for
from spinney.drive.client.own_writes import OwnWrites
from spinney.drive.client.paths import ResourcePath
from spinney.drive.client.watch import Watcher
from spinney.sim.resources import NODES, PODS
from spinney.sim.words import Json, Node, Pod


class Views:
    """Pods and nodes as slim values; everything else whole, on demand. Ask for views first, then `run`."""

    def __init__(self, client: ApiClient, own_writes: OwnWrites, dice: Dice) -> None:
        self._client = client
        self._own_writes = own_writes
        self._dice = dice
        self._watchers: dict[ResourcePath, Watcher[Any]] = {}
        self._whole: dict[ResourcePath, Cache[Json]] = {}
        self.pods: Cache[Pod] = Cache(
            PODS,
            indexes={
                "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
                "owner": lambda pod: (owner.uid,) if (owner := pod.metadata.controller) is not None else (),
                "namespace": lambda pod: (pod.metadata.namespace,),
                "clique": _clique_keys,
            },
            ledger=own_writes.of(PODS),
        )
        self.nodes: Cache[Node] = Cache(NODES, ledger=own_writes.of(NODES))
        self._watch(self.pods, codec_for(Pod))
        self._watch(self.nodes, codec_for(Node))

    def of(self, resource: ResourcePath) -> Cache[Json]:
        """The view of any resource, with the indexes `owner` and `namespace`."""
        if resource not in self._whole:
            cache: Cache[Json] = Cache(
                resource,
                indexes={"owner": _owner_of, "namespace": lambda obj: (obj["metadata"].get("namespace", ""),)},
                ledger=self._own_writes.of(resource),
            )
            self._whole[resource] = cache
            self._watch(cache, codec_for(dict[str, Any]))
        return self._whole[resource]

    async def run(self) -> None:
        """Keep every view that was asked for up to date, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, watcher in self._watchers.items():
                group.create_task(watcher.run(), name=f"watch-{resource.plural}")

    def _watch(self, cache: Cache[Any], codec: Codec[Any]) -> None:
        resource = cache.resource
        self._watchers[resource] = Watcher(self._client, Selection(resource), codec, cache, self._dice)


def clique_key(namespace: str, clique: str) -> str:
    return f"{namespace}/{clique}"


def _clique_keys(pod: Pod) -> tuple[str, ...]:
    clique = pod.metadata.labels.get(PODCLIQUE)
    return (clique_key(pod.metadata.namespace, clique),) if clique else ()


def _owner_of(obj: Json) -> tuple[str, ...]:
    owners = obj["metadata"].get("ownerReferences") or ()
    return tuple(owner["uid"] for owner in owners if owner.get("controller"))
