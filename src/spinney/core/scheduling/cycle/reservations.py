"""Turns placements into assignments (pod uids, reserved capacity, ranks), and recorded plans back into reservations.

A reservation belongs to a gang in the scheduling queue that was decided or has a recorded plan. Capacity is also kept
for the replacement that the owner of a pod creates, at the place that the pod is moved to or else at the one it left:
it is opened at the moment its gang is decided, so that no other gang gets it, and it expires if the owner creates none.
That of a moved pod is lost if the process ends after the move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf

import msgspec

from kube_apimachinery.quantity import read_number
from kube_apimachinery.times import format_time, seconds
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_LAST_START_TIMESTAMP, KAI_TOP_OWNER_METADATA, MEMBERS, NODES, RANK
from spinney.api.placement.result import Decision, Placement
from spinney.core.scheduling.amounts import zone_of
from spinney.core.scheduling.cluster import ReservedCapacity
from spinney.core.scheduling.cycle.actions import PlanTask
from spinney.core.scheduling.cycle.gang_reader import GangReader
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot, group_of
from spinney.core.scheduling.gang.members import is_owned_by_podgang, members_noted
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.gang.pod_shape import shapes_on
from spinney.core.scheduling.gang.podsets import WaitingPod
from spinney.core.scheduling.gang.predecessors import LONGEST_END_S, Place, Slot, Vacancy, decode, vacancies
from spinney.core.scheduling.gang.ranks import first_topology, ranks
from spinney.core.scheduling.kept_room import PodCapacity, Room
from spinney.core.scheduling.plan import Assignment, Move, Plan

RESERVED_S = 60.0
"""How long room is kept for a replacement, counted from the end of its predecessor."""

EXPECTED_S = 5.0
"""How long it is kept there while no replacement has been created."""


@dataclass(frozen=True, slots=True)
class MoveReservation:
    """Capacity for the replacement of a pod, until a deadline."""

    pod: Pod
    node: str
    until_s: float

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class MoveReservations:
    """Capacity for the replacements of moved pods, by gang."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[Key, dict[str, MoveReservation]] = {}

    def keep(self, moves: Iterable[tuple[Pod, str]]) -> None:
        """Reserve for pods about to be moved; skips those that have a reservation already or do not fit."""
        for pod, node in moves:
            key = group_of(pod)
            reservation = MoveReservation(_successor(pod), node, self._session.clock.monotonic() + RESERVED_S)
            if reservation.uid not in self._kept.get(key, ()):
                self._take(key, reservation)
                self._session.requeue_after(key, RESERVED_S)

    def open(self, key: Key) -> list[MoveReservation]:
        """Release the reservations of a gang and return those that have not expired."""
        found = self._kept.pop(key, {})
        for reservation in found.values():
            self._session.cluster.release(reservation.uid)
        return [reservation for reservation in found.values() if reservation.until_s > self._session.clock.monotonic()]

    def close(self, key: Key, opened: Iterable[MoveReservation], taken: Iterable[str]) -> None:
        """Reserve again what the gang has not taken: one less for each of its pods that got an assignment now."""
        nodes = Counter(taken)
        left = []
        for reservation in opened:
            if nodes[reservation.node] > 0:
                nodes[reservation.node] -= 1
            else:
                left.append(reservation)
        for reservation in left[nodes.total() :]:
            self._take(key, reservation)

    def expire(self, key: Key) -> None:
        """Drop reservations whose replacement did not come in time."""
        now_s = self._session.clock.monotonic()
        for reservation in [
            reservation for reservation in self._kept.get(key, {}).values() if reservation.until_s <= now_s
        ]:
            self._drop(key, reservation.uid)

    def withdraw(self, pods: Iterable[Pod]) -> None:
        """Drop the reservations of pods that are not moved after all."""
        for pod in pods:
            self._drop(group_of(pod), _successor(pod).metadata.uid)

    def has_any(self, key: Key) -> bool:
        return key in self._kept

    def _drop(self, key: Key, uid: str) -> None:
        kept = self._kept.get(key, {})
        if kept.pop(uid, None) is not None:
            self._session.cluster.release(uid)
        if not kept:
            self._kept.pop(key, None)

    def _take(self, key: Key, reservation: MoveReservation) -> None:
        self._session.cluster.reserve(reservation.pod, reservation.node)
        if self._session.cluster.reserved_capacity(reservation.node) is ReservedCapacity.LOST:
            self._session.cluster.release(reservation.uid)
        else:
            self._kept.setdefault(key, {})[reservation.uid] = reservation


