"""The scheduler's metrics: upstream's names where they exist, and our own for the rest.

Cheap: what can be computed at a scrape is computed then, capacity by topology level included. Labels are bounded, but
for the evicted group, whose name upstream has in a label. Each instance has its own registry: two schedulers in one
process do not mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from kube_apimachinery.times import seconds
from spinney.api.labels import GPU_RESOURCE
from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import Tree
from spinney.core.scheduling.queues.tree import QueueFigures
from spinney.drive.scheduler.queue_metrics import QueueCollector

NAMESPACE = "kai"
_MILLISECONDS = [5.0 * 2**power for power in range(10)]
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)


class _Counts(Collector):
    """A counter with exactly the name it is given: the client library would add `_total`."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str, *labels: str) -> None:
        self._name = f"{NAMESPACE}_{name}"
        self._text = text
        self._labels = labels
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}
        registry.register(self)

    def add(self, amount: float, *values: str) -> None:
        self._counts[values] = self._counts.get(values, 0.0) + amount

    def collect(self) -> Iterable[Metric]:
        family = UnknownMetricFamily(self._name, self._text, labels=self._labels)
        for values, amount in sorted(self._counts.items()):
            family.add_metric(values, amount)
        yield family


class Metrics:
    """`inventory` (None: not known yet), `pending` (gangs by reported state), `queues` and `oldest` (when the oldest
    pending gang was created) are read at a scrape.
    """

    def __init__(
        self,
        inventory: Callable[[], Inventory | None],
        pending: Callable[[], Mapping[str, int]] = dict,
        queues: Callable[[], Mapping[str, QueueFigures]] = dict,
        oldest: Callable[[], str] = str,
    ) -> None:
        self.registry = registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, namespace=NAMESPACE, registry=registry, buckets=buckets)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=registry)

        self._e2e = gauge("e2e_scheduling_latency_milliseconds", "Time of the last cycle")
        self._open = gauge("open_session_latency_milliseconds", "Time to read what changed, last cycle")
        self._close = gauge("close_session_latency_milliseconds", "Time to hand out the work, last cycle")
        self._action = gauge("action_scheduling_latency_milliseconds", "Time of an action, last cycle", "action")
        self._task = histogram(
            "task_scheduling_latency_milliseconds", "From the creation of a pod to its bind", _MILLISECONDS
        )
        self._bind = histogram("task_bind_latency_milliseconds", "Time of a bind", _MILLISECONDS)
        self._scheduled = _Counts(registry, "podgroups_scheduled_by_action", "PodGroups scheduled", "action")
        self._acted_on = _Counts(registry, "podgroups_acted_on_by_action", "PodGroups tried", "action")
        self._preemptions = _Counts(registry, "total_preemption_attempts", "Preemptions tried")
        evicted = ("podgroup", "uid", "nodepool", "action")
        self._evicted = counter("pod_group_evicted_pods_total", "Pods evicted", *evicted)
        self._cycles = histogram("cycle_duration_seconds", "Time of a cycle", _SECONDS)
        self._decisions = histogram("decision_duration_seconds", "Time of a decision", _SECONDS, "outcome")
        self._scores = histogram("placement_score", "Scores of placements, 0 to 1", _SCORES)
        self._conflicts = counter("plan_conflicts_total", "Plans that another client wrote first")
        self._refused = counter("refused_writes_total", "Writes for gangs that failed", "write", "code")
        self._rejected = counter("rejected_records_total", "Recorded plans that were not carried out, by why", "reason")
        registry.register(_Pending(pending, oldest))
        registry.register(CapacityCollector(inventory))
        registry.register(QueueCollector(queues, NAMESPACE))

    def cycle(self, took_s: float, reading_s: float = 0.0, handing_out_s: float = 0.0) -> None:
        self._e2e.set(took_s * 1000)
        self._open.set(reading_s * 1000)
        self._close.set(handing_out_s * 1000)
        self._cycles.observe(took_s)

    def action(self, name: str, took_s: float) -> None:
        self._action.labels(name).set(took_s * 1000)

    def decided(self, outcome: str, took_s: float, action: str = "allocate") -> None:
        """A gang was decided: placed, infeasible, exhausted or invalid."""
        self._acted_on.add(1.0, action)
        self._decisions.labels(outcome).observe(took_s)

    def scheduled(self, score: float, action: str = "allocate") -> None:
        """A gang was placed."""
        self._scheduled.add(1.0, action)
        self._scores.observe(score)

    def bound(self, waited_s: float, bind_s: float) -> None:
        self._task.observe(waited_s * 1000)
        self._bind.observe(bind_s * 1000)

    def plan_conflict(self) -> None:
        self._conflicts.inc()

    def refused(self, write: str, code: int) -> None:
        """The API server refused a bind, evict, release or record; `code` is the HTTP status code."""
        self._refused.labels(write, str(code)).inc()

    def record_rejected(self, reason: str) -> None:
        """`reason` is one of a few fixed words."""
        self._rejected.labels(reason).inc()

    def preemption_attempt(self) -> None:
        self._preemptions.add(1.0)

    def evicted(self, podgroup: str, uid: str, node_pool: str, action: str, pods: int) -> None:
        self._evicted.labels(podgroup, uid, node_pool, action).inc(pods)

    def page(self) -> str:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry).decode()


