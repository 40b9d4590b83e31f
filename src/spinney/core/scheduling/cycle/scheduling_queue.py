"""The scheduling queue: all known gangs, and the state of each: what happens to it next.

The state of a gang is one value, and `step` is the only place that says what follows from what; a pair of state and
event that cannot be raises. Holds keys and parsed gangs and decides nothing. Each pod of this scheduler belongs to one
entry, also one without a PodGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cycle.snapshot import Key
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.gang.predecessors import Place
from spinney.core.scheduling.queues.tree import QueueUsage, Shares

# States


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to place now: all pods have their node, or the gang is incomplete, mistaken or not known yet."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Has pods to place and is not decided in the next cycle.

    `refused_at`: the value of the cluster's `improved` counter at the last refusal; None: it is decided again as soon
    as it is read.
    """

    refused_at: int | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """Has pods to place and is decided in the next cycle. `refused_at`: as for `Pending`."""

    refused_at: int | None = None


@dataclass(frozen=True, slots=True)
class Nominated:
    """Has assignments on capacity that terminating pods still hold; nothing is recorded.

    `due`: it gives them up and is decided again with all that are due.
    """

    refused_at: int | None = None
    due: bool = False


@dataclass(frozen=True, slots=True)
class InFlight:
    """A plan of it is recorded or about to be."""


@dataclass(frozen=True, slots=True)
class WaitingForVictims:
    """Its recorded plan waits for its victims to terminate."""


@dataclass(frozen=True, slots=True)
class WaitingForVolumes:
    """Its recorded plan waits for volumes, since this time."""

    since_s: float


GangState = Idle | Pending | Due | Nominated | InFlight | WaitingForVictims | WaitingForVolumes

# Events


@dataclass(frozen=True, slots=True)
class Ready:
    """It was read, has pods to place, and has changed since it was last decided."""


@dataclass(frozen=True, slots=True)
class NothingToPlace:
    """It was read and has nothing to place; what is recorded stays."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The caches do not show our own last writes to it: it is not decided before they do."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It was decided and fits nowhere, at this value of the cluster's `improved` counter."""

    improved: int


@dataclass(frozen=True, slots=True)
class NominatedTo:
    """It was decided, and gets capacity that terminating pods still hold."""

    improved: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Capacity may have become free for it."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The assignments of a nominated gang were given up: it competes again with all that are due."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Something other than capacity changed: the last refusal no longer counts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """It was decided, and its plan is about to be recorded."""


@dataclass(frozen=True, slots=True)
class PlanFound:
    """A plan is recorded on its PodGroup."""


@dataclass(frozen=True, slots=True)
class VictimsAwaited:
    """The recorded plan cannot go on before its victims are gone."""


@dataclass(frozen=True, slots=True)
class VolumesAwaited:
    """The action ended because volumes are being provisioned, at this time."""

    now_s: float


@dataclass(frozen=True, slots=True)
class ActionEnded:
    """The action ended otherwise."""


@dataclass(frozen=True, slots=True)
class PlanEnded:
    """No plan is recorded any more."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Its PodGroup does not exist (any more), or belongs to another node pool."""


GangEvent = (
    Ready
    | NothingToPlace
    | Unsettled
    | Refused
    | NominatedTo
    | Retry
    | GivenUp
    | Changed
    | Planned
    | PlanFound
    | VictimsAwaited
    | VolumesAwaited
    | ActionEnded
    | PlanEnded
    | Gone
)


class UnexpectedEvent(AssertionError):
    """An event that cannot occur in a state: our own fault."""


def step(state: GangState, event: GangEvent) -> GangState:
    """The state that follows. Raises `UnexpectedEvent` where the event cannot occur."""
    match event:
        case Gone():
            return Idle()
        case Retry() | Unsettled() | Changed() | GivenUp():
            return _waiting_on(state, event)
        case Ready() | Refused() | NominatedTo() | Planned():
            return _decided(state, event)
        case NothingToPlace():
            return _without_pods(state)
        case PlanFound() | VictimsAwaited() | VolumesAwaited() | ActionEnded() | PlanEnded():
            return _with_plan(state, event)


