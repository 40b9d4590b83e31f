"""The promises themselves: each function answers with sentences about what is broken; nothing said, nothing broken.

`since_s` is how old a view may lawfully be: what was true then, or at any time after it, may have been decided on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spinney.core.scheduling.plan import Plan
from spinney.sim.invariants.facts import LONE_LEAF, NOBODY, GangFacts, Key, PodFacts
from spinney.sim.invariants.recorded_state import RecordedState, most


@dataclass(slots=True)
class Epochs:
    """The newest epoch that wrote, under which Lease, and the Leases before it."""

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


def inv1_no_overcommit(ground: RecordedState, node: str, since_s: float, *, reserved: bool = False) -> Iterator[str]:
    """What is bound to a node (and what recorded plans seat there) is no more than the node had to give."""
    offered = ground.offered(node, since_s)
    if not offered:
        yield f"INV1 node {node} is not there"
        return
    for name, used in ground.usage(node, reserved=reserved).items():
        limit = most(offered, name)
        if used > limit:
            what = "used and reserved" if reserved else "used"
            yield f"INV1 node {node}: {name} {what} {used / 1000:g} of {limit / 1000:g}"


def inv1_open(ground: RecordedState, plan: Plan, since_s: float) -> Iterator[str]:
    """A node that is cordoned or not ready gets no new pod."""
    for node in sorted({assignment.node for assignment in plan.assignments}):
        versions = [facts for facts in ground.nodes[node].since(since_s) if facts is not None]
        if versions and not any(facts.is_open for facts in versions):
            yield f"INV1 node {node} takes no pods, and is in a plan"


def inv2_all_or_nothing(ground: RecordedState, gang: GangFacts, lost: Counter[str] = NOBODY) -> Iterator[str]:
    """Asked where no plan is being carried out; `lost`: members that had a node or a seat and lost it, by leaf."""
    bound = _bound(ground, gang)
    if bound and not gang.is_whole(gang.root, bound, lost=lost):
        yield f"INV2 {shown(gang.key)}: {dict(bound)} bound, which is neither nothing nor the minimum"


def inv3_required_topology(ground: RecordedState, gang: GangFacts, pod: PodFacts, since_s: float) -> Iterator[str]:
    """A pod that gets a node joins the domain that the others of each part are in.

    Others whose node went away hold nobody; a gang that was torn apart by something else than a bind may be repaired
    in any of its domains.
    """
    for part in gang.around(pod.leaf or LONE_LEAF):
        if not part.required:
            continue
        topology = gang.topology_of(part)
        mine = ground.domains(topology, part.required, pod.node, since_s)
        others = [
            one
            for one in ground.members(gang.key)
            if one.uid != pod.uid and one.node and one.is_live and gang.is_inside(one, part)
        ]
        theirs = _all_domains(ground, topology, part.required, others, since_s)
        held = any(ground.stays(one.node, since_s) for one in others)
        if not mine or (held and not mine & theirs):
            yield f"INV3 {shown(pod.key)} is in {_paths(mine)} of {part.required}, others of {shown(gang.key)}/" + (
                f"{part.name} in {_paths(theirs)}"
            )


def inv3_ties(
    ground: RecordedState,
    gang: GangFacts,
    plan: Plan,
    seated: Mapping[str, tuple[str, int, float]],
    since_s: float,
    decided_s: float,
) -> Iterator[str]:
    """A plan of a gang that is tied is in the domain of its base, as far as that has stood there long enough.

    A member whose node was away a moment ago holds nobody, for it may have been taken for lost; but to be beside it is
    to be beside the base. `seated`: by which term and when, by uid. Whom the maker of the plan had itself seated when
    it decided, and who has its node, holds in any case: no view is older than what one wrote oneself. A plan that
    waits is decided when it is recorded first: where others of the base go afterwards is theirs, if some stay.
    """
    if gang.tied_to is None or gang.tied_to[0] not in ground.gangs:
        return
    base, level = gang.tied_to
    topology = ground.gangs[base].root.topology or gang.root.topology
    members = [one for one in ground.members(base) if one.node and one.is_live]
    standing = any(ground.stays(one.node, since_s) for one in members)
    theirs = _all_domains(ground, topology, level, members, since_s)
    own = [one for one in members if _seated_before(seated.get(one.uid), (gang.lease, plan.epoch), decided_s)]
    for node in sorted({assignment.node for assignment in plan.assignments}):
        mine = ground.domains(topology, level, node, since_s)
        for one in own:
            beside = ground.domains(topology, level, one.node, since_s)
            if ground.stays(one.node, since_s) and not mine & beside:
                where = f"{shown(gang.key)} on {node} in {_paths(mine)} is tied to {shown(base)}"
                yield f"INV3 {where}, of which the same leader seated {shown(one.key)} in {_paths(beside)}"
        if standing and not mine & theirs:
            yield f"INV3 {shown(gang.key)} on {node} in {_paths(mine)} is tied to {shown(base)} in {_paths(theirs)}"


def _seated_before(seated: tuple[str, int, float] | None, term: tuple[str, int], decided_s: float) -> bool:
    return seated is not None and seated[:2] == term and seated[2] <= decided_s


def inv4_bound_as_recorded(
    ground: RecordedState, pod: PodFacts, was: PodFacts, lost: Mapping[str, str]
) -> Iterator[str]:
    """A pod that gets a node gets the one that the record of its gang says, and keeps it.

    `lost`: nodes by uid in records that went a moment ago because somebody deleted their PodGroup. A bind names one
    object, the pod, by uid and version: there is no bind that fails because another object was deleted while it was on
    its way. Whoever sent it had the record; a record that a scheduler dropped is no excuse.
    """
    if was.node and was.node != pod.node:
        yield f"INV4 pod {shown(pod.key)} moved from {was.node} to {pod.node}"
    if was.node:
        return
    gang = ground.gangs.get(pod.group) if pod.group is not None else None
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
    ground: RecordedState, gang: GangFacts, plan: Plan, left: Mapping[str, float], since_s: float
) -> Iterator[str]:
    """A plan is for pods of the gang that wait, or did so a moment ago. `left`: when others ended, by uid."""
    waiting = {pod.uid for pod in ground.members(gang.key) if pod.is_live and not pod.node}
    for assignment in plan.assignments:
        if assignment.uid not in waiting and left.get(assignment.uid, since_s - 1) < since_s:
            yield (
                f"INV4 {shown(gang.key)} has a seat on {assignment.node} for {assignment.uid}, who does not wait there"
            )


def inv7_lawful_plan(ground: RecordedState, gang: GangFacts, plan: Plan) -> Iterator[str]:
    """Victims are less important (those who are moved: not more) and may be preempted.

    No gang is left below its minimum but whole.
    """
    leaving = [pod for pod in ground.pods.values() if pod.uid in plan.leaving]
    for key in sorted({pod.group for pod in leaving if pod.group is not None}):
        mine = ground.gangs.get(key)
        if mine is None:
            continue
        is_victim = any(pod.uid in plan.victims for pod in leaving if pod.group == key)
        if priority(ground, mine) - (not is_victim) >= priority(ground, gang):
            yield f"INV7 {shown(gang.key)} takes from {shown(key)}, which is not less important"
        if not _is_preemptible(ground, mine):
            yield f"INV7 {shown(gang.key)} takes from {shown(key)}, which is not preemptible"
        before = _bound(ground, mine, there=True)
        after = before - Counter(pod.leaf or LONE_LEAF for pod in leaving if pod.group == key and pod.is_live)
        had, has = (mine.is_whole(mine.root, bound, strict=False) for bound in (before, after))
        if is_victim and after and had and not has:
            yield f"INV7 {shown(gang.key)} leaves {shown(key)} with {dict(after)}, below its minimum"


def inv7_lawful_eviction(ground: RecordedState, victim: PodFacts) -> Iterator[str]:
    """Somebody's plan needs the room, or too little is left of the victim's gang for too long.

    The mark of that is the scheduler's own word: what the server has of the gang has to bear it out.
    """
    if any(victim.uid in gang.plan.leaving for gang in ground.gangs.values() if gang.plan is not None):
        return
    mine = ground.gangs.get(victim.group) if victim.group is not None else None
    if mine is None or not is_ended_as_stale(ground, mine):
        yield f"INV7 pod {shown(victim.key)} was evicted, and no plan needs it"


def is_ended_as_stale(ground: RecordedState, gang: GangFacts) -> bool:
    """Whether what is left of a gang may be evicted: it is marked as stale, and is below its minimum."""
    return gang.is_stale and not gang.is_whole(gang.root, _bound(ground, gang, there=True))


def inv10_fenced(gang: GangFacts, was: GangFacts | None, newest: Epochs) -> Iterator[str]:
    """Plans come from the newest epoch that ever wrote, and the epoch of a PodGroup never decreases.

    A Lease that was deleted and made anew counts from the beginning: the newest is that of the Lease that wrote last,
    and nothing comes of one that was followed by another.
    """
    if gang.plan is not None and (was is None or was.plan != gang.plan):
        if gang.lease in newest.over:
            yield f"INV10 {shown(gang.key)}: a plan under a Lease that was followed by another one"
        elif gang.lease == newest.lease and gang.plan.epoch < newest.epoch:
            yield f"INV10 {shown(gang.key)}: a plan of epoch {gang.plan.epoch} after one of {newest.epoch}"
    if was is not None and (was.uid, was.lease) == (gang.uid, gang.lease) and gang.epoch < was.epoch:
        yield f"INV10 {shown(gang.key)}: epoch {gang.epoch} after {was.epoch}"


def inv5_nobody_is_forgotten(ground: RecordedState, schedulers: frozenset[str]) -> Iterator[str]:
    """Once nothing changes any more, whoever waits has been told why."""
    for pod in ground.pods.values():
        waits = pod.scheduler in schedulers and not pod.node and pod.is_live and not pod.is_gated
        if waits and not pod.is_told:
            yield f"INV5 pod {shown(pod.key)} waits and nobody says why"


def inv6_nothing_is_reserved_for_nothing(ground: RecordedState) -> Iterator[str]:
    """Once nothing changes any more, no plan is half done, and a plan that waits waits for somebody who leaves."""
    there = {pod.uid for pod in ground.pods.values() if pod.holds_room}
    for gang in ground.gangs.values():
        if gang.is_broken or (gang.plan is not None and gang.plan.state == "bind"):
            yield f"INV6 {shown(gang.key)} has a plan that nobody carries out"
        elif gang.plan is not None and gang.plan.victims and not there & set(gang.plan.victims):
            yield f"INV6 {shown(gang.key)} waits for victims that are gone"


def priority(ground: RecordedState, gang: GangFacts) -> int:
    return ground.priorities.get(gang.priority_class, _DEFAULT_PRIORITY)


def shown(key: Key) -> str:
    return "/".join(key)


def _is_preemptible(ground: RecordedState, gang: GangFacts) -> bool:
    if gang.preemptibility:
        return gang.preemptibility == "preemptible"
    return priority(ground, gang) < _PREEMPTIBLE_BELOW


def _bound(ground: RecordedState, gang: GangFacts, *, there: bool = False) -> Counter[str]:
    """Members that have a node (that is there), by leaf; whoever succeeded has done its part."""
    members = [pod for pod in ground.members(gang.key) if pod.node and not pod.is_leaving]
    return Counter(pod.leaf or LONE_LEAF for pod in members if not there or ground.nodes[pod.node].now is not None)


def _all_domains(
    ground: RecordedState, topology: str, level: str, pods: Iterable[PodFacts], since_s: float
) -> set[tuple[str, ...]]:
    return {path for pod in pods for path in ground.domains(topology, level, pod.node, since_s)}


def _paths(paths: Iterable[tuple[str, ...]]) -> str:
    return ", ".join("/".join(path) for path in sorted(paths)) or "no domain"