@dataclass(slots=True)
class _Absence:
    """A place that a pod left. `capacity` None: what the pod had there is not known.

    `gone_s`: when it was first seen to have ended; None: it still terminates. `is_held`: room is kept there. `is_lost`:
    no replacement is expected there any more.
    """

    node: str
    successor: str = ""
    capacity: PodCapacity | None = None
    gone_s: float | None = None
    is_held: bool = True
    is_lost: bool = False


class ReturningPods:
    """The places that the pods of gangs left: room for their replacements is kept there for a time (G13).

    More important gangs may take it. After a restart the time begins anew for what the objects show.
    """

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._snapshot = snapshot
        self._absences: dict[Key, dict[Slot, _Absence]] = {}
        self._held: set[Key] = set()

    def check(self, entry: QueuedGang) -> None:
        """Take over which pods of a gang have left, and which have come to replace them."""
        before, pods = self._absences.pop(entry.key, {}), self._snapshot.pods_of(entry.key)
        group, departed, entry.departed = entry.group, entry.departed, []
        known = decode(group.metadata.annotations.get(NODES, "")) if group is not None else ()
        if group is None or not (known or before or departed or any(not pod.is_here for pod in pods)):
            return
        if not any(pod.is_here for pod in pods) and _is_grouped(group):
            self.forget(entry)  # a Job or Deployment that was deleted, or a pod whose successor is in another PodGroup
            return
        vacant = vacancies(known, pods, departed)
        found = {each.slot: self._absence(entry, each, before.get(each.slot)) for each in vacant}
        if found:
            self._absences[entry.key] = found
        awaited = [(slot, absence) for slot, absence in found.items() if not absence.is_lost]
        entry.homes = {absence.successor: absence.node for _, absence in awaited if absence.successor}
        entry.awaited = tuple(Place(slot.line, slot.number, absence.node) for slot, absence in awaited)
        if found or before:
            self.hold(entry)

    def _absence(self, entry: QueuedGang, vacancy: Vacancy, known: _Absence | None) -> _Absence:
        found = known or _Absence(vacancy.node)
        found.node = vacancy.node
        found.successor = vacancy.successor.metadata.uid if vacancy.successor is not None else ""
        if found.is_lost:
            return found
        left, now_s = vacancy.left, self._session.clock.monotonic()
        if left is not None and self._session.cluster.inventory.pod(left.metadata.uid) is not None:
            self._watch_leaving(entry, found, left, is_new=known is None)
        elif found.gone_s is None:
            found.gone_s = now_s
            self._end_of(found, left or vacancy.successor)
            self._session.requeue_after(entry.key, EXPECTED_S)
            self._session.requeue_after(entry.key, RESERVED_S)
        if found.gone_s is not None and found.is_held:
            found.is_held = now_s < found.gone_s + (RESERVED_S if found.successor else EXPECTED_S)
            found.is_lost = not found.is_held and not found.successor
            if not found.is_held:
                self._session.cluster.touch()
        return found

    def _watch_leaving(self, entry: QueuedGang, found: _Absence, left: Pod, *, is_new: bool) -> None:
        """Victims lose their place, and so do pods that take too long to terminate."""
        held = self._session.cluster.inventory.pod(left.metadata.uid)
        if held is not None:
            found.capacity = PodCapacity(held.request, held.node, held.zone, left.metadata.uid)
        over_s = seconds(left.metadata.deletion_timestamp) + RESERVED_S - self._session.clock.now()
        is_long = (left.metadata.deletion_grace_period_seconds or 0) > LONGEST_END_S
        found.is_lost = self._session.cluster.is_victim(left.metadata.uid) or is_long or over_s <= 0
        if found.is_lost:
            self._session.cluster.touch()
        elif is_new:
            self._session.requeue_after(entry.key, over_s)

    def _end_of(self, found: _Absence, like: Pod | None) -> None:
        """The predecessor has ended: its capacity, or that of a pod like it, is free."""
        if found.capacity is not None:
            found.capacity = found.capacity._replace(leaving="")
        elif like is not None:
            request = shapes_on(self._session.cluster.inventory.resources).of(like).request
            found.capacity = PodCapacity(request, found.node, zone_of(like))

    def hold(self, entry: QueuedGang) -> None:
        """Keep the room of the replacements that have no reservation."""
        absences = self._absences.get(entry.key, {}).values()
        kept = [
            absence.capacity
            for absence in absences
            if absence.is_held and not absence.is_lost and absence.successor not in entry.assignments
        ]
        width = len(self._session.cluster.inventory.resources)  # it may have grown since
        capacities = tuple([each for each in kept if each is not None and len(each.request) == width])
        if entry.reading is None or not capacities:
            self.open(entry)
            return
        room = Room(entry.name, "", entry.reading.gang.priority, inf, capacities)
        self._session.cluster.keep_room(room, entry.assignments.values())
        self._held.add(entry.key)
        amounts = tuple(map(sum, zip(*(capacity.request for capacity in capacities), strict=True)))
        self._session.queue_accounting.hold(entry, amounts)

    def open(self, entry: QueuedGang) -> None:
        """Give the room up, to the gang itself or because nothing is to be held any more."""
        if entry.key in self._held:
            self._held.discard(entry.key)
            self._session.cluster.drop_room(entry.name)
            self._session.queue_accounting.hold(entry, None)

    def forget(self, entry: QueuedGang) -> None:
        self._absences.pop(entry.key, None)
        self.open(entry)
        entry.homes, entry.awaited, entry.departed = {}, (), []


