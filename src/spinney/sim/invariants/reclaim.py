"""Who takes from whom between queues, judged from what is stored: INV7 in the sense of Q5, and the limits of Q3.

With `exact`, what the scheduler saw is what is stored now. Else it may have seen any state of a while ago: then a queue
is judged by the least that it could have had if every other queue asked for everything, and what left it meanwhile
counts as if it were there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from spinney.api.labels import DEFAULT_QUEUE
from spinney.core.scheduling.plan import Plan
from spinney.sim.invariants.facts import LONE_LEAF, GangFacts, Key, PodFacts, RecordedState
from spinney.sim.invariants.queue_shares import (
    KINDS,
    QueueFacts,
    Transfer,
    add_up,
    by_kind,
    fair_shares,
    way,
)

_Amounts = tuple[str, Mapping[str, int]]


def inv7_lawful_reclaim(
    cluster: RecordedState,
    gang: GangFacts,
    plan: Plan,
    losers: Iterable[Key],
    since_s: float,
    *,
    exact: bool,
    sent: frozenset[str],
) -> Iterator[str]:
    """Gangs in other queues lose pods only if their queue is above its share, and the taker's is not (Q5)."""
    queues = _queues(cluster)
    more = [] if exact else [*_left_since(cluster, plan, since_s), *_sent(cluster, sent)]
    transfer = _transfer(cluster, queues, plan, since_s, more, exact=exact)
    for key in losers:
        names = {*way(queues, queue_of(gang)), *way(queues, queue_of(cluster.gangs[key]))}
        if not exact and any(_has_changed(cluster, name, since_s) for name in names):
            continue
        for why in transfer.objections(queue_of(gang), queue_of(cluster.gangs[key])):
            yield f"INV7 {'/'.join(gang.key)} takes from {'/'.join(key)}, which is in another queue: {why}"


def inv7_within_limits(cluster: RecordedState, gang: GangFacts, plan: Plan) -> Iterator[str]:
    """A plan stays within the limits of its queue and of those above it."""
    queues = _queues(cluster)
    used = add_up(queues, _used(cluster))
    own = _sum(by_kind(pod.asks) for pod in _assigned_pods(cluster, plan))
    for name in way(queues, queue_of(gang)):
        for kind in KINDS:
            limit = queues[name].limit[kind]
            if own[kind] and limit is not None and used[name][kind] > limit:
                yield f"INV7 {'/'.join(gang.key)} takes {kind} across the limit of {name}"


def queue_of(gang: GangFacts) -> str:
    return gang.queue or DEFAULT_QUEUE


def _transfer(
    cluster: RecordedState,
    queues: Mapping[str, QueueFacts],
    plan: Plan,
    since_s: float,
    more: Iterable[_Amounts],
    *,
    exact: bool,
) -> Transfer:
    """`more`: what queues may have held as well when the plan was decided."""
    used, seen = add_up(queues, _used(cluster)), add_up(queues, [*_used(cluster), *more])
    asked = add_up(queues, [*_used(cluster, with_leaving=True), *_waiting(cluster)]) if exact else None
    leaves = {name: amounts for name, amounts in (asked or {}).items() if not _has_children(queues, name)}
    shares = fair_shares(queues, leaves if exact else None, _capacity(cluster, since_s))
    own = _sum(by_kind(pod.asks) for pod in _assigned_pods(cluster, plan))
    return Transfer(
        queues,
        used,
        seen,
        _largest(cluster, queues),
        shares,
        shares if exact else None,
        [kind for kind in KINDS if own[kind]],
    )


def _queues(cluster: RecordedState) -> dict[str, QueueFacts]:
    return {name: facts for name, history in cluster.queues.items() if (facts := history.now) is not None}


def _has_changed(cluster: RecordedState, name: str, since_s: float) -> bool:
    return len(list(cluster.queues[name].since(since_s))) > 1


def _has_children(queues: Mapping[str, QueueFacts], name: str) -> bool:
    return any(queue.parent == name for queue in queues.values())


def _used(cluster: RecordedState, *, with_leaving: bool = False) -> Iterator[_Amounts]:
    """What live pods hold or are assigned. Those that recorded plans take away count only if it is asked for."""
    plans = cluster.plans()
    assigned = {assignment.uid for plan in plans for assignment in plan.assignments}
    leaving = set() if with_leaving else {uid for plan in plans for uid in plan.leaving}
    for pod, gang in _members(cluster):
        if pod.is_live and (pod.node or pod.uid in assigned) and pod.uid not in leaving:
            yield queue_of(gang), by_kind(pod.asks)


