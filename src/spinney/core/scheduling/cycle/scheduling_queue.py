"""The scheduling queue: all known gangs, and what each waits for (a change, its turn, capacity, a running action).

Holds keys and parsed gangs and decides nothing. Each pod of this scheduler belongs to one entry, also one without a
PodGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cycle.snapshot import Key
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.tree import QueueUsage


@dataclass(slots=True, eq=False)
class GangState:
    """One PodGroup with its pods.

    - `assignments`: reserved nodes of pods without a node, by uid.
    - `refused_at`: the value of the cluster's `improved` counter at the last refusal; None: not refused.
    - `charge`: the usage that its queue is charged with; `rank`: its priority at that time.
    - `told`: uids of the pods without a PodGroup that the last report was about.
    - `state`: the state that was last reported.
    - `volumes_since`: since when its plan waits for volumes.
    - `victims`: pods that have to terminate before it can be bound.
    - `decided`: the sequence number of its last decision.
    - `in_flight`: a plan of it is recorded or about to be.
    - `limits`: how much may be moved for it (consolidation).
    - `probes`: binds of it were refused, so the next plan is tried as a dry run first.
    - `failure`: what the API server answered when it last refused a write for it.
    - `foreign`: what was found wrong with a record under another Lease, and when.
    """

    key: Key
    group: PodGroup | None = None
    reading: ParsedGang | None = None
    assignments: dict[str, str] = field(default_factory=dict)
    refused_at: int | None = None
    busy: bool = False
    unsettled: bool = False
    incomplete_since: float | None = None
    failures: int = 0
    not_before: float = 0.0
    base: str = ""
    charge: QueueUsage | None = None
    rank: int = 0
    told: object = None
    state: str = ""
    volumes_since: float | None = None
    victims: tuple[str, ...] = ()
    decided: int = 0
    in_flight: bool = False
    limits: Consolidate | None = None
    probes: bool = False
    failure: str = ""
    foreign: tuple[str, float] | None = None

    @property
    def name(self) -> str:
        return "/".join(self.key)


class SchedulingQueue:
    """The gangs by what happens to them next.

    - `changed`: to be read again.
    - `pending`: has pods to place.
    - `due`: to be decided in the next cycle.
    - `nominated`: has assignments on capacity that terminating pods still hold.
    - `waits`: has a recorded plan that waits for its victims to terminate.
    - `waits_for_volumes`: has a recorded plan that waits for volumes.
    """

    def __init__(self) -> None:
        self.entries: dict[Key, GangState] = {}
        self.changed: dict[Key, None] = {}
        self.pending: dict[Key, None] = {}
        self.due: dict[Key, None] = {}
        self.nominated: dict[Key, None] = {}
        self.waits: dict[Key, None] = {}
        self.waits_for_volumes: dict[Key, None] = {}
        self._tied: dict[str, dict[Key, None]] = {}
        self._highest_refused = -(2**31)  # the highest priority that was ever refused

    def entry(self, key: Key) -> GangState:
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = GangState(key)
        return found

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

    def enqueue(self, entry: GangState) -> None:
        """The gang has pods to place and has changed: decide it in the next cycle."""
        self.pending[entry.key] = None
        self.due[entry.key] = None
        entry.refused_at = None

    def dequeue(self, entry: GangState) -> None:
        """The gang has nothing to place now."""
        for keys in (self.pending, self.due, self.nominated, self.waits):
            keys.pop(entry.key, None)
        entry.refused_at = None

    def refuse(self, entry: GangState, improved: int) -> None:
        """The gang stays pending until capacity may have improved."""
        self.due.pop(entry.key, None)
        entry.refused_at = improved
        if entry.reading is not None:
            self._highest_refused = max(self._highest_refused, entry.reading.gang.priority)

    def retry_refused(self) -> None:
        self.due.update(self.pending)

    def outranks(self, since: int, priority: int) -> bool:
        """Whether a gang of higher priority was refused after decision number `since`."""
        if priority >= self._highest_refused:
            return False
        refused = (self.entries[key] for key in self.pending)
        return any(
            each.decided > since and each.reading is not None and each.reading.gang.priority > priority
            for each in refused
        )

    def retry_pending(self) -> None:
        """Something other than capacity changed for all gangs that wait."""
        self.changed.update(self.waits_for_volumes)
        for key in self.pending:
            self.entries[key].refused_at = None
            self.touch(key)

    def set_base(self, entry: GangState, base: str) -> None:
        """Tie the entry to its base gang, by name; empty: to none."""
        if entry.base == base:
            return
        if entry.base:
            self._tied[entry.base].pop(entry.key, None)
        if base:
            self._tied.setdefault(base, {})[entry.key] = None
        entry.base = base

    def requeue_tied(self, name: str) -> None:
        """The members of a gang changed: decide the pending gangs that are tied to it again."""
        for key in self._tied.get(name, ()):
            if key in self.pending:
                self.due[key] = None

    def requeue_base(self, entry: GangState) -> None:
        """The members of a scaled gang changed: decide its base gang again, if that is pending."""
        namespace, _, name = entry.base.partition("/")
        if (namespace, name) in self.pending:
            self.due[namespace, name] = None

    def reserved(self, name: str) -> Iterable[str]:
        """The uids of a gang's pods that have an assignment."""
        namespace, _, short = name.partition("/")
        entry = self.entries.get((namespace, short))
        return entry.assignments if entry is not None else ()

    def scaled_gangs(self, name: str) -> list[GangState]:
        """The gangs that are tied to this one, sorted by name."""
        return [self.entries[key] for key in sorted(self._tied.get(name, ()))]

    def states(self) -> Counter[str]:
        """The number of pending gangs by the state that was last reported."""
        return Counter(entry.state or "Undecided" for entry in map(self.entries.__getitem__, self.pending))

    def forget(self, entry: GangState) -> None:
        self.dequeue(entry)
        self.set_base(entry, "")
        self.entries.pop(entry.key, None)
