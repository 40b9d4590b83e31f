"""Victim selection for a gang that does not fit: which pods are moved, which are evicted, and which are left alone.

Asks the engine and names pods; makes no write and evicts nothing. No pod is selected that a disruption budget protects,
or whose gang has a plan in flight, or has run for less than its queue's minimum runtime. A pod is preempted only for a
gang of the same queue and of higher priority (Q4); from other queues only what is above their share is taken, and only
for a gang whose queue stays within its own (Q5, INV7).

Budgets are read as the API server would, which checks again: what they allow here is never more. A pod that no budget
covers, or that has not started yet, may be evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from kube_apimachinery.selectors import Selector
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.selectors import to_selector
from spinney.api.builtin.surroundings import PodDisruptionBudget
from spinney.api.placement.problem import Consolidate, Gang, Options
from spinney.api.placement.result import Decision, Placement, Victim
from spinney.core.placement.disrupt.victim_rules import IsAllowed, VictimRules, anything
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.affinity.terms import has_terms
from spinney.core.scheduling.amounts import zone_of
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.placement_session import PlacementSession, Places
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.gang.members import order
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.preemption import Candidate, QueuePreemption
from spinney.core.scheduling.queues.reclaim import Holder, Reclaim, units_of

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


_TRIES = 8
"""The number of times that victims are selected again when budgets do not allow all of them together."""

MemberLocation = tuple[str, str, str, str]
"""Members that are interchangeable: gang, pod set, node, zone."""


@dataclass(frozen=True, slots=True)
class VictimSelection:
    """A decision and its pods: those to be evicted for good, and those to be moved with their target node.

    `followers`: places beside it for the gangs that share its domain.
    """

    decision: Decision
    victims: tuple[Pod, ...] = ()
    moves: tuple[tuple[Pod, str], ...] = ()
    followers: Mapping[str, tuple[Placement, ...]] = field(default_factory=dict)

    @property
    def leaving(self) -> tuple[Pod, ...]:
        return (*self.victims, *(pod for pod, _ in self.moves))


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang with running members, and whether it may be disturbed.

    `list_pods` lists its pods. `in_flight`: a plan of it is being carried out. `is_young`: it may be moved, but not
    preempted yet, or, given the queue where the paths of the two part, nothing be reclaimed from it yet.
    """

    reading: ParsedGang
    list_pods: Callable[[], Sequence[Pod]]
    in_flight: bool = False
    is_young: Callable[[str], bool] = lambda parting: False
    created: str = ""

    @property
    def eviction_order(self) -> list[Pod]:
        """Members in eviction order: the last one first."""
        live = [pod for pod in self.list_pods() if pod.spec.node_name and pod.metadata.deletion_timestamp is None]
        return sorted(live, key=order, reverse=True)


