"""Plans that wait for others to leave: made, found again, given up, and turned into plans to bind.

A plan is recorded before the first pod is asked to leave, and its seats are kept until it is carried out or given up.
Nobody is asked to leave for a plan that can not come true any more, or that can do without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.scheduling.budgets import Budgets
from spinney.core.scheduling.cluster import Cluster, Room
from spinney.core.scheduling.plan import Plan, Shift
from spinney.core.scheduling.reporting.texts import consolidated, preempted
from spinney.core.scheduling.staleness import shortage
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.carrying import Errand
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.evicting import Target
from spinney.drive.loop.scheduler.following import following
from spinney.drive.loop.scheduler.havens import Havens
from spinney.drive.loop.scheduler.hunting import Prey
from spinney.drive.loop.scheduler.mustering import Muster
from spinney.drive.loop.scheduler.ordering import Ordering
from spinney.drive.loop.scheduler.records import RecordReader
from spinney.drive.loop.scheduler.reviewing import Review
from spinney.drive.loop.scheduler.seating import Seating
from spinney.drive.loop.scheduler.views import Views, group_of


@dataclass(frozen=True, slots=True)
class Nominate:
    """Record a plan that waits, then ask its victims to leave."""

    key: Key
    errand: Errand
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Pursue:
    """Ask the victims of a recorded plan that are still there to leave."""

    key: Key
    errand: Errand
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Promote:
    """Those who had to leave have left: record that the plan is to be bound, and carry it out."""

    key: Key
    errand: Errand


@dataclass(frozen=True, slots=True)
class Abandon:
    """A recorded plan can not come true: its pods are decided anew. `why`: it was never to, and that is told."""

    key: Key
    errand: Errand
    why: str = ""


Chase = Nominate | Pursue | Promote | Abandon


class Pursuit:
    """Over everything that a cycle has read."""

    def __init__(
        self,
        views: Views,
        cluster: Cluster,
        book: Book,
        seating: Seating,
        havens: Havens,
        muster: Muster,
        ordering: Ordering,
        decider: Decider,
        review: Review,
        records: RecordReader,
    ) -> None:
        self._views = views
        self._cluster = cluster
        self._book = book
        self._seating = seating
        self._havens = havens
        self._muster = muster
        self._ordering = ordering
        self._decider = decider
        self._review = review
        self._records = records
        self._epoch = records.term.epoch

    def nominate(self, entry: Entry, prey: Prey) -> Nominate:
        """The seats are reserved; from now on victims are as good as gone for everybody who is decided after it."""
        victims = tuple(pod.metadata.uid for pod in prey.victims)
        moves = tuple(Shift(pod.metadata.uid, node) for pod, node in prey.moves)
        errand = self._seating.errand(entry, prey.decision, prey.decision.placements, victims, moves)
        self._book.rest(entry)
        self._doom(entry, errand.plan)
        return Nominate(entry.key, errand, self._targets(entry, errand.plan, prey.leaving))

    def resume(
        self, entry: Entry, group: PodGroup, plan: Plan, pods: Sequence[Pod]
    ) -> Pursue | Promote | Abandon | None:
        """What is to be done for a plan that was found waiting; None: wait on.

        Victims use their queues until they are gone: what a limit does not allow beside them waits. Those on a node
        that is not ready are not waited for, where nobody sees them go.
        """
        there = {pod.metadata.uid: pod for pod in pods}
        keys = {uid: (pod.metadata.namespace, pod.metadata.name) for uid, pod in there.items()}
        errand = Errand(group.metadata, plan, keys)
        if not all(seat.uid in there and _waits(there[seat.uid]) for seat in plan.seats):
            return self._abandon(entry, errand, there)
        why = self._objection(entry, group, plan)
        if why:
            return self._abandon(entry, errand, there, why)
        self._seating.reclaim(entry, plan, there)
        self._doom(entry, plan)
        rooms = {self._cluster.room(seat.node, self._cluster.ports(seat.uid)) for seat in plan.seats}
        still = [pod for uid in plan.leaving if (pod := self._cluster.holder(uid)) is not None and not _leaves(pod)]
        seats = [seat.uid for seat in plan.seats]
        held = [pod for uid in plan.victims if (pod := self._cluster.holder(uid)) is not None]
        linger = self._muster.charges(pod for pod in held if not _leaves(pod) or self._sees(pod.spec.node_name))
        is_allowed = self._ordering.allows(entry, seats, linger)
        is_ready = is_allowed and rooms <= {Room.READY}
        if is_ready:
            still = [pod for pod in still if self._has_begun(group_of(pod))]
        is_lost = Room.LOST in rooms or not self._ordering.allows(entry, seats) or self._has_strayed(entry, plan)
        if is_lost or not all(self._is_lawful(entry, plan, pod) for pod in still):
            return self._abandon(entry, errand, there)
        self._book.waits[entry.key] = None
        if still:
            return Pursue(entry.key, errand, self._targets(entry, plan, still))
        if not is_ready:
            return self._elsewhere(entry, plan, seats) if is_allowed else None
        self._seating.spare(entry)
        bind = msgspec.structs.replace(plan, epoch=self._epoch, state="bind", victims=(), moves=())
        return Promote(entry.key, Errand(group.metadata, bind, keys))

    def _has_strayed(self, entry: Entry, plan: Plan) -> bool:
        """Whether the gang that it is tied to has gone elsewhere while this one waited (INV3)."""
        assert entry.reading is not None
        seats = [(seat.node, seat.zone) for seat in plan.seats]
        return not self._decider.is_beside_its_base(entry.reading.gang, seats)

    def _objection(self, entry: Entry, group: PodGroup, plan: Plan) -> str:
        """What is wrong with a plan of somebody else, before anything is done for it."""
        if not self._records.is_taken_over(group.metadata.uid):
            return ""
        self._seating.release(entry)
        misplaced = self._review.seats(entry, plan.seats, frozenset(plan.leaving))
        why = next(iter(misplaced.values()), "") or self._review.leaving(entry, plan)
        if not why:
            self._records.accept(group.metadata.uid)
        return why

    def _elsewhere(self, entry: Entry, plan: Plan, seats: Sequence[str]) -> Promote | None:
        """Room that has come up meanwhile and is as good as what the gang waits for, which may never be free."""
        if plan.moves:
            return None
        asking = following(self._muster.among(entry), self._book.followers(entry.name), self._cluster)
        found = self._decider.without(asking.gang, seats)
        if found.outcome != "placed" or found.waits or (1.0 if found.score is None else found.score) < plan.score:
            return None
        errand = self._seating.errand(entry, found, found.placements)
        if {seat.uid for seat in errand.plan.seats} != set(seats):
            return None
        self._seating.release(entry)
        self._seating.reserve(entry, found.placements)
        return Promote(entry.key, errand)

    def _abandon(self, entry: Entry, errand: Errand, there: Mapping[str, Pod], why: str = "") -> Abandon:
        stay = [pod for move in errand.plan.moves if (pod := self._cluster.holder(move.uid)) and not _leaves(pod)]
        self._havens.withdraw(stay)
        self._seating.release(entry)
        free = frozenset(seat.uid for seat in errand.plan.seats if seat.uid in there and _waits(there[seat.uid]))
        return Abandon(entry.key, Errand(errand.group, errand.plan, errand.keys, free), why)

    def _doom(self, entry: Entry, plan: Plan) -> None:
        held = [pod for uid in plan.leaving if (pod := self._cluster.holder(uid)) is not None]
        fresh = [pod for pod in held if not self._cluster.is_doomed(pod.metadata.uid)]
        entry.victims = plan.leaving
        self._cluster.doom(plan.leaving)
        moved = {move.uid: move.node for move in plan.moves}
        self._havens.keep((pod, moved[pod.metadata.uid]) for pod in fresh if pod.metadata.uid in moved)
        for group in sorted({group_of(pod) for pod in fresh}):
            self._restand(group)

    def _sees(self, node: str) -> bool:
        slot = self._cluster.inventory.find(node)
        return slot is not None and self._cluster.inventory.node(slot).ready

    def _restand(self, key: Key) -> None:
        """Somebody's members have changed by what is decided here, and what its queue is charged for."""
        self._muster.again(key)
        entry = self._book.entries.get(key)
        if entry is not None:
            self._ordering.charge(entry)

    def _has_begun(self, group: Key) -> bool:
        """Whether the gang has lost so much already that it has to go whole."""
        found = self._views.podgroups.get(group)
        if found is None:
            return True
        has_node = self._cluster.inventory.find
        return shortage(found, self._views.pods_of(group), lambda name: has_node(name) is not None) is not None

    def _is_lawful(self, entry: Entry, plan: Plan, pod: Pod) -> bool:
        """Things may have changed since the plan was made (INV7)."""
        victim = self._book.entries.get(group_of(pod))
        if victim is None or victim.reading is None or entry.reading is None:
            return False
        mine, theirs = entry.reading.gang.priority, victim.reading.gang
        is_weaker = theirs.priority < mine if pod.metadata.uid in plan.victims else theirs.priority <= mine
        return theirs.preemptible and is_weaker

    def _targets(self, entry: Entry, plan: Plan, pods: Iterable[Pod]) -> tuple[Target, ...]:
        budgets = Budgets(self._views.budgets)
        everybody = [pod for uid in plan.leaving if (pod := self._cluster.holder(uid)) is not None]
        losses = Counter(group_of(pod) for pod in everybody)
        found = []
        for pod in pods:
            key, group = group_of(pod), self._views.podgroups.get(group_of(pod))
            told = preempted if pod.metadata.uid in plan.victims else consolidated
            event = told(f"{pod.metadata.namespace}/{pod.metadata.name}", entry.key, losses[key])
            found.append(Target(pod, group.metadata if group is not None else None, event, budgets.guards(pod)))
        return tuple(found)


def _waits(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.node_name


def _leaves(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
