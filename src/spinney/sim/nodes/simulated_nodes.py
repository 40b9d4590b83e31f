"""All simulated nodes of a cluster, and the ways to make them fail.

It simulates every Node object there is, whoever made it; nothing is remembered that the API does not show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from kube_apimachinery.clock import Clock, Dice
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Exists, RetryLater, Stale, Unknown, written
from spinney.drive.apply.write import ANY
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.sim.caches import Views
from spinney.sim.nodes.health import first_status
from spinney.sim.nodes.heartbeat import Heartbeat, Reporter
from spinney.sim.nodes.kubelet import Kubelet
from spinney.sim.nodes.node_lifecycle import Lifecycle, NodeTimeouts
from spinney.sim.nodes.pod_lifecycle import Timing
from spinney.sim.objects import STATE, Json
from spinney.sim.resources import NODES

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
