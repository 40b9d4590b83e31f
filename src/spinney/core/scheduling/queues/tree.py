"""The tree of queues: which gangs are admitted, how much they may use, what each queue should have, who comes next.

Refuses before any placement, and with facts: a refusal names the queue, the resource and the numbers. Usage is updated
incrementally; a verdict costs one walk from the leaf to the root.

Waiting gangs are ordered by a walk over the tree (Q2). At each level queues under their fair share come first, then
those that stay within their quota with the gang, then queue priority, then the smaller used / fair share of the
dominant resource with the gang, then age. Inside a leaf the priority of the gang counts, then gangs below their minimum
before those that only grow, of these the one that has fewer pods beyond its minimum (Q10), then age. Each answer counts
what was decided since the one before: so room goes to queues in turns, and not to all gangs of one.

Amounts are integers once a queue is read: GPUs and cpu in thousandths, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kube_apimachinery import quantity
from kube_apimachinery.duration import DurationError, seconds
from spinney.api.kinds.podgroup import QueueDetails
from spinney.api.kinds.queue import Queue
from spinney.api.labels import GPU_RESOURCE
from spinney.api.placement.problem import Amounts
from spinney.core.scheduling.queues.fair_share import UNLIMITED, QueueClaim, ShareMemory, fair_shares
from spinney.core.suggestions import did_you_mean

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
        return dict(_resource_texts(self))


@lru_cache(maxsize=8192)  # of a thousand queues few have changed since they were shown last
def _resource_texts(amounts: Shares) -> dict[str, str | int]:
    texts = {
        GPU_RESOURCE: quantity.format_milli(amounts.gpu_m),
        "cpu": quantity.format_milli(amounts.cpu_m),
        "memory": quantity.format_bytes(amounts.memory),
    }
    return {name: text for (name, text), amount in zip(texts.items(), amounts, strict=True) if amount != UNLIMITED}


NOTHING = Shares()
EVERYTHING = Shares(UNLIMITED, UNLIMITED, UNLIMITED)
NAMES = ("GPUs", "CPU cores", "memory")
UNITS = ("GPUs", "cores", "GB")
_MEMORY = 2


def stated(resources: Mapping[str, str | int]) -> Shares:
    """Amounts of a status; what is not said is nothing."""
    gpu_m, cpu_m = (quantity.milli(resources.get(name, 0)) for name in (GPU_RESOURCE, "cpu"))
    return Shares(gpu_m, cpu_m, quantity.base_units(resources.get("memory", 0), round_up=True))


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
    return f"{amount_number(kind, amount)} {UNITS[kind]}"


def amount_number(kind: int, amount: int) -> str:
    return _decimal(amount // _MEGABYTE if kind == _MEMORY else amount)


def _shares(given: Sequence[float]) -> Shares:
    units = (1000, 1, _MEGABYTE)
    return Shares(*[UNLIMITED if one < 0 else round(one * unit) for one, unit in zip(given, units, strict=True)])


def _decimal(thousandths: int) -> str:
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")


QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
OVER_LIMIT = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
DEFAULT_PRIORITY = 100
DEEPEST = 64


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


class FairShares(NamedTuple):
    """What each queue should have of each of the three."""

    gpu_m: Mapping[str, int]
    cpu_m: Mapping[str, int]
    memory: Mapping[str, int]

    def of(self, queue: str) -> Shares:
        """Nothing for a queue that has no root."""
        return Shares(self.gpu_m.get(queue, 0), self.cpu_m.get(queue, 0), self.memory.get(queue, 0))


class QueueFigures(NamedTuple):
    """What a queue is promised, should have, holds, and holds or waits for."""

    quota: Shares
    fair_share: Shares
    used: Shares
    asked: Shares

    @property
    def borrowed(self) -> Shares:
        """What it holds beyond its quota; nothing where the quota is all of its parent's."""
        return Shares(
            *[0 if most == UNLIMITED else max(0, used - most) for used, most in zip(self.used, self.quota, strict=True)]
        )


class QueuePolicy(NamedTuple):
    """What holds for all queues. `reclaims`, `preempts`: whether gangs may take from other queues, and in their own.

    `preempt_min_runtime_s`, `reclaim_min_runtime_s`: of queues that state none, and none above them does. `past_use`:
    how much what queues held lately counts for their shares, in millionths.
    """

    reclaims: bool = True
    preempts: bool = True
    preempt_min_runtime_s: float = 0.0
    reclaim_min_runtime_s: float = 0.0
    past_use: int = 0