def _waiting(cluster: RecordedState) -> Iterator[_Amounts]:
    """What gangs without an assignment lack for their minimum, where the pods for it are there; else their next pod."""
    assigned = {assignment.uid for plan in cluster.plans() for assignment in plan.assignments}
    for gang in cluster.gangs.values():
        members = [pod for pod in cluster.members(gang.key) if pod.is_live]
        bound = Counter(pod.leaf or LONE_LEAF for pod in members if pod.node or pod.uid in assigned)
        lacking, beyond = [], []
        for part in gang.parts if not gang.plan else ():
            waiting = [
                pod
                for pod in members
                if (pod.leaf or LONE_LEAF) == part.name
                and not pod.node
                and not pod.is_gated
                and pod.uid not in assigned
            ]
            lacks = max(0, part.least - bound[part.name])
            if waiting and not gang.children(part):
                lacking += waiting[:lacks] if len(waiting) >= lacks else []
                beyond.append((Fraction(bound[part.name], max(part.least, 1)), part.name, waiting[0]))
        if bound and not lacking and gang.is_whole(gang.root, bound):
            lacking = [pod for *_, pod in sorted(beyond, key=lambda each: each[:2])[:1]]
        for pod in lacking:
            yield queue_of(gang), by_kind(pod.asks)


def _left_since(cluster: RecordedState, plan: Plan, since_s: float) -> Iterator[_Amounts]:
    """What pods held that ended or began to terminate since then, or were chosen as victims by other plans."""
    plans = cluster.plans()
    leaving = {uid for each in plans for uid in each.leaving} - set(plan.leaving)
    for pod, gang in _members(cluster):
        if pod.node and (not pod.is_live or pod.uid in leaving):
            yield queue_of(gang), by_kind(pod.asks)
    for pod, queue, left_s in cluster.gone:
        if pod.node and left_s >= since_s:
            yield queue, by_kind(pod.asks)


def _sent(cluster: RecordedState, sent: frozenset[str]) -> Iterator[_Amounts]:
    """What plans assign that were sent before and are recorded later, or never: their maker counted it."""
    assigned = {assignment.uid for plan in cluster.plans() for assignment in plan.assignments}
    for pod, gang in _members(cluster):
        if pod.uid in sent - assigned and pod.is_live and not pod.node:
            yield queue_of(gang), by_kind(pod.asks)


def _largest(cluster: RecordedState, queues: Mapping[str, QueueFacts]) -> dict[str, list[dict[str, int]]]:
    """What recorded plans take from each gang, by queue: a gang that keeps members loses its pods one by one."""
    leaving = {uid for plan in cluster.plans() for uid in plan.victims}
    by_gang: dict[Key, list[PodFacts]] = {}
    stays: set[Key] = set()
    for pod, gang in _members(cluster):
        if pod.uid in leaving:
            by_gang.setdefault(gang.key, []).append(pod)
        elif pod.node and pod.is_live:
            stays.add(gang.key)
    found: dict[str, list[dict[str, int]]] = {}
    for key, pods in by_gang.items():
        sizes = [by_kind(pod.asks) for pod in pods]
        for name in way(queues, queue_of(cluster.gangs[key])):
            found.setdefault(name, []).extend(sizes if key in stays else [_sum(sizes)])
    return found


def _members(cluster: RecordedState) -> Iterator[tuple[PodFacts, GangFacts]]:
    for pod in cluster.pods.values():
        gang = cluster.gangs.get(pod.group) if pod.group is not None else None
        if gang is not None:
            yield pod, gang


def _assigned_pods(cluster: RecordedState, plan: Plan) -> list[PodFacts]:
    """Those that were deleted after the decision as well: the plan was made for what they asked for."""
    uids = {assignment.uid for assignment in plan.assignments}
    return [*cluster.pods_with(uids), *(pod for pod, _, _ in cluster.gone if pod.uid in uids)]


def _capacity(cluster: RecordedState, since_s: float) -> dict[str, int]:
    """The least that the nodes that take pods have offered since then."""
    total = dict.fromkeys(KINDS, 0)
    for history in cluster.nodes.values():
        versions = [facts if facts is not None and facts.is_open else None for facts in history.since(since_s)]
        for kind in KINDS:
            amounts = [0 if facts is None else by_kind(facts.amounts)[kind] for facts in versions]
            total[kind] += min(amounts, default=0)
    return total


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = dict.fromkeys(KINDS, 0)
    for each in amounts:
        total = {kind: total[kind] + each[kind] for kind in KINDS}
    return total
