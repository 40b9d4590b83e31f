"""Disruption budgets: the pods that may not be evicted now, determined before any eviction.

Never allows more than the API server, which checks again. A pod that no budget covers, or that has not started yet, may
be evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube_apimachinery.selectors import Selector
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.policy import PodDisruptionBudget
from spinney.api.builtin.selectors import to_selector

Key = tuple[str, str]
_ALWAYS = "AlwaysAllow"


@dataclass(frozen=True, slots=True)
class Budget:
    """`allowed`: the number of pods that may be evicted now. `spares_unhealthy`: unready pods do not count."""

    key: Key
    selector: Selector
    allowed: int
    spares_unhealthy: bool

    def governs(self, pod: Pod) -> bool:
        """Whether the eviction of the pod counts against the budget."""
        return self.selector.matches(pod.metadata.labels) and not (self.spares_unhealthy and not _is_ready(pod))


def read_budget(found: PodDisruptionBudget) -> Budget:
    """A budget whose status is behind its spec allows nothing."""
    status = found.status
    is_current = status.observed_generation >= found.metadata.generation
    always = found.spec.unhealthy_pod_eviction_policy == _ALWAYS
    return Budget(
        key=(found.metadata.namespace, found.metadata.name),
        selector=to_selector(found.spec.selector),
        allowed=max(0, status.disruptions_allowed) if is_current else 0,
        spares_unhealthy=always or 0 < status.desired_healthy <= status.current_healthy,
    )


class Budgets:
    """All budgets as they are now. `drawn`: pods whose eviction is decided but not visible in a status yet."""

    def __init__(self, found: Iterable[PodDisruptionBudget], drawn: Iterable[Pod] = ()) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        for each in found:
            self._by_namespace.setdefault(each.metadata.namespace, []).append(read_budget(each))
        self._drawn = self._counted(drawn) if self._by_namespace else Counter[Key]()

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def protected(self, pods: Sequence[Pod]) -> frozenset[str]:
        """Uids of the pods of a gang that must stay when its others are evicted; budgets are used up in order."""
        if not self._by_namespace:
            return frozenset()
        spent = Counter(self._drawn)
        kept: set[str] = set()
        for pod in pods:
            mine = self._of(pod)
            if len(mine) > 1 or any(spent[budget.key] >= budget.allowed for budget in mine):
                kept.add(pod.metadata.uid)
            else:
                spent.update(budget.key for budget in mine)
        return frozenset(kept)

    def guards(self, pod: Pod) -> bool:
        """Whether the API server will check a budget for the pod."""
        return bool(self._of(pod))

    def _counted(self, pods: Iterable[Pod]) -> Counter[Key]:
        return Counter(budget.key for pod in pods for budget in self._of(pod))

    def _of(self, pod: Pod) -> list[Budget]:
        if pod.status.phase == "Pending" or not pod.is_here:
            return []
        return [budget for budget in self._by_namespace.get(pod.metadata.namespace, ()) if budget.governs(pod)]


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"
