"""Priority and preemptibility of gangs."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PriorityClass, ResourceQuota

DEFAULT_PRIORITY = 50
PREEMPTIBLE_BELOW = 100
NEVER = "Never"
"""The preemption policy of gangs that wait and do not preempt."""
_SCOPE = "PriorityClass"


class Priorities:
    """The existing PriorityClasses. An unknown or empty name means the global default, else 50."""

    def __init__(self, classes: tuple[PriorityClass, ...] = ()) -> None:
        self._classes: dict[str, PriorityClass] = {}
        self._default = DEFAULT_PRIORITY
        for each in classes:
            self.put(each)

    def put(self, priority_class: PriorityClass) -> None:
        self._classes[priority_class.metadata.name] = priority_class
        self._choose_default()

    def remove(self, name: str) -> None:
        """Remove a class, if it exists."""
        self._classes.pop(name, None)
        self._choose_default()

    def of(self, name: str) -> int:
        found = self._classes.get(name)
        return found.value if found is not None else self._default

    def of_unproven(self, name: str) -> int:
        """The value of a class whose use no quota has admitted: at most the default."""
        return min(self.of(name), self._default)

    def preempts(self, name: str) -> bool:
        """Whether gangs of this class may preempt gangs of lower priority."""
        found = self._classes.get(name)
        return found is None or found.preemption_policy != NEVER

    def _choose_default(self) -> None:
        """The lowest of several global defaults counts, as the API server decides it for pods."""
        values = [each.value for each in self._classes.values() if each.global_default]
        self._default = min(values, default=DEFAULT_PRIORITY)


def is_preemptible(preemptibility: str, priority: int) -> bool:
    """As the PodGroup states; otherwise by priority."""
    match preemptibility:
        case "preemptible":
            return True
        case "non-preemptible":
            return False
        case _:
            return priority < PREEMPTIBLE_BELOW


def limits_class(quota: ResourceQuota, name: str) -> bool:
    """Whether a quota that is scoped to PriorityClasses counts pods of this class."""
    selector = quota.spec.scope_selector
    class_scopes = [each for each in (selector.match_expressions if selector else ()) if each.scope_name == _SCOPE]
    if not class_scopes:
        return _SCOPE in quota.spec.scopes
    return all(_is_meant(each.operator, each.values, name) for each in class_scopes)


def _is_meant(operator: str, values: tuple[str, ...], name: str) -> bool:
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return True
        case _:
            return False


def all_carry(name: str, pods: Iterable[Pod]) -> bool:
    """Whether every pod has the class itself, so that the quota of its namespace has counted it."""
    return all(pod.spec.priority_class_name == name for pod in pods)
