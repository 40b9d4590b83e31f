"""One simulated kubelet for all nodes: starts what is bound, gives it an address, reports it, ends what is deleted.

Never touches a pod of a node that is lost or that does not exist, and writes a status only where it says something new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from itertools import cycle

from kube_apimachinery.clock import Clock, Dice
from spinney.api.labels import JOB_TRACKING, PODCLIQUE
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Gone, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.sim.nodes.health import Health, health_of
from spinney.sim.nodes.pod_lifecycle import (
    Life,
    Stage,
    Timing,
    advance,
    crash,
    may_start,
    parents_of_pod,
    recall,
    says,
    status_of,
    stop,
)
from spinney.sim.objects import PODS, STATE, Node, Pod, Views, clique_key, condition

POD_NETWORKS = tuple(IPv4Network(f"10.{second}.0.0/16") for second in range(244, 256))
NODE_NETWORKS = (IPv4Network("172.16.0.0/12"),)


class Addresses:
    """The addresses of some networks, by who holds them."""

    def __init__(self, networks: tuple[IPv4Network, ...]) -> None:
        self._networks = networks
        self._size = sum(network.num_addresses - 2 for network in networks)
        self._next = cycle(self._all())
        self._holders: dict[str, str] = {}
        self._held: dict[str, str] = {}

    def of(self, holder: str) -> str:
        """The holder's address; a new one the first time."""
        found = self._held.get(holder)
        if found is not None:
            return found
        if len(self._holders) >= self._size:
            raise RuntimeError(f"all {self._size} addresses of {self._networks} are taken")
        address = next(address for address in self._next if address not in self._holders)
        self.keep(holder, address)
        return address

    def keep(self, holder: str, address: str) -> None:
        """The holder has this address already."""
        self._holders[address] = holder
        self._held[holder] = address

    def release(self, holder: str) -> None:
        address = self._held.pop(holder, None)
        if address is not None:
            del self._holders[address]

    def _all(self) -> Iterator[str]:
        for network in self._networks:
            first = int(network.network_address)
            for number in range(first + 1, first + network.num_addresses - 1):
                yield str(IPv4Address(number))


_WORKERS = 32


