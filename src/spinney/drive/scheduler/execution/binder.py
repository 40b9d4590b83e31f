"""Binds the assignments of a recorded plan: each bind names the pod's uid and version, many run concurrently.

A bind is idempotent: executed twice, by any scheduler, it has the same result. Never binds to a node that does not
exist. An assignment is given up by patching its pod first, so that a bind still in flight fails on its resourceVersion;
the record is removed only after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from spinney.api.builtin.pod import Pod
from spinney.api.labels import DOMAIN, NUMA_ZONE, RANK, RELEASED, SEGMENT
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.gang.members import age_s
from spinney.core.scheduling.plan import Assignment, Plan
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.messages import failed_binding, failed_release
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import (
    Deleted,
    Exists,
    FieldConflict,
    Gone,
    Outcome,
    Refused,
    RetryLater,
    Stale,
    Unknown,
    Written,
)
from spinney.drive.apply.write import Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.client.errors import Status, TransportError, words
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import PODS
from spinney.drive.scheduler.execution.api_writer import ApiWriter
from spinney.drive.scheduler.metrics import Metrics


@dataclass(frozen=True, slots=True)
class UnreserveResult:
    """`done`: every pod has a new resourceVersion."""

    done: bool
    failures: tuple[WriteFailure, ...] = ()


async def unreserve_all(door: Door, pods: Sequence[Pod], version: str, nodes: Mapping[str, str]) -> UnreserveResult:
    """`version`: that of the record given up; `nodes`: the nodes that the pods do not get, by uid."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_unreserve(door, pod, version)) for pod in pods]
    outcomes = [task.result() for task in tasks]
    found = [
        _failure(pod, nodes, outcome.status)
        for pod, outcome in zip(pods, outcomes, strict=True)
        if isinstance(outcome, Refused)
    ]
    return UnreserveResult(all(isinstance(outcome, (Written, Gone)) for outcome in outcomes), tuple(found))


def _failure(pod: Pod, nodes: Mapping[str, str], status: Status) -> WriteFailure:
    key, uid = (pod.metadata.namespace, pod.metadata.name), pod.metadata.uid
    return WriteFailure("release", failed_release(key, nodes.get(uid, ""), words(status)), status.code, key, uid)


async def _unreserve(door: Door, pod: Pod, version: str) -> Outcome:
    metadata = pod.metadata
    patch = {"metadata": {"annotations": {RELEASED: version}}}
    given = Precondition(metadata.uid, metadata.resource_version)
    return await door.merge_patch(PODS.ref(metadata.name, metadata.namespace), patch, given)


_TRIES = 8
_NO_DRY_RUN = 400  # a webhook with side effects does not support dry run
_BACKOFF = Backoff(base_s=0.005, cap_s=1.0, factor=3.0)


class BindResult(Enum):
    """The result of one assignment."""

    BOUND = "taken"  # the pod has a node
    NOT_NEEDED = "vacant"  # the pod is gone or terminating: it needs no node
    REFUSED = "refused"  # the pod cannot be bound there: the assignment has to be given up
    RETRY = "open"  # not bound yet: try again


@dataclass(frozen=True, slots=True)
class BindResults:
    """The results of a plan's assignments, by uid, and the API server's answers to binds that it refused."""

    bind_results: Mapping[str, BindResult]
    failures: tuple[WriteFailure, ...] = ()


_Tried = tuple[BindResult, Status | None]
"""The result of a bind, and the API server's answer if it was refused."""