def _waiting_on(state: GangState, event: Retry | Unsettled | Changed | GivenUp) -> GangState:
    """Events for all gangs that wait for their turn; others are not concerned."""
    match event, state:
        case Retry(), Pending(refused_at):
            return Due(refused_at)
        case Retry(), Nominated(refused_at):
            return Nominated(refused_at, due=True)
        case Unsettled(), Due(refused_at):
            return Pending(refused_at)
        case Unsettled(), Nominated(refused_at):
            return Nominated(refused_at)
        case Changed(), Pending():
            return Pending()
        case Changed(), Due():
            return Due()
        case Changed(), Nominated(_, due):
            return Nominated(None, due)
        case GivenUp(), Nominated(refused_at):
            return Due(refused_at)
        case GivenUp(), _:
            raise UnexpectedEvent(f"{event} in {state}")
        case _:
            return state


def _decided(state: GangState, event: Ready | Refused | NominatedTo | Planned) -> GangState:
    match event, state:
        case Ready(), Idle() | Pending() | Due() | Nominated():
            return Due()
        case Refused(improved), Due():
            return Pending(improved)
        case NominatedTo(improved), Due():
            return Nominated(improved)
        case Planned(), Due():
            return InFlight()
        case _:
            raise UnexpectedEvent(f"{event} in {state}")


def _without_pods(state: GangState) -> GangState:
    match state:
        case Idle() | Pending() | Due() | Nominated():
            return Idle()
        case InFlight() | WaitingForVictims():
            return InFlight()
        case WaitingForVolumes():
            return state


def _with_plan(
    state: GangState, event: PlanFound | VictimsAwaited | VolumesAwaited | ActionEnded | PlanEnded
) -> GangState:
    match event, state:
        case PlanFound(), WaitingForVolumes():
            return state  # how long it waits counts from the first time
        case PlanFound(), _:
            return InFlight()
        case VictimsAwaited(), InFlight() | WaitingForVolumes():
            return WaitingForVictims()
        case VolumesAwaited(now_s), InFlight():
            return WaitingForVolumes(now_s)
        case VolumesAwaited(), WaitingForVolumes():
            return state
        case VictimsAwaited() | VolumesAwaited(), _:
            raise UnexpectedEvent(f"{event} in {state}")
        case ActionEnded(), WaitingForVolumes():
            return InFlight()
        case PlanEnded(), InFlight() | WaitingForVictims() | WaitingForVolumes():
            return Idle()
        case _:
            return state


