"""The invariants: each function yields a sentence for every violation; nothing yielded, nothing violated.

`since_s` is the start of the allowed cache age: a decision may rest on any state that held then or later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spinney.core.scheduling.plan import Plan
from spinney.sim.invariants.facts import LONE_LEAF, NOBODY, GangFacts, Key, PodFacts, RecordedState, most
from spinney.sim.invariants.reclaim import inv7_lawful_reclaim, queue_of


@dataclass(slots=True)
class Epochs:
    """The newest epoch that wrote, the Lease that counts it, and the Leases before it."""

    lease: str = ""
    epoch: int = 0
    over: set[str] = field(default_factory=set)

    def note(self, lease: str, epoch: int) -> None:
        if lease == self.lease:
            self.epoch = max(self.epoch, epoch)
        elif epoch and lease not in self.over:
            if self.epoch:
                self.over.add(self.lease)
            self.lease, self.epoch = lease, epoch


_DEFAULT_PRIORITY, _PREEMPTIBLE_BELOW = 50, 100
_NOW = float("inf")
"""As `since_s`: nothing but what holds now."""


def inv1_no_overcommit(
    cluster: RecordedState, node: str, new: Iterable[PodFacts], since_s: float, *, reserved: bool = False
) -> Iterator[str]:
    """The pods bound to a node (and those that recorded plans assign to it) do not exceed the node's allocatable.

    `new`: the pods that come now. A resource that none of them requests is not their fault: the node may have shrunk.
    """
    asked = {name for pod in new for name, amount in pod.asks.items() if amount}
    offered = cluster.offered(node, since_s)
    if not offered:
        yield f"INV1 node {node} is not there"
        return
    for name, used in cluster.usage(node, reserved=reserved).items():
        limit = most(offered, name)
        if name in asked and used > limit:
            what = "used and reserved" if reserved else "used"
            yield f"INV1 node {node}: {name} {what} {used / 1000:g} of {limit / 1000:g}"


def inv1_open(cluster: RecordedState, plan: Plan, since_s: float) -> Iterator[str]:
    """A plan does not assign pods to a node that is cordoned or not ready."""
    for node in sorted({assignment.node for assignment in plan.assignments}):
        versions = [facts for facts in cluster.nodes[node].since(since_s) if facts is not None]
        if versions and not any(facts.is_open for facts in versions):
            yield f"INV1 node {node} takes no pods, and is in a plan"


def inv2_all_or_nothing(cluster: RecordedState, gang: GangFacts, lost: Counter[str] = NOBODY) -> Iterator[str]:
    """A gang is bound completely or not at all, checked where no plan is being executed.

    `lost`: members, by leaf, that were bound or assigned and then lost.
    """
    bound = _bound(cluster, gang)
    if bound and not gang.is_whole(gang.root, bound, lost=lost):
        yield f"INV2 {shown(gang.key)}: {dict(bound)} bound, which is neither nothing nor the minimum"


def inv3_required_topology(cluster: RecordedState, gang: GangFacts, pod: PodFacts, since_s: float) -> Iterator[str]:
    """A pod that is bound joins the domain that the other members of each part are in.

    Members whose node was removed impose nothing; a gang that was split by something other than a bind may be repaired
    in any of its domains.
    """
    for part in gang.around(pod.leaf or LONE_LEAF):
        if not part.required:
            continue
        topology = gang.topology_of(part)
        mine = cluster.domains(topology, part.required, pod.node, since_s)
        others = [
            one
            for one in cluster.members(gang.key)
            if one.uid != pod.uid and one.node and one.is_live and gang.is_inside(one, part)
        ]
        theirs = _all_domains(cluster, topology, part.required, others, since_s)
        held = any(cluster.stays(one.node, since_s) for one in others)
        if not mine or (held and not mine & theirs):
            yield f"INV3 {shown(pod.key)} is in {_paths(mine)} of {part.required}, others of {shown(gang.key)}/" + (
                f"{part.name} in {_paths(theirs)}"
            )


def was_split(
    cluster: RecordedState, gang: GangFacts, pod: PodFacts, together: Sequence[PodFacts], since_s: float, now_s: float
) -> bool:
    """Whether a part around the pod had one domain of its required level since that moment, and has none now."""
    for part in gang.around(pod.leaf or LONE_LEAF):
        inside = [one for one in together if gang.is_inside(one, part)]
        if part.required and inside:
            topology = gang.topology_of(part)
            was, now = (
                set.intersection(*[cluster.domains(topology, part.required, one.node, at_s) for one in inside])
                for at_s in (since_s, now_s)
            )
            if was and not now:
                return True
    return False


def inv3_ties(
    cluster: RecordedState,
    gang: GangFacts,
    plan: Plan,
    assigned: Mapping[str, tuple[str, int, float]],
    since_s: float,
    decided_s: float,
) -> Iterator[str]:
    """A plan of a tied gang is in the domain of its base gang, as far as the base has been bound there long enough.

    A member whose node was absent a moment ago imposes nothing, because it may have been taken for lost; but being
    beside it counts as being beside the base. `assigned`: by uid, the term that assigned a pod, and when. A bound pod
    that the maker of the plan had itself assigned before it decided always counts: no cache is older than one's own
    writes. `decided_s`: by when the plan had been decided: later assignments of base members are not its fault, as long
    as some members stay. Those that were recorded at that very moment may have been decided in the same cycle.
    """
    if gang.tied_to is None or gang.tied_to[0] not in cluster.gangs:
        return
    base, level = gang.tied_to
    topology = cluster.gangs[base].root.topology or gang.root.topology
    members = [one for one in cluster.members(base) if one.node and one.is_live]
    has_stable_members = any(cluster.stays(one.node, since_s) for one in members)
    theirs = _all_domains(cluster, topology, level, members, since_s)
    own = [one for one in members if _assigned_before(assigned.get(one.uid), (gang.lease, plan.epoch), decided_s)]
    for node in sorted({assignment.node for assignment in plan.assignments}):
        mine = cluster.domains(topology, level, node, since_s)
        for one in own:
            beside = cluster.domains(topology, level, one.node, since_s)
            if cluster.stays(one.node, since_s) and not mine & beside:
                where = f"{shown(gang.key)} on {node} in {_paths(mine)} is tied to {shown(base)}"
                yield f"INV3 {where}, of which the same leader seated {shown(one.key)} in {_paths(beside)}"
        if has_stable_members and not mine & theirs:
            yield f"INV3 {shown(gang.key)} on {node} in {_paths(mine)} is tied to {shown(base)} in {_paths(theirs)}"


def _assigned_before(assigned: tuple[str, int, float] | None, term: tuple[str, int], decided_s: float) -> bool:
    return assigned is not None and assigned[:2] == term and assigned[2] < decided_s


def inv4_bound_as_recorded(
    cluster: RecordedState, pod: PodFacts, was: PodFacts, lost: Mapping[str, str]
) -> Iterator[str]:
    """A pod is bound to the node that the plan of its gang records, and never changes its node.

    `lost`: nodes by uid in plans that were deleted a moment ago with their PodGroup. A bind names one object, the pod,
    by uid and version, so it cannot fail because another object was deleted while it was in flight. Its sender had the
    record; a plan that a scheduler dropped is no excuse.
    """
    if was.node and was.node != pod.node:
        yield f"INV4 pod {shown(pod.key)} moved from {was.node} to {pod.node}"
    if was.node:
        return
    gang = cluster.gangs.get(pod.group) if pod.group is not None else None
    assignments = (
        {assignment.uid: assignment.node for assignment in gang.plan.assignments}
        if gang is not None and gang.plan is not None
        else {}
    )
    recorded = assignments.get(pod.uid) or lost.get(pod.uid)
    if recorded != pod.node:
        yield f"INV4 pod {shown(pod.key)} was bound to {pod.node}, recorded is {recorded}"
    elif gang is not None and gang.plan is not None and gang.plan.state != "bind":
        yield f"INV4 pod {shown(pod.key)} was bound by a plan that waits"


def inv4_seats_are_taken_by_members(
    cluster: RecordedState, gang: GangFacts, plan: Plan, left: Mapping[str, float], since_s: float
) -> Iterator[str]:
    """A plan assigns pods of the gang that are pending, or were a moment ago. `left`: when other pods ended, by uid."""
    waiting = {pod.uid for pod in cluster.members(gang.key) if pod.is_live and not pod.node}
    for assignment in plan.assignments:
        if assignment.uid not in waiting and left.get(assignment.uid, since_s - 1) < since_s:
            yield (
                f"INV4 {shown(gang.key)} has assigned {assignment.node} to {assignment.uid}, who does not wait there"
            )


def inv7_lawful_plan(
    cluster: RecordedState,
    gang: GangFacts,
    plan: Plan,
    since_s: float,
    *,
    exact: bool = False,
    sent: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Victims are preemptible and of lower priority in the gang's queue (Q4), or in a queue above its share (Q5).

    Moved pods have no higher priority, whatever their queue. `exact`: the plan was decided on what is stored now.
    `sent`: uids of pods that are assigned by plans which were sent and are not recorded yet.

    No gang that had its minimum is left with some pods but below it. Members whose node was removed since then may
    still have counted when the plan was decided.
    """
    leaving = cluster.pods_with(plan.leaving)
    reclaimed = sorted(
        {
            pod.group
            for pod in leaving
            if pod.uid in plan.victims
            and pod.group in cluster.gangs
            and queue_of(cluster.gangs[pod.group]) != queue_of(gang)
        }
    )
    yield from inv7_lawful_reclaim(cluster, gang, plan, reclaimed, since_s, exact=exact, sent=sent) if reclaimed else ()
    for key in sorted({pod.group for pod in leaving if pod.group is not None}):
        mine = cluster.gangs.get(key)
        if mine is None:
            continue
        is_victim = any(pod.uid in plan.victims for pod in leaving if pod.group == key)
        if key not in reclaimed and priority(cluster, mine) - (not is_victim) >= priority(cluster, gang):
            yield f"INV7 {shown(gang.key)} takes from {shown(key)}, which is not less important"
        if not _is_preemptible(cluster, mine):
            yield f"INV7 {shown(gang.key)} takes from {shown(key)}, which is not preemptible"
        gone = frozenset(pod.uid for pod in leaving if pod.is_live)
        before = _bound(cluster, mine, there_since_s=_NOW)
        after, at_decision = (_bound(cluster, mine, there_since_s=at_s, without=gone) for at_s in (_NOW, since_s))
        had, has, seemed = (mine.is_whole(mine.root, bound, strict=False) for bound in (before, after, at_decision))
        if is_victim and after and had and not (has or seemed):
            yield f"INV7 {shown(gang.key)} leaves {shown(key)} with {dict(after)}, below its minimum"


