"""The sign of life of every node: its own status when that changes, and a Lease that is renewed now and then.

Frugal: one small write per node and interval, spread over it; a lost node is silent.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping

import structlog

from kube_apimachinery.clock import Clock, Dice
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Outcome, Refused, written
from spinney.drive.apply.write import ANY, Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, Result, Source
from spinney.sim.caches import Views
from spinney.sim.nodes.health import Health, health_of, kubelet_report
from spinney.sim.nodes.kubelet import Kubelet
from spinney.sim.objects import Json, Node
from spinney.sim.resources import LEASES, NODES
from spinney.sim.times import micro_time

LEASE_NAMESPACE = "kube-node-lease"
_LEASE_S = 40

_log = structlog.get_logger(__name__)


class Reporter:
    """Keeps the status of every node at what its kubelet would say."""

    def __init__(self, views: Views, door: Door, client: ApiClient, clock: Clock, dice: Dice, kubelet: Kubelet) -> None:
        self._nodes = views.nodes
        self._door = door
        self._clock = clock
        self._kubelet = kubelet
        self.described: dict[str, Json] = {}
        self.controller: Controller[Key] = Controller(
            "node-status",
            [Source(self._nodes, lambda change: (change.key,))],
            self._reconcile,
            client,
            dice,
            workers=16,
        )

    async def _reconcile(self, key: Key) -> Result:
        node = self._nodes.get(key)
        if node is None:
            return Done()
        status = kubelet_report(node, self._kubelet.address_of(node), self._clock.now())
        if status is None:
            return Done()
        if not node.status.capacity and key[1] in self.described:
            status |= self.described[key[1]]
        given = Precondition(node.metadata.uid, node.metadata.resource_version)
        outcome = await self._door.status(NODES.ref(key[1]), status, given)
        if not isinstance(outcome, Gone):
            written(outcome)
        return Done()


class Heartbeat:
    """Renews the Leases. An interval of 0 switches them off."""

    def __init__(self, nodes: Cache[Node], door: Door, clock: Clock, dice: Dice, interval_s: float) -> None:
        self._nodes = nodes
        self._door = door
        self._clock = clock
        self._dice = dice
        self._interval_s = interval_s
        self._due: list[tuple[float, str]] = []
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        if self._interval_s <= 0:
            return
        unsubscribe = self._nodes.subscribe(self._seen)
        try:
            while True:
                await self._beat()
        finally:
            unsubscribe()

    def _seen(self, change: Change[Node]) -> None:
        if change.old is None and change.new is not None:
            heapq.heappush(self._due, (self._clock.monotonic(), change.key[1]))
            self._wake.set()

    async def _beat(self) -> None:
        """Wait for the next one, then renew whatever is due."""
        self._wake.clear()
        now_s = self._clock.monotonic()
        if not self._due or self._due[0][0] > now_s:
            wait_s = self._due[0][0] - now_s if self._due else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            return
        _, name = heapq.heappop(self._due)
        node = self._nodes.get(("", name))
        if node is None:
            return
        if health_of(node) is not Health.LOST:
            await self._renew(node)
        spread = 0.75 + 0.25 * self._dice.random()
        heapq.heappush(self._due, (self._clock.monotonic() + self._interval_s * spread, name))

    async def _renew(self, node: Node) -> None:
        """A renewal that fails is made up for by the next one."""
        name = node.metadata.name
        ref = LEASES.ref(name, LEASE_NAMESPACE)
        stamp = micro_time(self._clock.now())
        outcome: Outcome = await self._door.merge_patch(ref, {"spec": {"renewTime": stamp}}, ANY)
        if isinstance(outcome, Gone):
            outcome = await self._door.create(ref, _lease(node, stamp))
        if isinstance(outcome, Refused):
            _log.warning("lease refused", node=name, error=outcome.status.message)


def _lease(node: Node, stamp: str) -> Json:
    name = node.metadata.name
    owner: Mapping[str, str] = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_S,
            "acquireTime": stamp,
            "renewTime": stamp,
        },
    }