class Binder:
    """Binds the pods of a session's gangs. `pods`: as the caches show them."""

    def __init__(self, session: Session, api_writer: ApiWriter, pods: Cache[Pod], metrics: Metrics) -> None:
        self._session = session
        self._api_writer = api_writer
        self._pods = pods
        self._metrics = metrics
        self._labels_first = session.settings.labels_before_bind
        self._slots = asyncio.Semaphore(session.settings.binds_at_a_time)

    async def bind_all(self, plan: Plan, keys: Mapping[str, Key]) -> BindResults:
        """Bind all assignments. `keys` are the pods that exist, by uid."""
        bind_results = {assignment.uid: BindResult.NOT_NEEDED for assignment in plan.assignments}
        assignments = [assignment for assignment in plan.assignments if assignment.uid in keys]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._bind(keys[assignment.uid], assignment, plan)) for assignment in assignments
            ]
        tried = [task.result() for task in tasks]
        bind_results |= {
            assignment.uid: bind_result for assignment, (bind_result, _) in zip(assignments, tried, strict=True)
        }
        return BindResults(bind_results, _failures(keys, assignments, [refusal for _, refusal in tried]))

    async def probe(self, plan: Plan, keys: Mapping[str, Key]) -> tuple[WriteFailure, ...]:
        """Dry run: the binds of a plan that the API server would refuse."""
        assignments = [assignment for assignment in plan.assignments if assignment.uid in keys]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._would_refuse(keys[assignment.uid], assignment, plan))
                for assignment in assignments
            ]
        return _failures(keys, assignments, [task.result() for task in tasks])

    async def _would_refuse(self, key: Key, assignment: Assignment, plan: Plan) -> Status | None:
        async with self._slots:
            outcome = await self._api_writer.door.bind(
                PODS.ref(key[1], key[0]),
                assignment.node,
                Precondition(assignment.uid),
                annotations=hints(assignment, plan),
                labels={} if self._labels_first else hint_labels(assignment),
                dry_run=True,
            )
        is_no = isinstance(outcome, Refused) and outcome.status.code != _NO_DRY_RUN
        return outcome.status if is_no and isinstance(outcome, Refused) else None

    async def _bind(self, key: Key, assignment: Assignment, plan: Plan) -> _Tried:
        refusal: Status | None = None
        for attempt in range(_TRIES):
            pod = self._pods.get(key)
            known_result = _result_without_bind(pod, assignment)
            if known_result is not None:
                return known_result, None
            assert pod is not None
            if self._session.cluster.inventory.find(assignment.node) is None:
                return BindResult.REFUSED, None
            async with self._slots:
                bind_result, refusal = await self._try(key, pod, assignment, plan)
            if bind_result is not BindResult.RETRY:
                return bind_result, refusal
            await asyncio.sleep(_BACKOFF.delay_s(attempt, self._api_writer.dice))
        return BindResult.RETRY, refusal

    async def _try(self, key: Key, pod: Pod, assignment: Assignment, plan: Plan) -> _Tried:
        given = Precondition(assignment.uid, pod.metadata.resource_version)
        ref, labels = PODS.ref(key[1], key[0]), hint_labels(assignment)
        door, began_s = self._api_writer.door, self._session.clock.monotonic()
        if self._labels_first and not labels.items() <= pod.metadata.labels.items():
            outcome = await door.merge_patch(ref, {"metadata": {"labels": labels}}, given)
            if isinstance(outcome, Written):
                given = Precondition(assignment.uid, outcome.version)
                outcome = await self._api_writer.door.bind(
                    ref, assignment.node, given, annotations=hints(assignment, plan)
                )
        else:
            outcome = await door.bind(ref, assignment.node, given, annotations=hints(assignment, plan), labels=labels)
        match outcome:
            case Written():
                self._metrics.bound(age_s(pod, self._session.clock.now()), self._session.clock.monotonic() - began_s)
                return BindResult.BOUND, None
            case Gone() | Deleted():
                return BindResult.NOT_NEEDED, None
            case Refused(status) | FieldConflict(status) | Exists(status):
                return BindResult.REFUSED, status
            case Stale():
                return BindResult.RETRY, None
            case RetryLater(reason):
                return BindResult.RETRY, _answer(reason)
            case Unknown(reason):
                await self._api_writer.confirm_writes()
                return BindResult.RETRY, _answer(reason)
            case _:
                assert_never(outcome)


def _answer(reason: Status | TransportError) -> Status | None:
    """The API server's answer; None: there was none."""
    return reason if isinstance(reason, Status) else None


def _failures(
    keys: Mapping[str, Key], assignments: Sequence[Assignment], refusal: Sequence[Status | None]
) -> tuple[WriteFailure, ...]:
    """Sorted by pod name, so that the same failure is reported first each time."""
    found = [
        WriteFailure(
            "bind",
            failed_binding(keys[assignment.uid], assignment.node, words(status)),
            status.code,
            pod,
            assignment.uid,
        )
        for assignment, status in zip(assignments, refusal, strict=True)
        if status is not None and (pod := keys[assignment.uid])
    ]
    return tuple(sorted(found, key=lambda each: each.pod))


def hints(assignment: Assignment, plan: Plan) -> dict[str, str]:
    """The annotations that tell a pod its rank and domain (K11)."""
    found = {RANK: str(assignment.rank)}
    if plan.domain:
        found[DOMAIN] = "/".join(plan.domain)
    if assignment.segment is not None:
        found[SEGMENT] = str(assignment.segment)
    if assignment.zone:
        found[NUMA_ZONE] = assignment.zone
    return found


def hint_labels(assignment: Assignment) -> dict[str, str]:
    """The part of the hints that fits into labels, for label selectors."""
    return {RANK: str(assignment.rank)} | ({SEGMENT: str(assignment.segment)} if assignment.segment is not None else {})


def _result_without_bind(pod: Pod | None, assignment: Assignment) -> BindResult | None:
    """The result for an assignment that needs no bind; None: it needs one."""
    if pod is None or pod.metadata.uid != assignment.uid or not pod.is_here:
        return BindResult.NOT_NEEDED
    return BindResult.BOUND if pod.spec.node_name else None