def inv7_lawful_moves(cluster: RecordedState, gang: GangFacts, plan: Plan, *, exact: bool) -> Iterator[str]:
    """Pods move only where an owner makes them anew and, with `exact`, to nodes that hold them beside all that stay."""
    to = {move.uid: move.node for move in plan.moves}
    moved = [pod for pod in cluster.pods.values() if pod.uid in to and pod.is_live]
    for pod in moved:
        if not pod.has_owner:
            yield f"INV7 {shown(gang.key)} moves {shown(pod.key)}, which nobody makes anew"
    plans = [each.plan for each in cluster.gangs.values() if each.plan is not None]
    leaving = {uid for each in plans for uid in each.leaving}
    coming = {each.uid: each.node for one in plans for each in one.assignments} | to
    for node in sorted(set(to.values())) if exact else ():
        used = Counter[str]()
        for pod in cluster.pods.values():
            stays = pod.node == node and pod.holds_room and pod.uid not in leaving
            if stays or (coming.get(pod.uid) == node and (pod.uid in to or not pod.node)):
                used.update(pod.asks)
        facts = cluster.nodes[node].now
        if facts is None or any(amount > facts.amounts.get(name, 0) for name, amount in used.items()):
            yield f"INV7 {shown(gang.key)} moves pods to {node}, which has no room for them"