@dataclass(slots=True, eq=False)
class QueuedGang:
    """One PodGroup with its pods.

    - `state`: what happens to it next; only the scheduling queue changes it.
    - `busy`: an action of it is being carried out; it is not read meanwhile.
    - `unsettled`: the caches do not show our own last writes to it.
    - `failures`, `not_before`: actions that failed one after the other, and when the next one may begin (backoff).
    - `assignments`: reserved nodes of pods without a node, by uid.
    - `charge`: the usage that its queue is charged with; `rank`: its priority at that time.
    - `asks`: the queue that asks for what it waits for, and what; `demanded`: what its minimum needs, as parsed;
      `wanted`: that, or its next pod beyond the minimum.
    - `told`: uids of the pods without a PodGroup that the last report was about.
    - `reported`: the state that was last reported.
    - `victims`: pods that have to terminate before it can be bound.
    - `decided`: the sequence number of its last decision.
    - `limits`: how much may be moved for it (consolidation); `is_asked`: somebody asks for it.
    - `moves_from_s`: from when moves may be looked for again; `grows_from_s`: the same for whoever may be disturbed for
      pods beyond its minimum. `back_s`: when it is decided again because it was too early for one of them.
    - `probes`: binds of it were refused, so the next plan is tried as a dry run first.
    - `failure`: what the API server answered when it last refused a write for it.
    - `foreign`: what was found wrong with a record under another Lease, and when.
    - `homes`: the nodes of the predecessors of its pods without a node, by uid; `awaited`: the places that its pods
      left and are expected back at; `departed`: pods that ended since it was last read.
    """

    key: Key
    state: GangState = Idle()
    group: PodGroup | None = None
    reading: ParsedGang | None = None
    assignments: dict[str, str] = field(default_factory=dict)
    busy: bool = False
    unsettled: bool = False
    incomplete_since: float | None = None
    failures: int = 0
    not_before: float = 0.0
    base: str = ""
    charge: QueueUsage | None = None
    rank: int = 0
    asks: tuple[str, Shares] | None = None
    demanded: tuple[ParsedGang, Shares] | None = None
    wanted: tuple[ParsedGang, Shares] | None = None
    reported_ungrouped: object = None
    reported: str = ""
    victims: tuple[str, ...] = ()
    decided: int = 0
    limits: Consolidate | None = None
    is_asked: bool = False
    moves_from_s: float = 0.0
    grows_from_s: float = 0.0
    back_s: float | None = None
    probes: bool = False
    failure: str = ""
    foreign: tuple[str, float] | None = None
    homes: Mapping[str, str] = field(default_factory=dict)
    awaited: tuple[Place, ...] = ()
    departed: list[Pod] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def in_flight(self) -> bool:
        """Whether a plan of it is recorded or about to be."""
        return isinstance(self.state, (InFlight, WaitingForVictims, WaitingForVolumes))

    @property
    def refused_at(self) -> int | None:
        """The value of the cluster's `improved` counter at the last refusal that still counts."""
        return self.state.refused_at if isinstance(self.state, (Pending, Due, Nominated)) else None

    @property
    def can_be_retried(self) -> bool:
        """Whether it was refused and is not due yet."""
        return isinstance(self.state, Pending) and self.state.refused_at is not None and self.reading is not None

    @property
    def volumes_since(self) -> float | None:
        return self.state.since_s if isinstance(self.state, WaitingForVolumes) else None


