"""One gang's plan from its record to its end: recorded, bound, and the record dropped.

Nothing is done that is not recorded. Wherever it is interrupted, whoever finds the record goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from spinney.api.builtin.pod import Pod
from spinney.api.labels import PLAN
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan, encode
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.texts import failed_record
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import NotNow, Outcome, Refused, Unknown, Written
from spinney.drive.client.errors import words
from spinney.drive.client.identity import version_number
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.binding import Binder, Fate
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.evicting import Answer, Evictor, Target
from spinney.drive.loop.scheduler.preparing import Prepared, Preparer
from spinney.drive.loop.scheduler.recording import drop, mark, record
from spinney.drive.loop.scheduler.records import Records
from spinney.drive.loop.scheduler.releasing import Touched, touch_all
from spinney.drive.loop.scheduler.turns import StepBack, at_once
from spinney.drive.loop.scheduler.views import Views


class Ending(Enum):
    """How a piece of work on a gang ended."""

    DONE = "done"  # everything is as the record says, and the record is gone
    LOOK = "look"  # somebody else was quicker, or it is not known who: look again
    LATER = "later"  # it could not be done now
    AWAITS = "awaits"  # volumes are being made for it
    FAILED = "failed"  # the API server refused a bind or an eviction: it is tried again, but not soon
    REFUSED = "refused"  # the server will not have it


@dataclass(frozen=True, slots=True)
class Carried:
    """`bound`: uids of pods that have a node. `failures`: what the API server did not take."""

    ending: Ending
    bound: frozenset[str] = frozenset()
    failures: tuple[WriteFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Errand:
    """A plan to carry out: `keys` are its pods that are there, by uid; `given_up` are seats nobody may take.

    `notes`: annotations that are written with the record and stay. `probes`: its binds were refused before, so that
    they are tried without effect before anything is recorded or anybody has to leave for it.
    """

    group: ObjectMeta
    plan: Plan
    keys: Mapping[str, Key]
    given_up: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)
    probes: bool = False


class Carrier:
    """Carries plans out."""

    def __init__(
        self,
        door: Door,
        doubts: Doubts,
        views: Views,
        preparer: Preparer,
        binder: Binder,
        evictor: Evictor,
        records: Records,
    ) -> None:
        self._door = door
        self._records = records
        self._doubts = doubts
        self._views = views
        self._preparer = preparer
        self._binder = binder
        self._evictor = evictor

    async def begin(self, errand: Errand, step_back: StepBack = at_once) -> Carried:
        """A plan that was just made: record it, then act. `step_back` is awaited before the record is dropped."""
        refused = await self._probe(errand)
        if refused:
            return Carried(Ending.FAILED, failures=refused)
        outcome = await record(self._door, errand.group, errand.plan, errand.notes, self._records)
        if isinstance(outcome, Written):
            return await self._act(errand, outcome.version, step_back)
        return await self._ended(outcome, errand.group)

    async def _probe(self, errand: Errand) -> tuple[WriteFailure, ...]:
        """What the API server would still refuse; nothing is written and nobody leaves for a gang that it refuses."""
        return await self._binder.probe(errand.plan, errand.keys) if errand.probes else ()

    async def mark(self, group: ObjectMeta, name: str, value: str) -> Ending:
        """An annotation on a PodGroup."""
        return (await self._ended(await mark(self._door, group, name, value), group)).ending

    async def nominate(self, errand: Errand, targets: Sequence[Target]) -> Carried:
        """A plan that was just made and has to wait: record it, then ask others to leave."""
        refused = await self._probe(errand)
        if refused:
            return Carried(Ending.FAILED, failures=refused)
        outcome = await record(self._door, errand.group, errand.plan, errand.notes, self._records)
        if isinstance(outcome, Written):
            return await self._pursue(errand, targets, outcome.version)
        return await self._ended(outcome, errand.group)

    async def pursue(self, errand: Errand, targets: Sequence[Target]) -> Carried:
        """A plan that was found waiting for others who have not been asked yet."""
        return await self._pursue(errand, targets, errand.group.resource_version)

    async def _pursue(self, errand: Errand, targets: Sequence[Target], version: str) -> Carried:
        """The record stays while they leave; if one of them may not go, it is given up at once."""
        found = await self._evictor.evict_all(targets)
        if found.answer is Answer.NO:
            free = frozenset(seat.uid for seat in errand.plan.seats)
            await self._act(replace(errand, given_up=free), version)
        if found.failures:
            return Carried(Ending.FAILED, failures=found.failures)
        return Carried(Ending.DONE if found.answer is Answer.GOING else Ending.LATER)

    async def resume(self, errand: Errand) -> Carried:
        """A plan that was found on its PodGroup."""
        return await self._act(errand, errand.group.resource_version)

    async def discard(self, group: ObjectMeta, pods: Sequence[Pod]) -> Carried:
        """A record that is not a plan: nothing of it is done. `pods` are those that its writer may be about to bind."""
        touched = await touch_all(self._door, pods, group.resource_version, {})
        if not touched.done:
            await self._doubts.settle()
            return Carried(Ending.LATER, failures=touched.failures)
        return await self._ended(await drop(self._door, group, group.resource_version, self._records), group)

    async def _act(self, errand: Errand, version: str, step_back: StepBack = at_once) -> Carried:
        if self._is_hollow(errand):
            errand = replace(errand, given_up=frozenset(seat.uid for seat in errand.plan.seats))
        prepared = await self._prepare(errand)
        if prepared.failed or not (prepared.ready or prepared.lost):
            return Carried(Ending.LATER if prepared.failed else Ending.AWAITS)
        errand = replace(errand, given_up=errand.given_up | prepared.lost)
        keys = {uid: key for uid, key in errand.keys.items() if uid not in errand.given_up}
        tried = await self._binder.bind_all(errand.plan, keys)
        fates, failures = tried.fates, tried.failures
        bound = frozenset(uid for uid, fate in fates.items() if fate is Fate.TAKEN)
        refused = {uid for uid, fate in fates.items() if fate is Fate.REFUSED} | errand.given_up
        if Fate.OPEN in fates.values():
            return Carried(Ending.LATER, bound, failures)
        touched = await self._give_up(errand, self._left(errand, refused), version)
        if not touched.done:
            return Carried(Ending.LATER, bound, failures + touched.failures)
        await step_back()
        newest = self._newest(errand.group, version, errand.plan)
        has_moved = bool(errand.plan.moves)
        outcome = await drop(self._door, errand.group, newest, self._records, has_moved=has_moved)
        ended = await self._ended(outcome, errand.group)
        ending = Ending.FAILED if failures and ended.ending is Ending.DONE else ended.ending
        return Carried(ending, bound, failures + ended.failures)

    async def _prepare(self, errand: Errand) -> Prepared:
        """Volumes first. Where nobody has a node yet, all give up if one has to."""
        pods = [pod for uid in errand.keys if (pod := self._seen(errand, uid)) is not None]
        free = [pod for pod in pods if not pod.spec.node_name and pod.metadata.uid not in errand.given_up]
        prepared = await self._preparer.prepare(errand.plan, free)
        seats = frozenset(seat.uid for seat in errand.plan.seats)
        if prepared.lost and not any(pod.spec.node_name for pod in pods if pod.metadata.uid in seats):
            return replace(prepared, lost=seats)
        return prepared

    async def _give_up(self, errand: Errand, pods: Sequence[Pod], version: str) -> Touched:
        """Done: nobody has a hand on the pods any more. If not, what became of our writes is known at least."""
        touched = Touched(False)
        if await self._preparer.undo(errand.plan, pods):
            touched = await touch_all(self._door, pods, version, {seat.uid: seat.node for seat in errand.plan.seats})
        if not touched.done:
            await self._doubts.settle()
        return touched

    def _seen(self, errand: Errand, uid: str) -> Pod | None:
        pod = self._views.pods.get(errand.keys[uid])
        return pod if pod is not None and pod.metadata.uid == uid else None

    def _is_hollow(self, errand: Errand) -> bool:
        """Somebody has left before anybody had a node: the rest may be too few to begin."""
        pods = [self._views.pods.get(errand.keys[seat.uid]) for seat in errand.plan.seats if seat.uid in errand.keys]
        uids = {seat.uid for seat in errand.plan.seats}
        there = [pod for pod in pods if pod is not None and pod.metadata.uid in uids and pod.is_here]
        return len(there) < len(uids) and not any(pod.spec.node_name for pod in there)

    def _left(self, errand: Errand, uids: set[str] | frozenset[str]) -> list[Pod]:
        """The pods that do not get the seats they had."""
        found = [self._views.pods.get(errand.keys[uid]) for uid in sorted(uids) if uid in errand.keys]
        return [pod for pod in found if pod is not None and pod.metadata.uid in uids and not pod.spec.node_name]

    def _newest(self, group: ObjectMeta, version: str, plan: Plan) -> str:
        """The version to take the record from: ours, or a later one that has the same record."""
        seen = self._views.podgroups.get((group.namespace, group.name))
        if seen is None or seen.metadata.uid != group.uid:
            return version
        newest = max(version, seen.metadata.resource_version, key=version_number)
        return newest if newest == version or seen.metadata.annotations.get(PLAN) == encode(plan) else version

    async def _ended(self, outcome: Outcome, group: ObjectMeta) -> Carried:
        match outcome:
            case Written():
                return Carried(Ending.DONE)
            case Unknown():
                await self._doubts.settle()
                return Carried(Ending.LOOK)
            case NotNow():
                return Carried(Ending.LATER)
            case Refused(status):
                event = failed_record((group.namespace, group.name), words(status))
                return Carried(Ending.REFUSED, failures=(WriteFailure("record", event, status.code),))
            case _:
                return Carried(Ending.LOOK)
