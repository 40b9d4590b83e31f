"""The tree of queues: which gangs are admitted, how much they may use, and in what order they are decided.

Refuses before any placement, and with facts: a refusal names the queue, the resource and the numbers. Usage is updated
incrementally; a verdict costs one walk from the leaf to the root.

Amounts are integers once a queue is read: GPUs and cpu in thousandths, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from kube_apimachinery import quantity
from kube_apimachinery.duration import DurationError, seconds
from spinney.api.kinds.podgroup import QueueDetails
from spinney.api.kinds.queue import Queue
from spinney.api.labels import GPU_RESOURCE
from spinney.api.placement.problem import Amounts

UNLIMITED = -1
_MEGABYTE = 10**6


class Shares(NamedTuple):
    """An amount of each of the three."""

    gpu_m: int = 0
    cpu_m: int = 0
    memory: int = 0

    def plus(self, other: Shares, times: int = 1) -> Shares:
        return Shares(
            self.gpu_m + times * other.gpu_m, self.cpu_m + times * other.cpu_m, self.memory + times * other.memory
        )

    def resources(self) -> dict[str, str | int]:
        """As shown in a status; unlimited amounts are omitted."""
        texts = {
            GPU_RESOURCE: quantity.format_milli(self.gpu_m),
            "cpu": quantity.format_milli(self.cpu_m),
            "memory": quantity.format_bytes(self.memory),
        }
        return {name: text for (name, text), amount in zip(texts.items(), self, strict=True) if amount != UNLIMITED}


NOTHING = Shares()
EVERYTHING = Shares(UNLIMITED, UNLIMITED, UNLIMITED)
NAMES = ("GPUs", "CPU cores", "memory")


class ShareUnits:
    """Converts amounts over one list of resources."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._gpus = [index for index, name in enumerate(resources) if name.endswith("/gpu")]
        self._cpu = [index for index, name in enumerate(resources) if name == "cpu"]
        self._memory = [index for index, name in enumerate(resources) if name == "memory"]

    def shares_of(self, amounts: Amounts) -> Shares:
        """An empty tuple of amounts counts as nothing."""
        if not amounts:
            return NOTHING
        return Shares(
            1000 * sum([amounts[index] for index in self._gpus]),
            sum([amounts[index] for index in self._cpu]),
            sum([amounts[index] for index in self._memory]),
        )


def quotas(queue: Queue) -> Shares:
    """The deserved quota; a queue that states no resources at all is unlimited."""
    given = queue.spec.resources
    return EVERYTHING if given is None else _shares([one.quota for one in (given.gpu, given.cpu, given.memory)])


def limits(queue: Queue) -> Shares:
    given = queue.spec.resources
    return EVERYTHING if given is None else _shares([one.limit for one in (given.gpu, given.cpu, given.memory)])


def amount_text(kind: int, amount: int) -> str:
    """An amount of one of the three, for messages."""
    match kind:
        case 0:
            return f"{_decimal(amount)} GPUs"
        case 1:
            return f"{_decimal(amount)} cores"
        case _:
            return f"{_decimal(amount // _MEGABYTE)} GB"


def _shares(stated: Sequence[float]) -> Shares:
    units = (1000, 1, _MEGABYTE)
    return Shares(*[UNLIMITED if one < 0 else round(one * unit) for one, unit in zip(stated, units, strict=True)])


def _decimal(thousandths: int) -> str:
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")


QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
OVER_LIMIT = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
DEFAULT_PRIORITY = 100

Key = tuple[int, tuple[int, ...], str, bool, int, str]


class Refusal(msgspec.Struct, frozen=True):
    """Why a gang is not admitted. `details`: the numbers, if it is about amounts."""

    reason: str
    message: str
    details: QueueDetails | None = None


class QueueUsage(NamedTuple):
    """What a gang asks of a queue, or uses of it."""

    queue: str
    amounts: Amounts
    preemptible: bool


class Usage(NamedTuple):
    """What the gangs of a queue and its descendants use, and the non-preemptible part of it."""

    allocated: Shares = NOTHING
    non_preemptible: Shares = NOTHING

    def plus(self, amounts: Shares, preemptible: bool, times: int = 1) -> Usage:
        rest = self.non_preemptible if preemptible else self.non_preemptible.plus(amounts, times)
        return Usage(self.allocated.plus(amounts, times), rest)


