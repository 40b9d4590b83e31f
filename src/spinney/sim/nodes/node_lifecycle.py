"""What a cluster does about sick nodes: declares the silent ones Unknown, taints, evicts, and clears up after them.

Stands in for the node controllers of kube-controller-manager; where that runs, this does not. Never deletes a pod that
tolerates what is wrong before its time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.times import format_time
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Gone, Outcome, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Change
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.sim.nodes.health import Health, declare_unknown, eviction_s, health_of, wanted_taints
from spinney.sim.objects import NODES, PODS, Node, Pod, Views, condition, merged


@dataclass(frozen=True, slots=True)
class NodeTimeouts:
    """How long a node may be silent, and how long pods of a node that is gone are left alone."""

    silence_s: float = 40.0
    orphan_s: float = 40.0


class Lifecycle:
    """Keyed by node name, so that a node that does not exist has a turn as well."""

    def __init__(
        self, views: Views, door: Door, client: ApiClient, clock: Clock, dice: Dice, patience: NodeTimeouts
    ) -> None:
        self._nodes = views.nodes
        self._pods = views.pods
        self._door = door
        self._clock = clock
        self._patience = patience
        self._silent_since: dict[str, float] = {}
        self._gone_since: dict[str, float] = {}
        self._tainted_since: dict[str, float] = {}
        sources = [Source(self._nodes, lambda change: (change.key[1],)), Source(self._pods, self._keys_of_pod)]
        self.controller: Controller[str] = Controller(
            "node-lifecycle", sources, self._reconcile, client, dice, workers=8
        )

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[str]:
        """A pod concerns its node when it arrives, and when its readiness does not go with the node's."""
        pod = change.new
        if pod is None or not pod.spec.node_name:
            return ()
        node = self._nodes.get(("", pod.spec.node_name))
        if node is None or (pod.ready and not _is_ready(node)):
            return (pod.spec.node_name,)
        arrived = change.old is None or not change.old.spec.node_name
        return (pod.spec.node_name,) if arrived and node.spec.taints else ()

    async def _reconcile(self, name: str) -> Result:
        node = self._nodes.get(("", name))
        if node is None:
            return await self._clear_up(name)
        self._gone_since.pop(name, None)
        silence = await self._listen(node)
        if silence is not None:
            return silence
        taints = wanted_taints(node, self._clock.now())
        if taints is not None:
            given = Precondition(node.metadata.uid, node.metadata.resource_version)
            _accept(await self._door.merge_patch(NODES.ref(name), {"spec": {"taints": taints or None}}, given))
            return Done()
        await self._unready_pods(node)
        return await self._evict(node)

    async def _listen(self, node: Node) -> Result | None:
        """A lost node is given its time, then declared Unknown; None: nothing more to do about silence."""
        name = node.metadata.name
        if health_of(node) is not Health.LOST:
            self._silent_since.pop(name, None)
            return None
        now_s = self._clock.now()
        due_s = self._silent_since.setdefault(name, now_s) + self._patience.silence_s
        if now_s < due_s:
            return RequeueAfter(due_s - now_s)
        status = declare_unknown(node, now_s)
        if status is None:
            return None
        given = Precondition(node.metadata.uid, node.metadata.resource_version)
        _accept(await self._door.status(NODES.ref(name), status, given))
        return Done()

    async def _unready_pods(self, node: Node) -> None:
        if _is_ready(node) or not node.status.conditions:
            return
        now = format_time(self._clock.now())
        for pod in self._pods.by("node", node.metadata.name):
            if not pod.ready:
                continue
            unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now}
            status = {"conditions": merged(pod.status.conditions, [unready])}
            given = Precondition(pod.metadata.uid, pod.metadata.resource_version)
            _accept(await self._door.status(PODS.ref(*reversed(pod.key)), status, given))

    async def _evict(self, node: Node) -> Result:
        name = node.metadata.name
        if not any(taint.get("effect") == "NoExecute" for taint in node.spec.taints):
            self._tainted_since.pop(name, None)
            return Done()
        now_s = self._clock.now()
        seen_s = self._tainted_since.setdefault(name, now_s)
        next_s = math.inf
        for pod in self._pods.by("node", name):
            due_s = eviction_s(pod, node.spec.taints, seen_s)
            if pod.leaving or pod.finished:
                continue
            if due_s > now_s:
                next_s = min(next_s, due_s)
            else:
                _accept(await self._door.delete(PODS.ref(*reversed(pod.key)), Precondition(uid=pod.metadata.uid)))
        return RequeueAfter(max(next_s - now_s, 0.001)) if next_s < math.inf else Done()

    async def _clear_up(self, name: str) -> Result:
        """Pods of a node that does not exist are taken away, once it has been gone for a while."""
        orphans = self._pods.by("node", name)
        if not orphans:
            self._gone_since.pop(name, None)
            return Done()
        now_s = self._clock.now()
        due_s = self._gone_since.setdefault(name, now_s) + self._patience.orphan_s
        if now_s < due_s:
            return RequeueAfter(due_s - now_s)
        for pod in orphans:
            given = Precondition(uid=pod.metadata.uid)
            _accept(await self._door.delete(PODS.ref(*reversed(pod.key)), given, grace_s=0))
        return Done()


def _is_ready(node: Node) -> bool:
    return condition(node.status.conditions, "Ready") == "True"


def _accept(outcome: Outcome) -> None:
    """What is gone already needs nothing more."""
    if not isinstance(outcome, (Deleted, Gone)):
        written(outcome)
