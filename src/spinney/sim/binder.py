"""First fit: each pending pod to the first node, by name, that has room for it. For tests without a scheduler.

Knows no gangs and no topology; never overcommits a node, and never binds a pod that is gated, leaving or bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from kube_apimachinery import quantity
from kube_apimachinery.clock import Dice
from kube_apimachinery.selectors import SelectorError, requirement
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, Result, Source
from spinney.sim.nodes.health import tolerates
from spinney.sim.objects import PODS, Json, Node, Pod, Views, condition

Amounts = Mapping[str, int]
"""Resources in thousandths."""


def demand(pod: Pod) -> dict[str, int]:
    """What a pod asks of a node: containers and sidecars together, or its largest init container, and one pod."""
    steady = _sum(each.resources.requests for each in pod.spec.containers)
    peak: dict[str, int] = {}
    for each in pod.spec.init_containers:
        own = _sum([each.resources.requests])
        if each.restart_policy == "Always":
            steady = _add(steady, own)
        else:
            peak = {name: max(peak.get(name, 0), own.get(name, 0)) for name in peak.keys() | own.keys()}
    total = {name: max(steady.get(name, 0), peak.get(name, 0)) for name in sorted(steady.keys() | peak.keys())}
    return _add(_add(total, _sum([pod.spec.overhead])), {"pods": 1000})


def admits(node: Node, pod: Pod) -> bool:
    """Whether the pod may run on the node at all, room aside."""
    if node.spec.unschedulable or condition(node.status.conditions, "Ready") != "True":
        return False
    if not pod.spec.node_selector.items() <= node.metadata.labels.items():
        return False
    harmful = [taint for taint in node.spec.taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    if not all(any(tolerates(each, taint) for each in pod.spec.tolerations) for taint in harmful):
        return False
    return _affine(node, pod.spec.affinity or {})


def _affine(node: Node, affinity: Json) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(node, term) for term in required.get("nodeSelectorTerms") or ())


def _term_holds(node: Node, term: Json) -> bool:
    parts = [(each, node.metadata.labels) for each in term.get("matchExpressions") or ()]
    parts += [(each, {"metadata.name": node.metadata.name}) for each in term.get("matchFields") or ()]
    try:
        return bool(parts) and all(requirement(each).matches(values) for each, values in parts)
    except SelectorError:
        return False


class Binder:
    """Binds what it is for: `takes` says which scheduler names (default: all)."""

    def __init__(
        self,
        views: Views,
        door: Door,
        client: ApiClient,
        dice: Dice,
        takes: Callable[[str], bool] = lambda scheduler_name: True,
    ) -> None:
        self._pods = views.pods
        self._nodes = views.nodes
        self._door = door
        self._takes = takes
        self._used: dict[str, dict[str, int]] = {}
        self._charged: dict[Key, tuple[str, dict[str, int]]] = {}
        self._pending: dict[Key, None] = {}
        self._order: list[str] = []
        self._starts: dict[tuple[tuple[str, int], ...], int] = {}
        sources = [Source(self._pods, self._keys_of_pod), Source(self._nodes, self._keys_of_node)]
        self.controller: Controller[Key] = Controller("binder", sources, self._reconcile, client, dice, workers=1)

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        waits = change.new is not None and self._waits(change.new)
        if waits:
            self._pending[change.key] = None
        else:
            self._pending.pop(change.key, None)
        if self._charge(change.key, change.new):
            self._starts.clear()
            return tuple(self._pending)
        return (change.key,) if waits else ()

    def _keys_of_node(self, change: Change[Node]) -> Iterable[Key]:
        if change.old is None or change.new is None:
            self._order = []
        self._starts.clear()
        return tuple(self._pending)

    def _waits(self, pod: Pod) -> bool:
        free = not pod.spec.node_name and not pod.leaving and not pod.finished and not pod.spec.scheduling_gates
        return free and self._takes(pod.spec.scheduler_name)

    def _charge(self, key: Key, pod: Pod | None) -> bool:
        """Keep the books; whether room was freed."""
        holds = pod is not None and bool(pod.spec.node_name) and not pod.finished
        before = self._charged.get(key)
        if before is not None and not holds:
            node, amounts = self._charged.pop(key)
            self._used[node] = _add(self._used[node], {name: -amount for name, amount in amounts.items()})
            return True
        if before is None and holds and pod is not None:
            self._book(key, pod.spec.node_name, demand(pod))
        return False

    def _book(self, key: Key, node: str, amounts: dict[str, int]) -> None:
        self._charged[key] = (node, amounts)
        self._used[node] = _add(self._used.get(node, {}), amounts)

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not self._waits(pod):
            return Done()
        amounts = demand(pod)
        node = self._first(pod, amounts)
        if node is None:
            return Done()
        given = Precondition(pod.metadata.uid, pod.metadata.resource_version)
        outcome = await self._door.bind(PODS.ref(key[1], key[0]), node, given)
        if not isinstance(outcome, Gone):
            written(outcome)
            if key not in self._charged:
                self._book(key, node, amounts)
        return Done()

    def _first(self, pod: Pod, amounts: Amounts) -> str | None:
        """The first node that takes the pod. Full nodes at the front are passed over until something changes."""
        self._order = self._order or sorted(node.metadata.name for node in self._nodes)
        shape = tuple(sorted(amounts.items()))
        full = True
        for index in range(self._starts.get(shape, 0), len(self._order)):
            node = self._nodes.get(("", self._order[index]))
            room = node is not None and self._has_room(node, amounts)
            if room and node is not None and admits(node, pod):
                return node.metadata.name
            full = full and not room
            if full:
                self._starts[shape] = index + 1
        return None

    def _has_room(self, node: Node, amounts: Amounts) -> bool:
        used = self._used.get(node.metadata.name, {})
        return all(
            used.get(resource, 0) + amount <= _capacity(node, resource)
            for resource, amount in amounts.items()
            if amount
        )


def _capacity(node: Node, resource: str) -> float:
    text = node.status.allocatable.get(resource)
    if text is None:
        return math.inf if resource == "pods" else 0
    return quantity.milli(text)


def _sum(maps: Iterable[Mapping[str, str | int | float]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in maps:
        for name, text in each.items():
            total[name] = total.get(name, 0) + quantity.milli(text)
    return total


def _add(left: Amounts, right: Amounts) -> dict[str, int]:
    return {
        name: left.get(name, 0) + right.get(name, 0) for name in [*left, *(name for name in right if name not in left)]
    }