class Queues:
    """Queues may be added and removed in any order; the usage of a queue is kept even while it does not exist."""

    def __init__(self, resources: Sequence[str], queues: Sequence[Queue] = ()) -> None:
        self._scale = ShareUnits(resources)
        self._queues: dict[str, Queue] = {}
        self._children: dict[str, set[str]] = {}
        self._own: dict[str, Usage] = {}
        self._total: dict[str, Usage] = {}
        for queue in queues:
            self.put(queue)

    # Changes

    def put(self, queue: Queue) -> None:
        """Add or replace a queue."""
        name = queue.metadata.name
        before = self._queues.get(name)
        self._queues[name] = queue
        if before is not None and before.spec.parent_queue == queue.spec.parent_queue:
            return
        self._unhook(before)
        if queue.spec.parent_queue:
            self._children.setdefault(queue.spec.parent_queue, set()).add(name)
        self._add_up()

    def remove(self, name: str) -> None:
        """Remove a queue, if it exists."""
        before = self._queues.pop(name, None)
        if before is not None:
            self._unhook(before)
            self._add_up()

    def allocate(self, queue: str, amounts: Amounts, preemptible: bool) -> None:
        """Charge the queue for pods with a node or a reservation."""
        self._change(queue, self._scale.shares_of(amounts), preemptible, 1)

    def release(self, queue: str, amounts: Amounts, preemptible: bool) -> None:
        """The opposite of `allocate`."""
        self._change(queue, self._scale.shares_of(amounts), preemptible, -1)

    # Queries

    def usage(self, queue: str) -> Usage:
        """The usage of the queue and its descendants."""
        return self._total.get(queue, Usage())

    def verdict(self, queue: str, requested: Amounts, preemptible: bool) -> Refusal | None:
        """Why the queue does not admit the request; None: it does."""
        refused = self._standing(queue)
        if refused is not None:
            return refused
        asked = self._scale.shares_of(requested)
        for name in self._upwards(queue):
            refused = self._over_limit(name, asked, preemptible)
            if refused is None and not preemptible:
                refused = self._over_quota(name, asked)
            if refused is not None:
                return refused
        return None

    def over_limit_queue(self, queue: str, requested: Amounts) -> str:
        """The highest queue, from this one up, whose limit is exceeded; empty: none."""
        asked = self._scale.shares_of(requested)
        over = [name for name in self._upwards(queue) if self._exceeded(name, asked) is not None]
        return over[-1] if over else ""

    def below(self, name: str) -> Iterator[str]:
        """The queue and its descendants, each once, even if one of them does not exist."""
        seen = {name: None}
        stack = [name]
        while stack:
            at = stack.pop()
            yield at
            fresh = [child for child in sorted(self._children.get(at, ())) if child not in seen]
            seen.update(dict.fromkeys(fresh))
            stack.extend(fresh)

    @contextmanager
    def supposing(self, *, gone: Sequence[QueueUsage] = (), there: Sequence[QueueUsage] = ()) -> Iterator[None]:
        """Inside the block, the usage `gone` is released and the usage `there` is added."""
        for amount in gone:
            self.release(*amount)
        for amount in there:
            self.allocate(*amount)
        try:
            yield
        finally:
            for amount in there:
                self.release(*amount)
            for amount in gone:
                self.allocate(*amount)

    def min_runtime_s(self, queue: str) -> float:
        """The minimum runtime of its gangs before preemption: its own, or that of the nearest ancestor with one."""
        stated = (self._queues[name].spec.preempt_min_runtime for name in self._upwards(queue))
        return next((_seconds(text) for text in stated if text), 0.0)

    def order(self, priority: int, queue: str, created: str | None, name: str) -> Key:
        """Sort key of pending gangs: gang priority, queue priorities from the root down, age, fair share, name.

        Of gangs of one age, those of a queue within its quota come first, then those of the queue that uses the smaller
        part of its quota. `created` is the creation timestamp as the API server wrote it.
        """
        way = list(self._upwards(queue))
        ranks = tuple([-_priority(self._queues[each]) for each in reversed(way)])
        over, share = self._share(queue)
        return -priority, ranks, created or "", over, share, name

    # Internals

    def _standing(self, queue: str) -> Refusal | None:
        """Only leaf queues whose ancestors all exist admit gangs."""
        if queue not in self._queues:
            return Refusal(QUEUE_DOES_NOT_EXIST, f"Queue '{queue}' does not exist")
        children = self._children.get(queue)
        if children:
            below = ", ".join(sorted(children)[:3]) + (", ..." if len(children) > 3 else "")
            return Refusal(QUEUE_DOES_NOT_EXIST, f"Queue '{queue}' is not a leaf queue: it is the parent of {below}")
        way = list(self._upwards(queue))
        parent = self._queues[way[-1]].spec.parent_queue
        if parent in way:
            return Refusal(QUEUE_DOES_NOT_EXIST, f"Queue '{queue}' has no root: the parents of '{parent}' are a circle")
        if parent:
            return Refusal(
                QUEUE_DOES_NOT_EXIST, f"Queue '{parent}' does not exist: it is the parent of queue '{way[-1]}'"
            )
        return None

    def _exceeded(self, name: str, asked: Shares) -> int | None:
        """The index of a resource whose limit would be exceeded."""
        limit, used = limits(self._queues[name]), self.usage(name).allocated
        for kind in range(len(NAMES)):
            if limit[kind] != UNLIMITED and asked[kind] and used[kind] + asked[kind] > limit[kind]:
                return kind
        return None

    def _over_limit(self, name: str, asked: Shares, preemptible: bool) -> Refusal | None:
        kind = self._exceeded(name, asked)
        if kind is None:
            return None
        limit, used = limits(self._queues[name]), self.usage(name).allocated
        message = (
            f"{name} quota has reached the allowable limit of {NAMES[kind]}. "
            f"Limit is {amount_text(kind, limit[kind])}, in use are {amount_text(kind, used[kind])}, "
            f"the workload asks for {amount_text(kind, asked[kind])}"
        )
        return Refusal(OVER_LIMIT, message, self._details(name, asked, preemptible))

    def _over_quota(self, name: str, asked: Shares) -> Refusal | None:
        quota, used = quotas(self._queues[name]), self.usage(name).non_preemptible
        for kind in range(len(NAMES)):
            if quota[kind] != UNLIMITED and asked[kind] and used[kind] + asked[kind] > quota[kind]:
                message = (
                    f"Non-preemptible workload is over quota. It asks for {amount_text(kind, asked[kind])}, "
                    f"the quota of "
                    f"{name} is {amount_text(kind, quota[kind])}, "
                    f"and non-preemptible workloads hold {amount_text(kind, used[kind])}"
                )
                return Refusal(NON_PREEMPTIBLE_OVER_QUOTA, message, self._details(name, asked, preemptible=False))
        return None

    def _details(self, name: str, asked: Shares, preemptible: bool) -> QueueDetails:
        queue, usage = self._queues[name], self.usage(name)
        return QueueDetails(
            name=name,
            queue_requested_resources=usage.allocated.plus(asked).resources(),
            queue_deserved_resources=quotas(queue).resources(),
            queue_allocated_resources=usage.allocated.resources(),
            queue_allocated_non_preemptible_resources=usage.non_preemptible.resources(),
            queue_resource_limits=limits(queue).resources(),
            pod_group_requested_resources=asked.resources(),
            pod_group_requested_non_preemptible_resources={} if preemptible else asked.resources(),
        )

    def _share(self, name: str) -> tuple[bool, int]:
        """Whether usage exceeds the quota, and the largest ratio of usage to quota of any resource, in millionths."""
        queue = self._queues.get(name)
        if queue is None:
            return False, 0
        pairs = [
            (used, quota)
            for used, quota in zip(self.usage(name).allocated, quotas(queue), strict=True)
            if used and quota != UNLIMITED
        ]
        largest = max((used * 10**6 // max(quota, 1) for used, quota in pairs), default=0)
        return any(used > quota for used, quota in pairs), largest

    def _upwards(self, name: str) -> Iterator[str]:
        """The queue and its existing ancestors, each once, even if the parents form a cycle."""
        seen: set[str] = set()
        while name and name not in seen and name in self._queues:
            seen.add(name)
            yield name
            name = self._queues[name].spec.parent_queue

    def _change(self, queue: str, amounts: Shares, preemptible: bool, times: int) -> None:
        own = self._own.get(queue, Usage()).plus(amounts, preemptible, times)
        self._own[queue] = own
        if own == Usage():
            del self._own[queue]
        for name in self._upwards(queue):
            self._total[name] = self.usage(name).plus(amounts, preemptible, times)

    def _add_up(self) -> None:
        """Recompute the totals after the tree has changed."""
        self._total = {}
        for queue, own in self._own.items():
            for name in self._upwards(queue):
                total = self.usage(name)
                self._total[name] = Usage(
                    total.allocated.plus(own.allocated), total.non_preemptible.plus(own.non_preemptible)
                )

    def _unhook(self, queue: Queue | None) -> None:
        parent = queue.spec.parent_queue if queue is not None else ""
        if queue is not None and parent in self._children:
            self._children[parent].discard(queue.metadata.name)


def _seconds(text: str) -> float:
    """Text that is not a duration counts as none."""
    try:
        return seconds(text)
    except DurationError:
        return 0.0


def _priority(queue: Queue) -> int:
    return DEFAULT_PRIORITY if queue.spec.priority is None else queue.spec.priority