class Kubelet:
    """Runs the pods. What it remembers of a pod it could also read from its status, but for fractions of seconds."""

    def __init__(self, views: Views, door: Door, client: ApiClient, clock: Clock, dice: Dice, timing: Timing) -> None:
        self._pods = views.pods
        self._nodes = views.nodes
        self._door = door
        self._clock = clock
        self._timing = timing
        self._lives: dict[str, Life] = {}
        self._ending: dict[str, float] = {}
        self._waiting: dict[str, dict[Key, None]] = {}
        self.pod_addresses = Addresses(POD_NETWORKS)
        self.node_addresses = Addresses(NODE_NETWORKS)
        sources = [Source(self._pods, self._keys_of_pod), Source(self._nodes, self._keys_of_node)]
        self.controller: Controller[Key] = Controller(
            "kubelet", sources, self._reconcile, client, dice, workers=_WORKERS
        )

    def crash(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """The containers of a running pod die now."""
        pod = self._pods.get((namespace, name))
        life = self._lives.get(pod.metadata.uid) if pod is not None else None
        if pod is None or life is None or life.stage is not Stage.RUNNING:
            raise ValueError(f"pod {namespace}/{name}: found nothing running, expected a running pod")
        self._lives[pod.metadata.uid] = crash(life, pod, self._clock.now(), exit_code)
        self.controller.queue.add((namespace, name))

    def address_of(self, node: Node) -> str:
        name = node.metadata.name
        known = next((each.address for each in node.status.addresses if each.type == "InternalIP"), "")
        if known:
            self.node_addresses.keep(name, known)
        return self.node_addresses.of(name)

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        pod = change.new or change.old
        assert pod is not None
        if change.old is not None and change.new is None:
            self._forget(change.old)
        if pod.spec.node_name:
            yield change.key
        was = change.old is not None and change.old.ready
        if pod.ready != was or pod.leaving:
            clique = clique_key(pod.metadata.namespace, pod.metadata.labels.get(PODCLIQUE, ""))
            yield from tuple(self._waiting.get(clique, ()))

    def _keys_of_node(self, change: Change[Node]) -> Iterable[Key]:
        """Pods of a node look again when it comes, goes, or becomes well or ill."""
        if change.old is not None and change.new is not None and _works(change.old) == _works(change.new):
            return ()
        return [pod.key for pod in self._pods.by("node", change.key[1])]

    def _forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._lives.pop(uid, None)
        self._ending.pop(uid, None)
        self.pod_addresses.release(uid)
        self._stop_waiting(pod)

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        node = self._nodes.get(("", pod.spec.node_name)) if pod is not None else None
        if pod is None or node is None or health_of(node) is Health.LOST:
            return Done()
        if pod.leaving:
            return await self._end(pod, node)
        if pod.finished or not _works(node)[1]:
            return Done()
        return await self._live(pod, node)

    async def _live(self, pod: Pod, node: Node) -> Result:
        now_s = self._clock.now()
        uid = pod.metadata.uid
        life = self._lives.get(uid) or recall(pod, now_s)
        step = advance(life, pod, now_s, self._parents_up(pod), self._timing)
        self._lives[uid] = step.life
        if step.life.stage is not Stage.WAITING:
            held = pod.metadata.annotations.get(STATE) == "notready"
            await self._report(pod, node, replace(step.life, ready=False) if held else step.life, now_s)
        return Done() if step.wake_s is None else RequeueAfter(max(step.wake_s - self._clock.now(), 0.001))

    async def _report(self, pod: Pod, node: Node, life: Life, now_s: float) -> None:
        host_ip = self.address_of(node)
        status = status_of(pod, life, now_s, self._pod_ip(pod, host_ip), host_ip)
        if says(pod, status):
            return
        given = Precondition(pod.metadata.uid, pod.metadata.resource_version)
        outcome = await self._door.status(PODS.ref(pod.metadata.name, pod.metadata.namespace), status, given)
        if not isinstance(outcome, Gone):
            written(outcome)

    async def _end(self, pod: Pod, node: Node) -> Result:
        """Give the containers their moment, then take the object away for good.

        A Job may keep the object until it is told how the pod ended, so that comes first.
        """
        uid = pod.metadata.uid
        grace_s = pod.metadata.deletion_grace_period_seconds
        now_s = self._clock.now()
        since_s = self._ending.setdefault(uid, now_s)
        due_s = since_s + min(30.0 if grace_s is None else float(grace_s), self._timing.stop_s)
        if now_s < due_s:
            return RequeueAfter(max(due_s - now_s, 0.001))
        if JOB_TRACKING in pod.metadata.finalizers and not pod.finished:
            await self._report(pod, node, stop(self._lives.get(uid) or recall(pod, now_s), now_s), now_s)
        if grace_s == 0:
            return Done()
        ref = PODS.ref(pod.metadata.name, pod.metadata.namespace)
        outcome = await self._door.delete(ref, Precondition(uid=uid), grace_s=0)
        if not isinstance(outcome, (Deleted, Gone)):
            written(outcome)
        return Done()

    def _parents_up(self, pod: Pod) -> bool:
        """Whether the parents of a waiting pod are up; while they are not, it is woken when one of theirs changes."""
        parents = parents_of_pod(pod)
        if not parents:
            return True
        keys = [clique_key(pod.metadata.namespace, parent.clique) for parent in parents]
        if may_start(parents, pod, [other for key in keys for other in self._pods.by("clique", key)]):
            self._stop_waiting(pod)
            return True
        for key in keys:
            self._waiting.setdefault(key, {})[pod.key] = None
        return False

    def _stop_waiting(self, pod: Pod) -> None:
        for parent in parents_of_pod(pod):
            waiting = self._waiting.get(clique_key(pod.metadata.namespace, parent.clique), {})
            waiting.pop(pod.key, None)

    def _pod_ip(self, pod: Pod, host_ip: str) -> str:
        if pod.spec.host_network:
            return host_ip
        if pod.status.pod_ip:
            self.pod_addresses.keep(pod.metadata.uid, pod.status.pod_ip)
        return self.pod_addresses.of(pod.metadata.uid)


def _works(node: Node) -> tuple[bool, bool]:
    """Whether the node is there at all, and whether it is known to be Ready."""
    return health_of(node) is not Health.LOST, condition(node.status.conditions, "Ready") == "True"
