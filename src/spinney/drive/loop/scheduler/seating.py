"""Placements become seats: pods by uid, room reserved, ranks given; and recorded plans become seats again.

Reservations belong to entries, and every one of them is on a gang that is decided or recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock
from spinney.api.digits import read_number
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_LAST_START_TIMESTAMP, MEMBERS, RANK
from spinney.api.placement.problem import Group
from spinney.api.placement.result import Decision, Placement
from spinney.core.expansion.objects import stamp
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import GangReading
from spinney.core.scheduling.leaves import Waiting
from spinney.core.scheduling.plan import Plan, Seat, Shift
from spinney.core.scheduling.ranks import ranks
from spinney.core.scheduling.staleness import is_owned_by_podgang, members_noted
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Entry
from spinney.drive.loop.scheduler.carrying import Errand
from spinney.drive.loop.scheduler.views import Views, group_of


class Seating:
    """Over one cluster, for one epoch. `look`: a gang stands otherwise than it did."""

    def __init__(self, views: Views, cluster: Cluster, epoch: int, clock: Clock, look: Callable[[Key], None]) -> None:
        self._views = views
        self._clock = clock
        self._cluster = cluster
        self._epoch = epoch
        self._look = look

    def reserve(self, entry: Entry, places: Iterable[Placement]) -> None:
        assert entry.reading is not None
        for place in places:
            waiting = _who(entry.reading, place)
            pod = self._views.pods.get(waiting.key)
            if pod is not None and pod.metadata.uid == waiting.uid:
                self._cluster.reserve(pod, place.node, place.zone)
                entry.seats[waiting.uid] = place.node

    def release(self, entry: Entry) -> None:
        """Seats that nobody took; whoever has a node by now keeps it."""
        for uid in entry.seats:
            self._cluster.release(uid)
        entry.seats = {}
        entry.nominated = False
        self.spare(entry)

    def spare(self, entry: Entry) -> None:
        """Nobody has to go for it any more."""
        spared = [pod for uid in entry.victims if (pod := self._cluster.holder(uid)) is not None]
        self._cluster.spare(entry.victims)
        entry.victims = ()
        for group in {group_of(pod) for pod in spared}:
            self._look(group)

    def reclaim(self, entry: Entry, plan: Plan, pods: Mapping[str, Pod]) -> None:
        """Seats of a recorded plan that waits are kept, also where nobody remembers them."""
        for seat in plan.seats:
            self._cluster.reserve(pods[seat.uid], seat.node, seat.zone)
            entry.seats[seat.uid] = seat.node

    def keep(self, entry: Entry, plan: Plan, pods: Sequence[Pod]) -> None:
        """Seats of a recorded plan whose pods still wait are kept, whatever is to become of it."""
        there = {pod.metadata.uid: pod for pod in pods if _waits(pod)}
        for seat in plan.seats:
            if seat.uid in there:
                self._cluster.reserve(there[seat.uid], seat.node, seat.zone)
                entry.seats[seat.uid] = seat.node

    def errand(
        self,
        entry: Entry,
        decision: Decision,
        places: Sequence[Placement],
        victims: tuple[str, ...] = (),
        moves: tuple[Shift, ...] = (),
    ) -> Errand:
        """What is to be recorded and done for a gang that was decided."""
        reading, group = entry.reading, entry.group
        assert reading is not None and group is not None
        seats = [(_who(reading, place), place) for place in places]
        numbers = self._ranks(entry.key, reading, [(pod.uid, place.node) for pod, place in seats])
        plan = Plan(
            epoch=self._epoch,
            state="wait" if victims or moves else "bind",
            seats=tuple(
                [
                    Seat(pod.uid, place.node, numbers[pod.uid], reading.segments.get(pod.uid), place.zone)
                    for pod, place in seats
                ]
            ),
            domain=next((domain.path for domain in decision.domains if not domain.group), ()),
            score=1.0 if decision.score is None else decision.score,
            victims=victims,
            moves=moves,
        )
        keys = {pod.uid: pod.key for pod, _ in seats}
        notes = self._notes(entry.key, group, reading, keys)
        return Errand(group.metadata, plan, keys, notes=notes, probes=entry.probes)

    def resume(
        self,
        entry: Entry,
        group: PodGroup,
        plan: Plan,
        pods: Sequence[Pod],
        *,
        refused: Container[str] = (),
        give_up: bool = False,
    ) -> Errand:
        """What is left to do of a plan that was found: seats on nodes that cannot keep them are given up, or all.

        `refused`: seats, by uid, that nobody may take for another reason.

        Room that is given up is nobody else's before the record is gone: a bind of whoever made it may be on its way.
        """
        there = {pod.metadata.uid: pod for pod in pods}
        for uid in [uid for uid in entry.seats if all(uid != seat.uid for seat in plan.seats)]:
            self._cluster.release(uid)
            del entry.seats[uid]
        free = [seat for seat in plan.seats if seat.uid in there and _waits(there[seat.uid])]
        for seat in free:
            self._cluster.reserve(there[seat.uid], seat.node, seat.zone)
            entry.seats[seat.uid] = seat.node
        bad = {seat.uid for seat in free if give_up or seat.uid in refused or not self._cluster.is_sound(seat.node)}
        if bad and not any(seat.uid in there and there[seat.uid].spec.node_name for seat in plan.seats):
            bad = {seat.uid for seat in free}
        keys = {uid: _key(pod) for uid, pod in there.items()}
        return Errand(group.metadata, plan, keys, frozenset(bad))

    def _notes(self, key: Key, group: PodGroup, reading: GangReading, coming: Mapping[str, Key]) -> dict[str, str]:
        """When it starts, and how many members it has had: not where an operator of PodGangs sees to their end."""
        notes = {} if reading.gang.running else {KAI_LAST_START_TIMESTAMP: stamp(self._clock.now())}
        if not is_owned_by_podgang(group):
            notes[MEMBERS] = members_noted(group, self._views.pods_of(key), coming)
        return notes

    def _ranks(self, key: Key, reading: GangReading, seats: list[tuple[str, str]]) -> dict[str, int]:
        """New pods take their numbers beside those that members have."""
        if not reading.gang.running:
            return ranks(self._cluster.inventory, _topology(reading.gang.root), seats, blocks=reading.blocks)
        seated = {uid for uid, _ in seats}
        standing = [pod for pod in self._views.pods_of(key) if _holds_rank(pod) and pod.metadata.uid not in seated]
        kept = {pod.metadata.uid: rank for pod in standing if (rank := read_number(_rank(pod))) is not None}
        known = [(pod.metadata.uid, pod.spec.node_name) for pod in standing if pod.metadata.uid in kept]
        return ranks(
            self._cluster.inventory, _topology(reading.gang.root), [*known, *seats], kept, blocks=reading.blocks
        )


def follow(first: Sequence[Placement], more: Sequence[Placement]) -> list[Placement]:
    """Places given out after others: each pod set counts on from where it was."""
    given = Counter(place.pods for place in first)
    return [Placement(place.pods, place.index + given[place.pods], place.node, place.zone) for place in more]


def _who(reading: GangReading, place: Placement) -> Waiting:
    return reading.waiting[place.pods][place.index]


def _waits(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.node_name


def _holds_rank(pod: Pod) -> bool:
    """A pod that leaves or has failed passes its number on to its replacement; one that succeeded has none."""
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed"


def _key(pod: Pod) -> Key:
    return (pod.metadata.namespace, pod.metadata.name)


def _rank(pod: Pod) -> str:
    return pod.metadata.annotations.get(RANK, "")


def _topology(group: Group) -> str | None:
    """The one of the gang, or the first that a part of it names."""
    if group.topology:
        return group.topology
    below = [pods.topology for pods in group.pods] + [_topology(each) for each in group.groups]
    return next((name for name in below if name), None)