class Queues:
    """Queues may be added and removed in any order; the usage of a queue is kept even while it does not exist."""

    def __init__(self, resources: Sequence[str], queues: Sequence[Queue] = ()) -> None:
        self._scale = ShareUnits(resources)
        self._queues: dict[str, Queue] = {}
        self._children: dict[str, set[str]] = {}
        self._own: dict[str, Usage] = {}
        self._total: dict[str, Usage] = {}
        self._asked: dict[str, Shares] = {}
        self._quotas: dict[str, Shares] = {}
        self._claimed: tuple[dict[str, QueueClaim], ...] = ({}, {}, {})  # by resource, as long as they do not change
        self._shares: tuple[ShareMemory, ...] = ({}, {}, {})
        self._named: dict[str, tuple[int, FairShares, list[str]]] = {}  # answers, as long as nothing changes
        self.policy = QueuePolicy()
        self.past: Mapping[str, Shares] = {}  # what queues held lately, in millionths of the cluster
        self.version = 0  # grows with every change of what is used, asked for or promised
        self.changed: set[str] = set()  # queues whose usage changed, with those above them, until somebody clears it
        for queue in queues:
            self.put(queue)

    # Changes

    def put(self, queue: Queue) -> None:
        """Add or replace a queue."""
        name = queue.metadata.name
        before = self._queues.get(name)
        self._queues[name] = queue
        self._quotas[name] = quotas(queue)
        self._forget_all_claims()
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
            self._forget_all_claims()
            self._unhook(before)
            self._add_up()

    def allocate(self, queue: str, amounts: Amounts, preemptible: bool) -> None:
        """Charge the queue for pods with a node or a reservation."""
        self._change(queue, self._scale.shares_of(amounts), preemptible, 1)

    def release(self, queue: str, amounts: Amounts, preemptible: bool) -> None:
        """The opposite of `allocate`."""
        self._change(queue, self._scale.shares_of(amounts), preemptible, -1)

    def ask(self, queue: str, amounts: Shares, times: int = 1) -> None:
        """Gangs of the queue wait for this much, or, with -1, no longer."""
        self._asked[queue] = self._asked.get(queue, NOTHING).plus(amounts, times)
        if self._asked[queue] == NOTHING:
            del self._asked[queue]
        self._forget_claims(queue)

    def adopt(self, policy: QueuePolicy, past: Mapping[str, Shares]) -> None:
        """Something else holds for all queues, or was held by them lately."""
        self.policy, self.past = policy, past
        self._forget_all_claims()

    def touch(self) -> None:
        """Something else changed that decides who may take from whom."""
        self.version += 1

    # Queries

    def shares_of(self, amounts: Amounts) -> Shares:
        """Amounts of all resources as those that queues account for."""
        return self._scale.shares_of(amounts)

    def quota(self, queue: str) -> Shares:
        """What the queue is promised; nothing if it does not exist."""
        return self._quotas[queue] if queue in self._queues else NOTHING

    def priority(self, queue: str) -> int:
        found = self._queues.get(queue)
        return DEFAULT_PRIORITY if found is None else priority(found)

    def fair_shares(self, capacity: Amounts) -> FairShares:
        """What each queue should have now of what the cluster offers (Q1); a queue without a root gets nothing."""
        shares = [
            fair_shares(self._claims(kind), amount, self._shares[kind], self.policy.past_use)
            for kind, amount in enumerate(self._scale.shares_of(capacity))
        ]
        return FairShares(shares[0], shares[1], shares[2])

    def holding(self, kinds: Sequence[int]) -> bool:
        """Whether the gangs of several queues hold something of these resources."""
        return sum(any(own.allocated[kind] for kind in kinds) for own in self._own.values()) > 1

    def lending(self, shares: FairShares) -> list[str]:
        """The queues whose preemptible gangs hold something, and which hold more than their share or quota of anything.

        Equal to the last answer while nothing changed: every gang that waits asks for it.
        """
        return self._kept_names("lending", shares, self._own, self._lends)

    def waiting_under(self, shares: FairShares) -> list[str]:
        """The queues that hold less than their share of all that their gangs wait for. Kept as `lending` is."""

        def is_under(name: str, shares: FairShares) -> bool:
            waiting, used, share = self._asked[name], self.usage(name).allocated, shares.of(name)
            return all(used[kind] < share[kind] for kind in range(len(NAMES)) if waiting[kind])

        return self._kept_names("waiting under", shares, self._asked, is_under)

    def _kept_names(
        self, what: str, shares: FairShares, names: Iterable[str], is_meant: Callable[[str, FairShares], bool]
    ) -> list[str]:
        known = self._named.get(what)
        if known is None or known[0] != self.version or any(a is not b for a, b in zip(known[1], shares, strict=True)):
            found = [name for name in sorted(names) if is_meant(name, shares)]
            known = self._named[what] = self.version, shares, found
        return known[2]

    def _lends(self, name: str, shares: FairShares) -> bool:
        own, used, quota, share = self._own[name], self.usage(name).allocated, self.quota(name), shares.of(name)
        return own.allocated != own.non_preemptible and any(
            used[kind] > share[kind] or UNLIMITED < quota[kind] < used[kind] for kind in range(len(NAMES))
        )

    def is_under(self, queue: str, shares: FairShares) -> bool:
        """Whether the queue holds less of anything than its share or quota."""
        used, quota, share = self.usage(queue).allocated, self.quota(queue), shares.of(queue)
        return any(
            used[kind] < share[kind] or used[kind] < quota[kind] or quota[kind] == UNLIMITED
            for kind in range(len(NAMES))
        )

    def usage(self, queue: str) -> Usage:
        """The usage of the queue and its descendants."""
        return self._total.get(queue, Usage())

    def figures(self, shares: FairShares) -> dict[str, QueueFigures]:
        """What each queue has and should have, with all below it."""
        asked = {name: self.usage(name).allocated for name in self._queues}
        for queue, waiting in self._asked.items():
            for name in self.upwards(queue):
                asked[name] = asked[name].plus(waiting)
        return {
            name: QueueFigures(self._quotas[name], shares.of(name), self.usage(name).allocated, asked[name])
            for name in sorted(self._queues)
        }

    def held(self) -> dict[str, Shares]:
        """What each queue uses, with all below it; queues that use nothing are left out."""
        return {name: usage.allocated for name, usage in self._total.items() if any(usage.allocated)}

    def total(self) -> Shares:
        """The usage of all queues without a parent."""
        total = NOTHING
        for name, queue in self._queues.items():
            if not queue.spec.parent_queue and name in self._total:
                total = total.plus(self._total[name].allocated)
        return total

    def verdict(self, queue: str, requested: Amounts, preemptible: bool) -> Refusal | None:
        """Why the queue does not admit the request; None: it does."""
        refused = self._invalid_queue(queue)
        if refused is not None:
            return refused
        asked = self._scale.shares_of(requested)
        for name in self.upwards(queue):
            refused = self._over_limit(name, asked, preemptible)
            if refused is None and not preemptible:
                refused = self._over_quota(name, asked)
            if refused is not None:
                return refused
        return None

    def over_limit_queues(self, queue: str, requested: Amounts) -> list[str]:
        """The queues, from this one up, whose limit is exceeded."""
        asked = self._scale.shares_of(requested)
        return [name for name in self.upwards(queue) if self._exceeded(name, asked) is not None]

    def limited_kinds(self, queue: str, asked: Shares) -> set[int]:
        """The resources of which a limit, of the queue or one above it, leaves less than is asked for."""
        return {
            kind
            for name in self.upwards(queue)
            for kind, limit in enumerate(limits(self._queues[name]))
            if limit != UNLIMITED and asked[kind] and self.usage(name).allocated[kind] + asked[kind] > limit
        }

    def upwards(self, name: str) -> Iterator[str]:
        """The queue and its existing ancestors, each once, even if the parents form a cycle."""
        seen: set[str] = set()
        while name and name not in seen and name in self._queues:
            seen.add(name)
            yield name
            name = self._queues[name].spec.parent_queue

    def above(self, name: str) -> list[str]:
        """The ancestors of a queue, the nearest first; none where parents form a circle."""
        way = list(self.upwards(name))
        is_circle = bool(way) and self._queues[way[-1]].spec.parent_queue in way
        return [] if is_circle else way[1:]

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
        stated = (self._queues[name].spec.preempt_min_runtime for name in self.upwards(queue))
        return next((_seconds(text) for text in stated if text), self.policy.preempt_min_runtime_s)

    def reclaim_min_runtime_s(self, queue: str) -> float:
        """The minimum runtime before reclaim, of the queue where the paths part: its own, or of the nearest above."""
        stated = (self._queues[name].spec.reclaim_min_runtime for name in self.upwards(queue))
        return next((_seconds(text) for text in stated if text), self.policy.reclaim_min_runtime_s)

    # Internals

    def _claims(self, kind: int) -> tuple[QueueClaim, ...]:
        """What the queues without a parent claim of one resource; equal to the last answer while nothing changed."""
        known = self._claimed[kind].get(ROOT)
        if known is None:
            roots = sorted(name for name, queue in self._queues.items() if not queue.spec.parent_queue)
            children = tuple([self._claim(name, kind) for name in roots])
            known = self._claimed[kind][ROOT] = QueueClaim(ROOT, children=children)
        return known.children

    def _claim(self, name: str, kind: int, depth: int = 1) -> QueueClaim:
        """Queues more than `DEEPEST` levels below the root have no share: a tree is as deep as its author likes."""
        known = self._claimed[kind].get(name)
        if known is not None:
            return known
        queue = self._queues[name]
        own, waiting = self._own.get(name, Usage()).allocated, self._asked.get(name, NOTHING)
        below = sorted(self._children.get(name, ())) if depth < DEEPEST else []
        children = tuple([self._claim(child, kind, depth + 1) for child in below if child in self._queues])
        claim = QueueClaim(
            name,
            own[kind] + waiting[kind] + sum([child.wanted for child in children]),
            self._quotas[name][kind],
            limits(queue)[kind],
            weight(queue, kind),
            priority(queue),
            children,
            self.past.get(name, NOTHING)[kind],
        )
        self._claimed[kind][name] = claim
        return claim

    def _forget_all_claims(self) -> None:
        self.version += 1
        for claimed, shares in zip(self._claimed, self._shares, strict=True):
            claimed.clear()
            shares.clear()

    def _forget_claims(self, queue: str) -> None:
        """What a queue claims has changed, and with it what those above it claim."""
        self.version += 1
        for claimed in self._claimed:
            for name in (*self.upwards(queue), ROOT):
                claimed.pop(name, None)

    def _invalid_queue(self, queue: str) -> Refusal | None:
        """Only leaf queues whose ancestors all exist admit gangs."""
        if queue not in self._queues:
            return Refusal(QUEUE_DOES_NOT_EXIST, f"Queue '{queue}' does not exist{did_you_mean(queue, self._queues)}")
        children = self._children.get(queue)
        if children:
            below = ", ".join(sorted(children)[:3]) + (", ..." if len(children) > 3 else "")
            return Refusal(QUEUE_DOES_NOT_EXIST, f"Queue '{queue}' is not a leaf queue: it is the parent of {below}")
        way = list(self.upwards(queue))
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

    def _change(self, queue: str, amounts: Shares, preemptible: bool, times: int) -> None:
        own = self._own.get(queue, Usage()).plus(amounts, preemptible, times)
        self._own[queue] = own
        if own == Usage():
            del self._own[queue]
        for name in self.upwards(queue):
            self._total[name] = self.usage(name).plus(amounts, preemptible, times)
            self.changed.add(name)
        self._forget_claims(queue)

    def _add_up(self) -> None:
        """Recompute the totals after the tree has changed."""
        self._total = {}
        for queue, own in self._own.items():
            for name in self.upwards(queue):
                total = self.usage(name)
                self._total[name] = Usage(
                    total.allocated.plus(own.allocated), total.non_preemptible.plus(own.non_preemptible)
                )

    def _unhook(self, queue: Queue | None) -> None:
        parent = queue.spec.parent_queue if queue is not None else ""
        if queue is not None and parent in self._children:
            self._children[parent].discard(queue.metadata.name)


