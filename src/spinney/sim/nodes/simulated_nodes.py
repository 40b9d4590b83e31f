"""All simulated nodes of a cluster: heartbeats (a status when it changes, a Lease now and then), and ways to fail.

Simulates every Node object there is, whoever made it; nothing is remembered that the API does not show. One small write
per node and interval, spread over it: a thousand nodes are to cost little.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import structlog

from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.times import format_micro_time
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Exists, Gone, Outcome, Refused, RetryLater, Stale, Unknown, written
from spinney.drive.apply.write import ANY, Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, Result, Source
from spinney.sim.nodes.health import Health, first_status, health_of, kubelet_report
from spinney.sim.nodes.kubelet import Kubelet
from spinney.sim.nodes.node_lifecycle import Lifecycle, NodeTimeouts
from spinney.sim.nodes.pod_lifecycle import Timing
from spinney.sim.objects import LEASES, NODES, STATE, Json, Node, Views

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
        stamp = format_micro_time(self._clock.now())
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


_BETWEEN_TRIES = Backoff(base_s=0.2, cap_s=10.0)


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    """How the nodes behave. `lifecycle` off: somebody else (kube-controller-manager) looks after sick nodes."""

    timing: Timing = field(default_factory=Timing)
    heartbeat_s: float = 40.0
    lifecycle: bool = True
    patience: NodeTimeouts = field(default_factory=NodeTimeouts)


class SimulatedNodes:
    """`register` the nodes of a file, `run`, and let them fail by name."""

    def __init__(
        self,
        views: Views,
        door: Door,
        client: ApiClient,
        clock: Clock,
        dice: Dice,
        behaviour: NodeBehaviour | None = None,
    ) -> None:
        behaviour = behaviour or NodeBehaviour()
        self._door = door
        self._clock = clock
        self._dice = dice
        self.kubelet = Kubelet(views, door, client, clock, dice, behaviour.timing)
        self._reporter = Reporter(views, door, client, clock, dice, self.kubelet)
        self._heartbeat = Heartbeat(views.nodes, door, clock, dice, behaviour.heartbeat_s)
        lifecycle = Lifecycle(views, door, client, clock, dice, behaviour.patience) if behaviour.lifecycle else None
        self._lifecycle = lifecycle

    async def register(self, manifests: Sequence[Json]) -> None:
        """Create the nodes that are not there, in order; each comes up Ready."""
        for number, manifest in enumerate(manifests):
            name = manifest["metadata"]["name"]
            given = manifest.get("status") or {}
            self._reporter.described[name] = {key: given[key] for key in ("capacity", "allocatable") if given.get(key)}
            address = self.kubelet.node_addresses.of(name)
            capacity = given.get("capacity") or {}
            status = first_status(capacity, given.get("allocatable") or capacity, name, address, self._clock.now())
            await self._create(name, {**manifest, "status": {**status, **given}})
            if number % 100 == 99:
                await asyncio.sleep(0)

    async def _create(self, name: str, body: Json) -> None:
        """Until it is there: a server that is slow to come up, or a lost answer, is no reason to give up."""
        for attempt in count():
            outcome = await self._door.create(NODES.ref(name), body)
            match outcome:
                case RetryLater() | Unknown() | Stale():
                    await asyncio.sleep(_BETWEEN_TRIES.delay_s(attempt, self._dice))
                case Exists():
                    return
                case _:
                    written(outcome)
                    return

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.kubelet.controller.run(), name="kubelet")
            group.create_task(self._reporter.controller.run(), name="node-status")
            group.create_task(self._heartbeat.run(), name="node-heartbeat")
            if self._lifecycle is not None:
                group.create_task(self._lifecycle.controller.run(), name="node-lifecycle")

    async def lose(self, node: str) -> None:
        """Cut the node off: its kubelet falls silent, its pods are out of reach."""
        await self._annotate(node, "lost")

    async def not_ready(self, node: str) -> None:
        """The kubelet is there and says it is not ready."""
        await self._annotate(node, "notready")

    async def recover(self, node: str) -> None:
        """The node is well again, from whatever it had."""
        await self._annotate(node, None)

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        """No new pods (or again new pods)."""
        written(await self._door.merge_patch(NODES.ref(node), {"spec": {"unschedulable": unschedulable or None}}, ANY))

    async def shrink(self, node: str, resources: Mapping[str, str]) -> None:
        """The node has these amounts from now on, whatever runs on it."""
        amounts = {"capacity": dict(resources), "allocatable": dict(resources)}
        written(await self._door.status(NODES.ref(node), amounts, ANY))

    def crash(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """The containers of a running pod die; they are restarted if their policy says so."""
        self.kubelet.crash(namespace, name, exit_code)

    async def _annotate(self, node: str, state: str | None) -> None:
        written(await self._door.merge_patch(NODES.ref(node), {"metadata": {"annotations": {STATE: state}}}, ANY))
