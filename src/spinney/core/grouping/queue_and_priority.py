"""Queue, PriorityClass and preemptibility of a group (K16), what is configured of them, and the default queues.

Settings of a PodGang take precedence over those of the top owner, and those over the pod's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spinney.api.changes import Create, Json, resource_of
from spinney.api.kinds.queue import Queue
from spinney.api.labels import (
    DEFAULT_PARENT_QUEUE,
    DEFAULT_QUEUE,
    KAI_NODE_POOL,
    KAI_PREEMPTIBILITY,
    KAI_QUEUE,
    PRIORITY_CLASS_NAME,
    PROJECT,
    RAY_PRIORITY_CLASS_NAME,
    SCHEDULER_KAI,
)
from spinney.core.grouping.group_shape import GroupShape, Lookups
from spinney.core.grouping.owner_chain import InvalidFieldError, OwnerChain, label
from spinney.core.suggestions import did_you_mean

# The default queues for workloads that name none: created when missing, never changed afterwards (K16).

QUEUES = resource_of(Queue)
_UNLIMITED = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def missing_queues(has_queue: Callable[[str], bool]) -> tuple[Create, ...]:
    """The missing default queues, the parent first: a queue without its parent schedules nothing."""
    wanted = {DEFAULT_PARENT_QUEUE: "", DEFAULT_QUEUE: DEFAULT_PARENT_QUEUE}
    return tuple(_create_queue(name, parent) for name, parent in wanted.items() if not has_queue(name))


def _create_queue(name: str, parent: str) -> Create:
    spec: Json = {"resources": {resource: dict(_UNLIMITED) for resource in ("gpu", "cpu", "memory")}}
    if parent:
        spec["parentQueue"] = parent
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUES.at(name), body, may_exist=True)


# Settings of the pod-grouper.


@dataclass(frozen=True, slots=True)
class GrouperSettings:
    """`default_classes`: the PriorityClass of workloads that name none, by owner kind."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_KAI})
    queue_label: str = KAI_QUEUE
    default_queue: str = DEFAULT_QUEUE
    default_classes: Mapping[str, str] = field(default_factory=dict)
    workers: int = 16


_CHOICES = ("preemptible", "non-preemptible")


@dataclass(frozen=True, slots=True)
class QueueAndPriority:
    """`by_pod`: the fields that come from the pod only, not from its owner."""

    queue: str
    priority_class: str
    preemptibility: str
    by_pod: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def queue_and_priority_of(
    chain: OwnerChain, shape: GroupShape, lookups: Lookups, settings: GrouperSettings
) -> QueueAndPriority:
    queue, queue_warnings = _queue(chain, lookups, settings)
    priority, priority_by_pod, priority_warnings = _priority_class(chain, shape, lookups, settings)
    preemptibility, preemptibility_by_pod = _preemptibility(chain)
    stated = {"priority_class_name": priority_by_pod, "preemptibility": preemptibility_by_pod}
    by_pod = frozenset() if shape.single else frozenset(field for field, is_so in stated.items() if is_so)
    return QueueAndPriority(queue, priority, preemptibility, by_pod, (*queue_warnings, *priority_warnings))


def _queue(chain: OwnerChain, lookups: Lookups, settings: GrouperSettings) -> tuple[str, tuple[str, ...]]:
    """The named queue, else the default one, with warnings. Only a named queue can be missing."""
    key = settings.queue_label
    named = _label_value(chain, key)[0] or chain.top.annotations.get(key, "")
    if not named and (project := _label_value(chain, PROJECT)[0]):
        pool = _label_value(chain, KAI_NODE_POOL)[0]
        named, key = (f"{project}-{pool}" if pool else project), PROJECT
    if not named:
        return settings.default_queue, ()
    if lookups.has_queue(named):
        return named, ()
    near = did_you_mean(named, lookups.queues())
    return named, (f"{chain.top}: {label(key)}: Queue '{named}' does not exist{near}",)


def _priority_class(
    chain: OwnerChain, shape: GroupShape, lookups: Lookups, settings: GrouperSettings
) -> tuple[str, bool, tuple[str, ...]]:
    """The first named class that exists; a class that does not exist gives a warning and is skipped."""
    own = chain.gang.word("spec", "priorityClassName") if chain.gang is not None else ""
    candidates = [("spec.priorityClassName", own, False)]
    candidates += [(label(key), *_label_value(chain, key)) for key in (RAY_PRIORITY_CLASS_NAME, PRIORITY_CLASS_NAME)]
    candidates.append(("spec.priorityClassName", chain.pod.spec.priority_class_name, True))
    warnings: list[str] = []
    default = settings.default_classes.get(chain.top.kind, shape.default_class)
    for place, name, by_pod in candidates:
        if not name:
            continue
        if lookups.has_priority_class(name):
            return name, by_pod, tuple(warnings)
        warnings.append(f"{chain.top}: {place}: PriorityClass '{name}' does not exist")
    return default, False, tuple(warnings)


def _preemptibility(chain: OwnerChain) -> tuple[str, bool]:
    found, by_pod = _label_value(chain, KAI_PREEMPTIBILITY)
    if found and found not in _CHOICES:
        subject = chain.pod.title if by_pod else chain.top
        raise InvalidFieldError(subject, label(KAI_PREEMPTIBILITY), found, " or ".join(_CHOICES))
    return found, by_pod


def _label_value(chain: OwnerChain, key: str) -> tuple[str, bool]:
    """The value of a label on the first owner from the top down that carries it; else the pod's, which is told."""
    above = (*((chain.gang,) if chain.gang is not None else ()), *reversed(chain.owners))
    if found := next((owner.labels[key] for owner in above if owner.labels.get(key)), ""):
        return found, False
    return chain.pod.metadata.labels.get(key, ""), True