def weight(queue: Queue, kind: int) -> int:
    """In thousandths; a queue that states no resources has the same as any other that states none."""
    given = queue.spec.resources
    return 1000 if given is None else round(1000 * (given.gpu, given.cpu, given.memory)[kind].over_quota_weight)


def _seconds(text: str) -> float:
    """Text that is not a duration counts as none."""
    try:
        return seconds(text)
    except DurationError:
        return 0.0


def priority(queue: Queue) -> int:
    return DEFAULT_PRIORITY if queue.spec.priority is None else queue.spec.priority


ROOT = ""
_MILLIONTHS = 10**6

K = TypeVar("K", bound=Hashable)
LeafRank = tuple[int, int, str, str]
"""Inside a leaf: priority, pods beyond the minimum, creation timestamp as the API server wrote it, name."""
BELOW_MINIMUM = -1


class WaitingGang(NamedTuple, Generic[K]):
    """A gang in a leaf queue. `asks`: what its minimum still needs, or its next pods beyond that."""

    key: K
    queue: str
    asks: Shares
    rank: tuple[LeafRank, int]

    @property
    def age(self) -> tuple[str, str]:
        return self.rank[0][2:]


def leaf_rank(priority: int, beyond: int, created: str | None, name: str) -> LeafRank:
    """`beyond`: how many pods it has beyond its minimum, or `BELOW_MINIMUM`."""
    return -priority, beyond, created or "", name