class SchedulingQueue:
    """The gangs with their states; by state, they are found without a search.

    - `changed`: to be read again.
    - `pending`: have pods to place and no plan.
    - `due`: of these, to be decided in the next cycle.
    - `nominated`, `waits`, `waits_for_volumes`: in the state of that name.
    """

    def __init__(self) -> None:
        self.entries: dict[Key, QueuedGang] = {}
        self.changed: dict[Key, None] = {}
        self.pending: dict[Key, None] = {}
        self.due: dict[Key, None] = {}
        self.nominated: dict[Key, None] = {}
        self.waits: dict[Key, None] = {}
        self.waits_for_volumes: dict[Key, None] = {}
        self._tied: dict[str, dict[Key, None]] = {}
        self._highest_refused = -(2**31)  # the highest priority that was ever refused

    def entry(self, key: Key) -> QueuedGang:
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = QueuedGang(key)
        return found

    def apply(self, entry: QueuedGang, event: GangEvent) -> None:
        """Change the state of a gang."""
        before, after = entry.state, step(entry.state, event)
        if after == before:
            return
        entry.state = after
        for keys in self._holding(before):
            keys.pop(entry.key, None)
        for keys in self._holding(after):
            keys[entry.key] = None
        if isinstance(event, Refused | NominatedTo) and entry.reading is not None:
            self._highest_refused = max(self._highest_refused, entry.reading.gang.priority)

    def _holding(self, state: GangState) -> tuple[dict[Key, None], ...]:
        match state:
            case Idle() | InFlight():
                return ()
            case Pending():
                return (self.pending,)
            case Due():
                return self.pending, self.due
            case Nominated(_, due):
                return (self.pending, self.nominated, self.due) if due else (self.pending, self.nominated)
            case WaitingForVictims():
                return (self.waits,)
            case WaitingForVolumes():
                return (self.waits_for_volumes,)

    # Reading

    def touch(self, key: Key) -> None:
        self.changed[key] = None

    def forget_gone(self, is_there: Callable[[Key], bool]) -> None:
        """Drop changed keys that no longer exist; used while nothing reads them."""
        self.changed = {key: None for key in self.changed if key in self.entries or is_there(key)}

    def touch_all(self) -> None:
        self.changed.update(dict.fromkeys(self.entries))

    def touch_unsettled(self) -> None:
        """Read the gangs again that could not be read because an own write was not yet in the caches."""
        self.changed.update({key: None for key, entry in self.entries.items() if entry.unsettled})

    def pop_changed(self) -> list[Key]:
        """The sorted keys to read; a gang with a running action is touched again when the action ends."""
        keys = sorted(self.changed)
        self.changed = {}
        return keys

    # Events for several gangs

    def retry_refused(self) -> None:
        for key in list(self.pending):
            self.apply(self.entries[key], Retry())

    def retry_pending(self) -> None:
        """Something other than capacity changed for all gangs that wait."""
        self.changed.update(self.waits_for_volumes)
        for key in list(self.pending):
            self.apply(self.entries[key], Changed())
            self.touch(key)

    def requeue_tied(self, name: str) -> None:
        """The members of a gang changed: decide the pending gangs that are tied to it again."""
        for key in self._tied.get(name, ()):
            self.apply(self.entries[key], Retry())

    def requeue_base(self, entry: QueuedGang) -> None:
        """The members of a scaled gang changed: decide its base gang again, if that is pending."""
        base = self.base_of(entry)
        if base is not None:
            self.apply(base, Retry())

    # Queries

    def outranks(self, since: int, priority: int) -> bool:
        """Whether a gang of higher priority was refused after decision number `since`."""
        if priority >= self._highest_refused:
            return False
        refused = (self.entries[key] for key in self.pending)
        return any(
            each.decided > since and each.reading is not None and each.reading.gang.priority > priority
            for each in refused
        )

    def reserved(self, name: str) -> Iterable[str]:
        """The uids of a gang's pods that have an assignment."""
        namespace, _, short = name.partition("/")
        entry = self.entries.get((namespace, short))
        return entry.assignments if entry is not None else ()

    def states(self) -> Counter[str]:
        """The number of pending gangs by the state that was last reported."""
        return Counter(entry.reported or "Undecided" for entry in map(self.entries.__getitem__, self.pending))

    def oldest_pending(self) -> str:
        """When the oldest pending gang was created, of those without a bound pod; empty: there is none."""
        waiting = [
            entry.group.metadata.creation_timestamp
            for entry in map(self.entries.__getitem__, self.pending)
            if entry.group is not None and not (entry.reading is not None and entry.reading.gang.running)
        ]
        return min(filter(None, waiting), default="")

    # Ties

    def set_base(self, entry: QueuedGang, base: str) -> None:
        """Tie the entry to its base gang, by name; empty: to none."""
        if entry.base == base:
            return
        if entry.base:
            self._tied[entry.base].pop(entry.key, None)
        if base:
            self._tied.setdefault(base, {})[entry.key] = None
        entry.base = base

    def base_of(self, entry: QueuedGang) -> QueuedGang | None:
        namespace, _, name = entry.base.partition("/")
        return self.entries.get((namespace, name))

    def scaled_gangs(self, name: str) -> list[QueuedGang]:
        """The gangs that are tied to this one, sorted by name."""
        return [self.entries[key] for key in sorted(self._tied.get(name, ()))]

    def forget(self, entry: QueuedGang) -> None:
        self.apply(entry, Gone())
        self.set_base(entry, "")
        self.entries.pop(entry.key, None)