class Preemptor:
    """Selects victims for one gang at a time.

    `budgets` is read again for each question. `running_gang` finds a gang by name; None: there is no such gang (any
    more). `find_reclaim`: what a gang may take from other queues; None: queues do not take from each other.
    """

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudget],
        cluster: Cluster,
        session: PlacementSession,
        options: Options,
        running_gang: Callable[[str], RunningGang | None],
        find_reclaim: Callable[[ParsedGang], Reclaim] | None = None,
    ) -> None:
        self._budgets = budgets
        self._cluster = cluster
        self._session = session
        self._options = options
        self._running_gang = running_gang
        self._find_reclaim = find_reclaim

    def select_victims(self, reading: ParsedGang, limits: Consolidate | None, refused: Decision) -> VictimSelection:
        """Victims for a gang that does not fit: moves where they are allowed, else reclaim, else its own queue.

        Where nothing helps, the refusal is returned, with what the last try says of it; a try that ended without an
        answer says nothing.
        """
        gang, preempts, reclaim = reading.gang, self._preempts(reading), self._entitlement(reading)
        if not preempts and limits is None and reclaim is None:
            return VictimSelection(refused)
        asking = reading.queue, limits, reclaim.queues.version if reclaim is not None else None
        known = self._session.known_refusal(gang, *asking)
        if known is not None:
            return VictimSelection(known)
        found: VictimSelection | None = None
        if limits is not None:
            moved = self._ask(reading, msgspec.structs.replace(self._options, consolidate=limits))
            found = moved if _is_placed(moved) else None  # tried once in a while: a reason does not change with it
        if reclaim is not None and not _is_placed(found):
            found = self._reclaim(reading, reclaim) or found
        if preempts and not _is_placed(found) and (reclaimable := self._weaker(reading)):
            options = msgspec.structs.replace(self._options, preempt=True)
            found = self._ask(reading, options, rules=_own_rules(reclaimable)) or found
        if found is None or found.decision.outcome == "exhausted":
            found = VictimSelection(refused)
        self._session.refuse(gang, *asking, found.decision)
        return found

    def may_disturb(self, reading: ParsedGang, limits: Consolidate | None) -> bool:
        """Whether anybody could be moved or evicted for it at all."""
        reclaim = self._entitlement(reading)
        lending = reclaim.queues.lending(reclaim.shares) if reclaim is not None else ()
        return limits is not None or self._preempts(reading) or any(name != reading.queue for name in lending)

    def _preempts(self, reading: ParsedGang) -> bool:
        return reading.preempts and self._session.has_lower_priority(reading.gang)

    def _entitlement(self, reading: ParsedGang) -> Reclaim | None:
        reclaim = self._find_reclaim(reading) if self._find_reclaim is not None and reading.preempts else None
        return reclaim if reclaim is not None and reclaim.is_entitled else None

    def _reclaim(self, reading: ParsedGang, reclaim: Reclaim) -> VictimSelection | None:
        """Victims in other queues, which get what is theirs; None: there are none."""
        reclaimable = self._reclaimable_gangs(reading, reclaim)
        if not reclaimable:
            return None
        rules = VictimRules(_tiers(reclaimable, reclaim), _rule(reclaimable, reclaim, self._session.places))
        found = self._ask(reading, msgspec.structs.replace(self._options, preempt=True), rules=rules)
        return found if _is_placed(found) else None

    def _reclaim_over_limit(self, reading: ParsedGang, queue_preemption: QueuePreemption) -> VictimSelection | None:
        """Victims in other queues, without which the limit admits the gang, and more if it does not fit even then."""
        reclaim = queue_preemption.reclaim
        reclaimable = self._reclaimable_gangs(reading, reclaim) if reclaim is not None else []
        if reclaim is None or not reclaimable:
            return None
        queues = {one.reading.gang.name: one.reading.queue for one in reclaimable}
        rules = VictimRules(_tiers(reclaimable, reclaim), _rule(reclaimable, reclaim, self._session.places))
        _, fixed = self._staying(rules.tiers, Budgets(self._budgets, self._cluster.pending_victims), set())
        holders = self._session.running_gangs(rules.tiers, fixed)
        candidates = [
            Candidate(holder, queues[rules.named(holder.victims[:1])[0].gang]) for holder in rules.candidates(holders)
        ]
        gone = rules.named(queue_preemption.victims(candidates) or ())
        if not gone or not rules.is_allowed(gone):
            return None
        more = VictimRules(rules.tiers, lambda victims: rules.is_allowed([*gone, *victims]))
        found = self._ask(reading, msgspec.structs.replace(self._options, preempt=True), rules=more, gone=gone)
        return found if _is_placed(found) else None

    def _reclaimable_gangs(self, reading: ParsedGang, reclaim: Reclaim) -> list[RunningGang]:
        """The gangs of other queues from which it may take."""
        is_open: dict[str, bool] = {reading.queue: False}
        reclaimable = []
        for other in self._session.preemptible():
            running_gang = self._running_gang(other.name)
            if running_gang is None or running_gang.in_flight:
                continue
            queue = running_gang.reading.queue
            if queue not in is_open:
                is_open[queue] = reclaim.may_take_from(queue)
            if is_open[queue] and not running_gang.is_young(reclaim.parting(queue)):
                reclaimable.append(running_gang)
        return reclaimable

    def decide_over_limit(
        self, reading: ParsedGang, limits: Consolidate | None, queue_preemption: QueuePreemption
    ) -> VictimSelection | None:
        """Place the minimum once what exceeds the limit has left; None: no victims lift it.

        That is what other queues have of its share, then gangs of lower priority in its queue. Gangs elsewhere are
        disturbed for capacity only if the capacity of those victims is not enough.
        """
        reclaimed = self._reclaim_over_limit(reading, queue_preemption)
        if reclaimed is not None or not queue_preemption.preempts:
            return reclaimed
        gang, state = reading.gang, (queue_preemption.asked.queue, queue_preemption.freed_version)
        if self._session.is_known_futile(gang, *state):
            return None
        for changes in ({}, {"consolidate": limits}, {"preempt": True}) if limits is not None else ({"preempt": True},):
            found = self._ask(reading, msgspec.structs.replace(self._options, **changes), queue_preemption)
            if found is not None:
                return found
        self._session.note_futile(gang, *state)
        return None

    def _weaker(self, reading: ParsedGang) -> list[RunningGang]:
        """The gangs of lower priority in its queue: those of other queues are never its victims (Q4)."""
        weaker = (each.name for each in self._session.preemptible() if each.priority < reading.gang.priority)
        found = [running_gang for name in weaker if (running_gang := self._running_gang(name)) is not None]
        return [
            one for one in found if one.reading.queue == reading.queue and not one.in_flight and not one.is_young("")
        ]

    def kept(self, gang: Gang) -> dict[str, Places]:
        """Members that may not be moved for a gang, by the name of their own gang."""
        return self._kept(gang, "", Budgets(self._budgets, self._cluster.pending_victims), set(), True)[1]

    def _ask(
        self,
        reading: ParsedGang,
        options: Options,
        queue_preemption: QueuePreemption | None = None,
        rules: VictimRules | None = None,
        gone: Sequence[Victim] = (),
    ) -> VictimSelection | None:
        """Select victims; pods over a budget are excluded from the next try, pods it has affinity to from the first.

        None: budgets allow no selection that helps, or the queue has to get below its limit and no victims achieve
        that. `rules`: who may be a victim, if it is not for priority; `gone`: who is one in any case.
        """
        gang, budgets = reading.gang, Budgets(self._budgets, self._cluster.pending_victims)
        excluded = self._affinity_pods(reading)
        for _ in range(_TRIES):
            moves = options.consolidate is not None
            if rules is None:
                kept, fixed = self._kept(gang, reading.queue, budgets, excluded, moves)
            else:
                kept, fixed = self._staying(rules.tiers, budgets, excluded)
            if queue_preemption is None:
                decision: Decision | None = self._session.disturbing(gang, options, fixed, gone, rules)
            else:
                decision = self._over_limit_decision(reading, options, fixed, queue_preemption)
            if decision is None:
                return None
            selection = self._named_pods(decision, kept)
            over = budgets.protected(selection.leaving)
            if not over:
                return self._with_remaining_victims(selection)
            if gone:
                return None  # what was chosen for the limit can not be spared
            excluded |= over
        return None

    def _over_limit_decision(
        self, reading: ParsedGang, options: Options, fixed: Mapping[str, Places], queue_preemption: QueuePreemption
    ) -> Decision | None:
        """The placement once the gangs have left that the limit does not allow beside this one."""
        gang, reclaimable = reading.gang, self._weaker(reading)
        rules = _own_rules(reclaimable)
        candidates = self._candidates(gang, fixed, rules, reading.queue)
        found = queue_preemption.victims(candidates)
        if found is None:
            return None
        gone = rules.named(found)
        decision = self._session.disturbing(gang, options, fixed, gone, rules if options.preempt else None)
        if decision.outcome != "placed":
            return None
        more = Counter(each.gang for each in decision.victims) - Counter(each.gang for each in gone)
        for name in {each.gang: None for each in gone if each.gang not in more} if more else ():
            rest = [each for each in decision.victims if each.gang != name]
            if queue_preemption.allows(candidates, rules.as_seen(rest)):
                less = self._session.disturbing(gang, self._options, fixed, rest)
                decision = less if less.outcome == "placed" else decision
        return decision

    def _candidates(self, gang: Gang, fixed: Mapping[str, Places], rules: VictimRules, queue: str) -> list[Candidate]:
        """Gangs of lower priority in its queue."""
        base = rules.kept(frozenset([gang.tied_to.gang] if gang.tied_to is not None else []))
        holders = rules.candidates(self._session.running_gangs(rules.tiers, fixed))
        return [Candidate(holder, queue, stays=holder.gang.name in base) for holder in holders]

    def _kept(
        self, gang: Gang, queue: str, budgets: Budgets, excluded: set[str], moves: bool
    ) -> tuple[set[str], dict[str, Places]]:
        """Members that stay: their uids, and their locations by gang. Moves may disturb gangs of any queue."""
        kept: set[str] = set()
        fixed: dict[str, Places] = {}
        for other in self._session.preemptible():
            if other.name == gang.name or (not moves and other.priority >= gang.priority):
                continue
            running_gang = self._running_gang(other.name)
            if (
                running_gang is None
                or running_gang.in_flight
                or other.priority > gang.priority
                or (not moves and (running_gang.reading.queue != queue or running_gang.is_young("")))
            ):
                fixed[other.name] = self._session.places(other.name)
                continue
            if budgets or moves or excluded:
                mine = self._staying_of(running_gang, budgets, excluded, moves)
                kept.update(mine)
                fixed.update({other.name: list(mine.values())} if mine else {})
        return kept, fixed

    def _staying(
        self, names: Iterable[str], budgets: Budgets, excluded: set[str]
    ) -> tuple[set[str], dict[str, Places]]:
        """As `_kept`, for gangs that are told by name."""
        kept: set[str] = set()
        fixed: dict[str, Places] = {}
        for name in names if budgets or excluded else ():
            running_gang = self._running_gang(name)
            mine = self._staying_of(running_gang, budgets, excluded, moves=False) if running_gang is not None else {}
            kept.update(mine)
            fixed.update({name: list(mine.values())} if mine else {})
        return kept, fixed

    def _staying_of(
        self, running_gang: RunningGang, budgets: Budgets, excluded: set[str], moves: bool
    ) -> dict[str, tuple[str, int]]:
        """The members of one gang that stay, by uid: where they are."""
        eviction_order, members = running_gang.eviction_order, running_gang.reading.members
        stay = (self._protected(eviction_order, budgets, moves) | excluded) & members.keys()
        return {
            pod.metadata.uid: (members[pod.metadata.uid], self._slot(pod))
            for pod in eviction_order
            if pod.metadata.uid in stay
        }

    def _affinity_pods(self, reading: ParsedGang) -> set[str]:
        """Pods of running gangs that meet the pod affinity of one of the gang's pod sets."""
        near = [affinity_terms.near for affinity_terms in reading.affinity_terms.values() if affinity_terms.near]
        return {
            pod.metadata.uid
            for other in (self._session.preemptible() if near else ())
            if (running_gang := self._running_gang(other.name)) is not None
            for pod in running_gang.eviction_order
            if any(
                all(term.pod_selector.selects(*_namespace_and_labels(pod)) for term in affinity_terms)
                for affinity_terms in near
            )
        }

    def _protected(self, eviction_order: Sequence[Pod], budgets: Budgets, moves: bool) -> set[str]:
        """Pods protected by budgets and, for moves, those that no controller recreates or that have to stay there."""
        fixed = {pod.metadata.uid for pod in eviction_order if self._is_fixed(pod)} if moves else set()
        return fixed | budgets.protected(eviction_order)

    def _is_fixed(self, pod: Pod) -> bool:
        """No controller recreates the pod, or its affinity terms or those of other pods restrict where it may run."""
        return pod.metadata.controller is None or has_terms(pod) or self._cluster.affinity_index.repels(pod)

    def _slot(self, pod: Pod) -> int:
        return self._cluster.inventory.slot_for(pod.spec.node_name, zone_of(pod))

    def _named_pods(self, decision: Decision, kept: set[str]) -> VictimSelection:
        """The pods for the locations that a decision names; among interchangeable pods the newest go first."""
        taken: set[str] = set()

        def choose(spot: MemberLocation) -> Pod:
            running_gang = self._running_gang(spot[0])
            assert running_gang is not None
            for pod in running_gang.eviction_order:
                uid = pod.metadata.uid
                is_there = (running_gang.reading.members.get(uid), pod.spec.node_name, zone_of(pod)) == spot[1:]
                if is_there and uid not in taken and uid not in kept:
                    taken.add(uid)
                    return pod
            raise LookupError(f"no pod of {spot[0]} is left at {spot[1]} on {spot[2]}")

        victims = [choose((each.gang, each.pods, each.node, each.zone)) for each in decision.victims]
        moves = [
            (choose((each.gang, each.pods, each.source, each.source_zone)), each.target) for each in decision.moves
        ]
        return VictimSelection(decision, tuple(victims), tuple(moves))

    def _with_remaining_victims(self, selection: VictimSelection) -> VictimSelection:
        """Where a selection takes the last members of a gang, add what else is left of it.

        That is victims of other plans, which may never be recorded, or be dropped; and pods whose node does not exist,
        which may have come back already. They would be left running below the gang's minimum (INV7). So each plan is
        lawful by itself.
        """
        taken = {pod.metadata.uid for pod in selection.leaving}
        fallen = {each.gang: None for each in selection.decision.victims if self._is_last(each.gang, taken)}
        if not fallen:
            return selection
        rest = [pod for pod in self._cluster.pending_victims if "/".join(group_of(pod)) in fallen]
        rest += [pod for name in fallen for pod in self._without_node(name) if pod.metadata.uid not in taken]
        return replace(selection, victims=(*selection.victims, *rest))

    def _without_node(self, name: str) -> list[Pod]:
        """Pods of a gang that were bound to a node that does not exist."""
        running_gang, has_node = self._running_gang(name), self._cluster.inventory.find
        bound = running_gang.eviction_order if running_gang is not None else []
        return [pod for pod in bound if has_node(pod.spec.node_name) is None]

    def _is_last(self, name: str, taken: set[str]) -> bool:
        """Whether all members that would stay are victims of other plans already."""
        running_gang = self._running_gang(name)
        return running_gang is not None and all(
            pod.metadata.uid in taken
            for pod in running_gang.eviction_order
            if pod.metadata.uid in running_gang.reading.members
        )