def _is_grouped(group: PodGroup) -> bool:
    """Whether the pod-grouper made it, not the operator or a user."""
    owner = group.metadata.controller
    by_operator = owner is not None and owner.kind == PodGang.KIND
    return KAI_TOP_OWNER_METADATA in group.metadata.annotations and not by_operator


def _successor(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, uid=f"after-{pod.metadata.uid}")
    return msgspec.structs.replace(pod, metadata=metadata)


class Reservations:
    """Works on one session, for one epoch. `moves`: what is reserved for the replacements of moved pods; `returning`:
    what is kept for those that return to their predecessor's place."""

    def __init__(self, session: Session, snapshot: Snapshot, gang_reader: GangReader, epoch: int) -> None:
        self._session = session
        self._snapshot = snapshot
        self._gang_reader = gang_reader
        self._epoch = epoch
        self.moves = MoveReservations(session)
        self.returning = ReturningPods(session, snapshot)

    def reserve(self, entry: QueuedGang, places: Iterable[Placement]) -> None:
        assert entry.reading is not None
        for place in places:
            waiting = _waiting_pod(entry.reading, place)
            pod = self._snapshot.pod(waiting.key)
            if pod is not None and pod.metadata.uid == waiting.uid:
                self._session.cluster.reserve(pod, place.node, place.zone)
                entry.assignments[waiting.uid] = place.node

    def release(self, entry: QueuedGang) -> None:
        """Release the assignments that were not bound; a pod that has its node by now keeps it."""
        for uid in entry.assignments:
            self._session.cluster.release(uid)
        entry.assignments = {}
        self.returning.hold(entry)
        self.unmark_victims(entry)

    def unmark_victims(self, entry: QueuedGang) -> None:
        """The gang needs no victims any more."""
        unmarked = [pod for uid in entry.victims if (pod := self._session.cluster.running_pod(uid)) is not None]
        self._session.cluster.unmark_victims(entry.victims)
        entry.victims = ()
        for group in {group_of(pod) for pod in unmarked}:
            self._reread(group)

    def _reread(self, key: Key) -> None:
        """Read a gang whose pods are no longer victims, so that the next decision counts its capacity and usage."""
        self._gang_reader.reread(key)
        entry = self._session.scheduling_queue.entries.get(key)
        if entry is not None:
            self._session.queue_accounting.charge(entry)
        self._session.requeue_after(key, 0.0)

    def reserve_again(self, entry: QueuedGang, plan: Plan, pods: Mapping[str, Pod]) -> None:
        """Reserve the assignments of a recorded plan that waits, also after a restart."""
        for assignment in plan.assignments:
            self._session.cluster.reserve(pods[assignment.uid], assignment.node, assignment.zone)
            entry.assignments[assignment.uid] = assignment.node

    def reserve_recorded(self, entry: QueuedGang, plan: Plan, pods: Sequence[Pod]) -> None:
        """Reserve the assignments of a recorded plan whose pods have no node yet, whatever becomes of the plan."""
        there = {pod.metadata.uid: pod for pod in pods if _waits(pod)}
        for assignment in plan.assignments:
            if assignment.uid in there:
                self._session.cluster.reserve(there[assignment.uid], assignment.node, assignment.zone)
                entry.assignments[assignment.uid] = assignment.node

    def plan_task(
        self,
        entry: QueuedGang,
        decision: Decision,
        places: Sequence[Placement],
        victims: tuple[str, ...] = (),
        moves: tuple[Move, ...] = (),
    ) -> PlanTask:
        """The plan to record and carry out for a gang that was decided."""
        reading, group = entry.reading, entry.group
        assert reading is not None and group is not None
        assignments = [(_waiting_pod(reading, place), place) for place in places]
        numbers = self._ranks(entry.key, reading, [(pod.uid, place.node) for pod, place in assignments])
        plan = Plan(
            epoch=self._epoch,
            state="wait" if victims or moves else "bind",
            assignments=tuple(
                [
                    Assignment(pod.uid, place.node, numbers[pod.uid], reading.segments.get(pod.uid), place.zone)
                    for pod, place in assignments
                ]
            ),
            domain=next((domain.path for domain in decision.domains if not domain.group), ()),
            score=1.0 if decision.score is None else decision.score,
            victims=victims,
            moves=moves,
        )
        keys = {pod.uid: pod.key for pod, _ in assignments}
        notes = self._notes(entry.key, group, reading, keys)
        return PlanTask(group.metadata, plan, keys, notes=notes, probes=entry.probes, awaited=entry.awaited)

    def resume(
        self,
        entry: QueuedGang,
        group: PodGroup,
        plan: Plan,
        pods: Sequence[Pod],
        *,
        refused: Container[str] = (),
        give_up: bool = False,
    ) -> PlanTask:
        """What is left to do of a recorded plan: assignments to nodes that cannot keep them are given up, or all are.

        `refused`: assignments, by uid, that are not valid for another reason.

        Capacity that is given up stays reserved until the record is gone: a bind by the record's writer may be in
        flight.
        """
        there = {pod.metadata.uid: pod for pod in pods}
        for uid in [uid for uid in entry.assignments if all(uid != assignment.uid for assignment in plan.assignments)]:
            self._session.cluster.release(uid)
            del entry.assignments[uid]
        free = [
            assignment for assignment in plan.assignments if assignment.uid in there and _waits(there[assignment.uid])
        ]
        for assignment in free:
            self._session.cluster.reserve(there[assignment.uid], assignment.node, assignment.zone)
            entry.assignments[assignment.uid] = assignment.node
        bad = {
            assignment.uid
            for assignment in free
            if give_up or assignment.uid in refused or not self._session.cluster.is_sound(assignment.node)
        }
        if bad and not any(
            assignment.uid in there and there[assignment.uid].spec.node_name for assignment in plan.assignments
        ):
            bad = {assignment.uid for assignment in free}
        keys = {uid: _key(pod) for uid, pod in there.items()}
        return PlanTask(group.metadata, plan, keys, frozenset(bad), awaited=entry.awaited)

    def _notes(self, key: Key, group: PodGroup, reading: ParsedGang, coming: Mapping[str, Key]) -> dict[str, str]:
        """The start time and the most members so far; the latter not where the operator of PodGangs ends the gang."""
        notes = {} if reading.gang.running else {KAI_LAST_START_TIMESTAMP: format_time(self._session.clock.now())}
        if not is_owned_by_podgang(group):
            notes[MEMBERS] = members_noted(group, self._snapshot.pods_of(key), coming)
        return notes

    def _ranks(self, key: Key, reading: ParsedGang, assignments: list[tuple[str, str]]) -> dict[str, int]:
        """New pods get ranks that the running members do not have."""
        if not reading.gang.running:
            return ranks(
                self._session.cluster.inventory, first_topology(reading.gang.root), assignments, blocks=reading.blocks
            )
        seated = {uid for uid, _ in assignments}
        remaining = [pod for pod in self._snapshot.pods_of(key) if _holds_rank(pod) and pod.metadata.uid not in seated]
        kept = {pod.metadata.uid: rank for pod in remaining if (rank := read_number(_rank(pod))) is not None}
        known = [(pod.metadata.uid, pod.spec.node_name) for pod in remaining if pod.metadata.uid in kept]
        return ranks(
            self._session.cluster.inventory,
            first_topology(reading.gang.root),
            [*known, *assignments],
            kept,
            blocks=reading.blocks,
        )


def continue_numbering(first: Sequence[Placement], more: Sequence[Placement]) -> list[Placement]:
    """Placements made after others: each pod set goes on with the indices that those left."""
    taken = {(place.pods, place.index) for place in first}
    following = Counter[str]()
    found = []
    for place in more:
        index = next(index for index in count(following[place.pods]) if (place.pods, index) not in taken)
        following[place.pods] = index + 1
        found.append(Placement(place.pods, index, place.node, place.zone))
    return found


def _waiting_pod(reading: ParsedGang, place: Placement) -> WaitingPod:
    return reading.waiting[place.pods][place.index]


def _waits(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.node_name


def _holds_rank(pod: Pod) -> bool:
    """A pod that terminates or failed passes its rank to its replacement; one that succeeded has no replacement."""
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed"


def _key(pod: Pod) -> Key:
    return (pod.metadata.namespace, pod.metadata.name)


def _rank(pod: Pod) -> str:
    return pod.metadata.annotations.get(RANK, "")