class _Pending(Collector):
    """Pending gangs by state, and the creation of the oldest one."""

    def __init__(self, pending: Callable[[], Mapping[str, int]], oldest: Callable[[], str]) -> None:
        self._pending = pending
        self._oldest = oldest

    def describe(self) -> Iterable[Metric]:
        return [self._family(), self._oldest_family()]

    def collect(self) -> Iterable[Metric]:
        family = self._family()
        for reason, gangs in sorted(self._pending().items()):
            family.add_metric([reason], gangs)
        yield family
        family = self._oldest_family()
        if created := self._oldest():
            family.add_metric([], seconds(created))
        yield family

    def _oldest_family(self) -> UnknownMetricFamily:
        text = "When the oldest gang that waits without a bound pod was created"
        return UnknownMetricFamily(f"{NAMESPACE}_pending_podgroup_oldest_timestamp_seconds", text)

    def _family(self) -> UnknownMetricFamily:
        return UnknownMetricFamily(f"{NAMESPACE}_pending_podgroups", "Gangs that wait, by state", labels=["reason"])


GPU_PODS = NodeFilter(tolerations=(Toleration(GPU_RESOURCE, "Exists"),))
"""The nodes that count: those open to pods that tolerate the usual taint of GPU nodes, and no other taint."""

MOST_DOMAINS = 64
"""A level with more domains is reported in total only."""

_FREE = "kai_topology_free", "Free GPUs on nodes that can be used, in all domains of a level", ["topology", "level"]
_LARGEST_FREE = "kai_topology_largest_free", "Free GPUs of the domain that has most", ["topology", "level"]
_DOMAIN_FREE = "kai_topology_domain_free", "Free GPUs of a domain", ["topology", "level", "domain"]
_DOMAINS = "kai_topology_domains", "Domains that have nodes", ["topology", "level"]
_GANG = (
    "kai_topology_largest_gang",
    "Most pods of so many GPUs that one domain takes now",
    ["topology", "level", "gpus"],
)
_SCATTERED = "kai_gpu_fragmentation", "Share of free GPUs on nodes of which only a part is free, 0 to 1", ()


class CapacityCollector(Collector):
    """`inventory` is read at each scrape; None: there is none yet."""

    def __init__(self, inventory: Callable[[], Inventory | None]) -> None:
        self._inventory = inventory

    def describe(self) -> Iterable[Metric]:
        return list(_families().values())

    def collect(self) -> Iterator[Metric]:
        families = _families()
        inventory = self._inventory()
        if inventory is not None and GPU_RESOURCE in inventory.resources:
            _fill(families, inventory)
        yield from families.values()


def _families() -> dict[str, GaugeMetricFamily]:
    every = (_FREE, _LARGEST_FREE, _DOMAIN_FREE, _DOMAINS, _GANG, _SCATTERED)
    return {name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in every}


def _fill(families: dict[str, GaugeMetricFamily], inventory: Inventory) -> None:
    gpu = inventory.resources.index(GPU_RESOURCE)
    largest = max((inventory.node(slot).allocatable[gpu] for slot in _nodes(inventory)), default=0)
    shapes = {gpus: Shape(_request(inventory, gpu, gpus), GPU_PODS) for gpus in sorted({1, largest} - {0})}
    room = inventory.room(frozenset({GPU_PODS}), (gpu,))
    for name, tree in sorted(inventory.trees.items()):
        for depth, level in enumerate(tree.levels, start=1):
            free = room.at(name, depth, gpu)
            live = [domain for domain in tree.order(depth) if tree.size(depth, domain)]
            labels = [name, level]
            families[_DOMAINS[0]].add_metric(labels, len(live))
            families[_FREE[0]].add_metric(labels, int(free.sum()))
            families[_LARGEST_FREE[0]].add_metric(labels, int(free.max(initial=0)))
            _name_domains(families[_DOMAIN_FREE[0]], tree, depth, live, free.tolist())
            for gpus, shape in shapes.items():
                fits = inventory.counts(shape).at(name, depth)
                families[_GANG[0]].add_metric([*labels, str(gpus)], int(fits.max(initial=0)))
    families[_SCATTERED[0]].add_metric([], _scattered(inventory, gpu))


def _name_domains(family: GaugeMetricFamily, tree: Tree, depth: int, live: list[int], free: list[int]) -> None:
    if len(live) > MOST_DOMAINS:
        return
    for domain in live:
        path = "/".join(tree.path(depth, domain))
        family.add_metric([tree.topology.name, tree.levels[depth - 1], path], free[domain])


def _request(inventory: Inventory, gpu: int, gpus: int) -> tuple[int, ...]:
    """The request of a pod with this many GPUs and nothing else but its pod slot."""
    wanted = {gpu: gpus} | ({inventory.resources.index("pods"): 1} if "pods" in inventory.resources else {})
    return tuple(wanted.get(resource, 0) for resource in range(len(inventory.resources)))


def _nodes(inventory: Inventory) -> list[int]:
    """Slots of nodes, without those of their zones."""
    return [slot for slot in inventory.slots() if inventory.home(slot) == slot]


def _scattered(inventory: Inventory, gpu: int) -> float:
    slots = _nodes(inventory)
    free = np.array([max(0, inventory.idle[slot][gpu]) for slot in slots], np.int64)
    size = np.array([inventory.node(slot).allocatable[gpu] for slot in slots], np.int64)
    total = int(free.sum())
    return float(free[free < size].sum() / total) if total else 0.0