_Rank = tuple[bool, bool, int, int, tuple[str, str], str]
"""Among siblings: see the module."""


class QueueOrder(Generic[K]):
    """Waiting gangs, handed out one by one. `shares`: asked for when queues have to be compared."""

    def __init__(self, queues: Queues, shares: Callable[[], FairShares], gangs: Iterable[WaitingGang[K]]) -> None:
        self._queues = queues
        self._find_shares = shares
        self._shares: FairShares | None = None
        self._gangs: dict[str, list[tuple[tuple[LeafRank, int], int, WaitingGang[K]]]] = {}
        self._children: dict[str, list[tuple[_Rank, str, int]]] = {}  # heaps, with entries that are out of date
        self._stamps: dict[str, int] = {}
        self._best: dict[str, WaitingGang[K]] = {}  # the first gang of each queue with its descendants
        self._count = 0
        queues.changed.clear()
        for gang in gangs:
            self._put(gang)
        for queue in self._gangs:
            self._refresh(queue)

    def add(self, gang: WaitingGang[K]) -> None:
        """One more gang."""
        self._put(gang)
        for queue in self._gangs if len(self._gangs) == 2 else (gang.queue,):
            self._refresh(queue)

    def pop(self) -> K | None:
        """The next gang; None: there is none."""
        changed = [queue for queue in self._queues.changed if queue in self._stamps]
        self._queues.changed.clear()
        for queue in changed:
            self._refresh(queue)
        found = self._first(ROOT)
        if found is None:
            return None
        heappop(self._gangs[found.queue])
        self._refresh(found.queue)
        return found.key

    def is_open(self, gang: WaitingGang[K]) -> bool:
        """Whether another gang could come between two turns of this one: of another queue, or no less important."""
        own = self._gangs.get(gang.queue) or []
        is_next = bool(own) and own[0][0][0][0] <= gang.rank[0][0]
        return is_next or any(others for queue, others in self._gangs.items() if queue != gang.queue)

    def _put(self, gang: WaitingGang[K]) -> None:
        self._count += 1
        heappush(self._gangs.setdefault(gang.queue, []), (gang.rank, self._count, gang))

    def _refresh(self, queue: str) -> None:
        """Rank a queue among its siblings anew, and those above it."""
        at = queue
        for above in (*self._queues.above(queue), ROOT):
            gang = self._first(at)
            self._stamps[at] = self._stamps.get(at, 0) + 1
            if gang is not None:
                self._best[at] = gang
                heappush(self._children.setdefault(above, []), (self._rank(at, gang), at, self._stamps[at]))
            at = above

    def _first(self, queue: str) -> WaitingGang[K] | None:
        """The gang of a queue, or of those below it, that comes first."""
        children = self._children.get(queue, [])
        while children and children[0][2] != self._stamps[children[0][1]]:
            heappop(children)
        if children:
            return self._best[children[0][1]]
        own = self._gangs.get(queue)
        return own[0][2] if own else None

    def _rank(self, queue: str, gang: WaitingGang[K]) -> _Rank:
        if len(self._gangs) == 1:
            return False, False, 0, 0, ("", ""), queue  # nobody to compare it with
        if self._shares is None:
            self._shares = self._find_shares()
        share = self._shares.of(queue)
        used, quota = self._queues.usage(queue).allocated, self._queues.quota(queue)
        with_gang = used.plus(gang.asks)
        kinds = [kind for kind in range(len(NAMES)) if gang.asks[kind]]
        kinds = kinds or [kind for kind in range(len(NAMES)) if used[kind]]  # it only grows
        is_under = all(used[kind] < share[kind] for kind in kinds)
        is_within = all(quota[kind] == UNLIMITED or with_gang[kind] <= quota[kind] for kind in kinds)
        dominant = max((with_gang[kind] * _MILLIONTHS // max(share[kind], 1) for kind in kinds), default=0)
        return not is_under, not is_within, -self._queues.priority(queue), dominant, gang.age, queue