def _is_placed(selection: VictimSelection | None) -> bool:
    return selection is not None and selection.decision.outcome == "placed"


def _tiers(reclaimable: Sequence[RunningGang], reclaim: Reclaim) -> dict[str, int]:
    """The most over-served queue first, then the lowest priority; in the order of preference the youngest first."""
    youngest = sorted(reclaimable, key=lambda one: (one.created, one.reading.gang.name), reverse=True)
    price = {
        one.reading.gang.name: (tuple([-use for use in reclaim.over_use(one.reading.queue)]), one.reading.gang.priority)
        for one in youngest
    }
    tiers = {each: tier for tier, each in enumerate(sorted(set(price.values())))}
    return {name: tiers[price[name]] for name in sorted(price, key=lambda name: tiers[price[name]])}


def _own_rules(reclaimable: Sequence[RunningGang]) -> VictimRules:
    """The lowest priority first, in the order of preference the youngest first."""
    youngest = sorted(reclaimable, key=lambda one: (one.created, one.reading.gang.name), reverse=True)
    ordered = sorted((one.reading.gang for one in youngest), key=lambda gang: gang.priority)
    return VictimRules({gang.name: gang.priority for gang in ordered}, anything)


def _rule(reclaimable: Sequence[RunningGang], reclaim: Reclaim, places: Callable[[str], Places]) -> IsAllowed:
    """Whether victims may leave together."""
    holders = {
        gang.name: Holder(
            one.reading.queue,
            {path: reclaim.queues.shares_of(pods.request) for path, pods in pod_sets(gang).items()},
            len(places(gang.name)),
        )
        for one in reclaimable
        for gang in (one.reading.gang,)
    }
    return lambda victims: reclaim.is_lawful(units_of(victims, holders))


def _namespace_and_labels(pod: Pod) -> tuple[str, dict[str, str]]:
    return pod.metadata.namespace, pod.metadata.labels
