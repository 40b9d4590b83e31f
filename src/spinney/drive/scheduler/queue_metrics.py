"""The metrics of queues: upstream's names where they exist, and what is asked for. Computed at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spinney.core.scheduling.queues.fair_share import UNLIMITED
from spinney.core.scheduling.queues.tree import QueueFigures, Shares

_GIGABYTE = 10**9
_QUOTAS = ("deserved_gpus", "Quota in GPUs"), ("quota_cpu_cores", "Quota"), ("quota_memory_bytes", "Quota")
_SHARES = (
    ("fair_share_gpu", "Fair share in GPUs"),
    ("fair_share_cpu_cores", "Fair share"),
    ("fair_share_memory_gb", "Fair share in units of 10^9 bytes"),
)
_USED = ("allocated_gpus", "GPUs held"), ("allocated_cpu_cores", "Held"), ("allocated_memory_bytes", "Held")
_ASKED = (
    ("asked_gpus", "GPUs held, and needed by gangs that wait"),
    ("asked_cpu_cores", "Held, and needed by gangs that wait"),
    ("asked_memory_bytes", "Held, and needed by gangs that wait"),
)


class QueueCollector(Collector):
    """`figures`: of each queue, by name."""

    def __init__(self, figures: Callable[[], Mapping[str, QueueFigures]], namespace: str) -> None:
        self._figures = figures
        self._namespace = namespace

    def describe(self) -> Iterable[Metric]:
        return [self._family("queue_info", "The queue exists")]

    def collect(self) -> Iterable[Metric]:
        figures = self._figures()
        there = self._family("queue_info", "The queue exists")
        for name in figures:
            there.add_metric([name], 1)
        yield there
        yield from self._amounts(_QUOTAS, {name: each.quota for name, each in figures.items()}, 1)
        yield from self._amounts(_SHARES, {name: each.fair_share for name, each in figures.items()}, _GIGABYTE)
        yield from self._amounts(_USED, {name: each.used for name, each in figures.items()}, 1)
        yield from self._amounts(_ASKED, {name: each.asked for name, each in figures.items()}, 1)

    def _amounts(
        self, families: tuple[tuple[str, str], ...], amounts: Mapping[str, Shares], memory_unit: int
    ) -> Iterable[Metric]:
        """A family for each of the three resources."""
        for kind, ((name, text), unit) in enumerate(zip(families, (1000, 1000, memory_unit), strict=True)):
            family = self._family(f"queue_{name}", text)
            for queue, amount in amounts.items():
                family.add_metric([queue], UNLIMITED if amount[kind] == UNLIMITED else amount[kind] / unit)
            yield family

    def _family(self, name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{self._namespace}_{name}", text, labels=["queue_name"])