def inv7_lawful_eviction(cluster: RecordedState, victim: PodFacts) -> Iterator[str]:
    """An evicted pod is required by a plan, or its gang has been below its minimum for too long.

    The stale mark is set by the scheduler itself, so the recorded state must confirm it.
    """
    if any(victim.uid in plan.leaving for plan in cluster.plans()):
        return
    mine = cluster.gangs.get(victim.group) if victim.group is not None else None
    if mine is None or not is_ended_as_stale(cluster, mine):
        yield f"INV7 pod {shown(victim.key)} was evicted, and no plan needs it"


def is_ended_as_stale(cluster: RecordedState, gang: GangFacts) -> bool:
    """Whether the rest of a gang may be evicted: it is marked as stale and is below its minimum."""
    return gang.is_stale and not gang.is_whole(gang.root, _bound(cluster, gang, there_since_s=_NOW))


def inv10_fenced(gang: GangFacts, was: GangFacts | None, newest: Epochs) -> Iterator[str]:
    """Plans come from the newest epoch that ever wrote, and the epoch of a PodGroup never decreases.

    A Lease that was deleted and recreated counts from the beginning: the newest epoch is that of the Lease that wrote
    last, and nothing may be written under a Lease that was followed by another one.
    """
    if gang.plan is not None and (was is None or was.plan != gang.plan):
        if gang.lease in newest.over:
            yield f"INV10 {shown(gang.key)}: a plan under a Lease that was followed by another one"
        elif gang.lease == newest.lease and gang.plan.epoch < newest.epoch:
            yield f"INV10 {shown(gang.key)}: a plan of epoch {gang.plan.epoch} after one of {newest.epoch}"
    if was is not None and (was.uid, was.lease) == (gang.uid, gang.lease) and gang.epoch < was.epoch:
        yield f"INV10 {shown(gang.key)}: epoch {gang.epoch} after {was.epoch}"


