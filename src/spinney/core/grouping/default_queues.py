"""The default queues for workloads that name none: created when missing, never changed afterwards (K16)."""

from __future__ import annotations

from collections.abc import Callable

from spinney.api.changes import Create, Json, resource_of
from spinney.api.kinds.queue import Queue
from spinney.api.labels import DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE

QUEUES = resource_of(Queue)
_UNLIMITED = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def missing_queues(has_queue: Callable[[str], bool]) -> tuple[Create, ...]:
    """The missing default queues, the parent first: a queue without its parent schedules nothing."""
    wanted = {DEFAULT_PARENT_QUEUE: "", DEFAULT_QUEUE: DEFAULT_PARENT_QUEUE}
    return tuple(_queue(name, parent) for name, parent in wanted.items() if not has_queue(name))


def _queue(name: str, parent: str) -> Create:
    spec: Json = {"resources": {resource: dict(_UNLIMITED) for resource in ("gpu", "cpu", "memory")}}
    if parent:
        spec["parentQueue"] = parent
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUES.at(name), body, may_exist=True)