def inv5_nobody_is_forgotten(cluster: RecordedState, schedulers: frozenset[str]) -> Iterator[str]:
    """Once nothing changes any more, every pending pod has a condition that says why."""
    for pod in cluster.pods.values():
        waits = pod.scheduler in schedulers and not pod.node and pod.is_live and not pod.is_gated
        if waits and not pod.is_explained:
            yield f"INV5 pod {shown(pod.key)} waits and nobody says why"


def inv6_nothing_is_reserved_for_nothing(cluster: RecordedState) -> Iterator[str]:
    """Once nothing changes any more, no plan is half executed, and a waiting plan has a victim that is still there."""
    there = {pod.uid for pod in cluster.pods.values() if pod.holds_room}
    for gang in cluster.gangs.values():
        if gang.is_broken or (gang.plan is not None and gang.plan.state == "bind"):
            yield f"INV6 {shown(gang.key)} has a plan that nobody carries out"
        elif gang.plan is not None and gang.plan.victims and not there & set(gang.plan.victims):
            yield f"INV6 {shown(gang.key)} waits for victims that are gone"


def priority(cluster: RecordedState, gang: GangFacts) -> int:
    return cluster.priorities.get(gang.priority_class, _DEFAULT_PRIORITY)


def shown(key: Key) -> str:
    return "/".join(key)


def _is_preemptible(cluster: RecordedState, gang: GangFacts) -> bool:
    if gang.preemptibility:
        return gang.preemptibility == "preemptible"
    return priority(cluster, gang) < _PREEMPTIBLE_BELOW


def _bound(
    cluster: RecordedState,
    gang: GangFacts,
    *,
    there_since_s: float | None = None,
    without: frozenset[str] = frozenset(),
) -> Counter[str]:
    """Members that are bound, by leaf; succeeded pods count. `without`: uids of pods that do not.

    With `there_since_s` only those whose node existed at that moment or later.
    """
    members = [pod for pod in cluster.members(gang.key) if pod.node and not pod.is_leaving and pod.uid not in without]
    if there_since_s is not None:
        members = [pod for pod in members if any(cluster.nodes[pod.node].since(there_since_s))]
    return Counter(pod.leaf or LONE_LEAF for pod in members)


def _all_domains(
    cluster: RecordedState, topology: str, level: str, pods: Iterable[PodFacts], since_s: float
) -> set[tuple[str, ...]]:
    return {path for pod in pods for path in cluster.domains(topology, level, pod.node, since_s)}


def _paths(paths: Iterable[tuple[str, ...]]) -> str:
    return ", ".join("/".join(path) for path in sorted(paths)) or "no domain"
