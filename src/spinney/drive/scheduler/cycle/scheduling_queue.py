"""The gangs there are, and what each of them is waiting for: a change, a turn, more room, or work being done for it.

Holds keys and readings, decides nothing. Every pod of ours belongs to one entry, also a pod without a PodGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.tree import QueueUsage
from spinney.drive.client.paths import Key


@dataclass(slots=True, eq=False)
class GangState:
    """One PodGroup with its pods.

    `assignments`: reservations of pods without a node, by uid. `nominated`: they wait for room that others are leaving.
    `refused_at`: there was no room when the cluster had improved so often; None: not refused. `charge`: what its queue
    is charged for it; `rank`: its priority then. `told`: pods without a group that know of it. `state`: how it stood
    when it was last told. `volumes_since`: volumes are being made for its plan. `victims`: pods that have to go before
    it gets its seats. `decided`: the number of its last decision. `in_flight`: a plan of it is recorded or about to be.
    `limits`: how much may be moved for it. `probes`: binds of it were refused. `failure`: what the API server said when
    it last refused a write for it. `foreign`: what was found wrong with a record under another Lease, and when.
    """

    key: Key
    group: PodGroup | None = None
    reading: ParsedGang | None = None
    assignments: dict[str, str] = field(default_factory=dict)
    nominated: bool = False
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
    """`changed`: to be read again. `pending`: has pods to place. `due`: to be decided in the next cycle.

    `waits`: has a recorded plan that waits for others to leave. `waits_for_volumes`: has one that waits for volumes.
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
        """While nobody reads what changed: what is not there any more need not be read."""
        self.changed = {key: None for key in self.changed if key in self.entries or is_there(key)}

    def touch_all(self) -> None:
        self.changed.update(dict.fromkeys(self.entries))

    def touch_unsettled(self) -> None:
        """Those that could not be read because an own write had not been seen."""
        self.changed.update({key: None for key, entry in self.entries.items() if entry.unsettled})

    def pop_changed(self) -> list[Key]:
        """The keys to read, those being worked on left out: they come again when the work is done."""
        keys = sorted(self.changed)
        self.changed = {}
        return keys

    def enqueue(self, entry: GangState) -> None:
        """It has pods to place, and something about it is new."""
        self.pending[entry.key] = None
        self.due[entry.key] = None
        entry.refused_at = None

    def dequeue(self, entry: GangState) -> None:
        """Nothing of it is to be placed now."""
        for keys in (self.pending, self.due, self.nominated, self.waits):
            keys.pop(entry.key, None)
        entry.refused_at = None
        entry.nominated = False

    def refuse(self, entry: GangState, improved: int) -> None:
        """It stays pending until there may be more room."""
        self.due.pop(entry.key, None)
        entry.refused_at = improved
        if entry.reading is not None:
            self._highest_refused = max(self._highest_refused, entry.reading.gang.priority)

    def retry_refused(self) -> None:
        self.due.update(self.pending)

    def outranks(self, since: int, priority: int) -> bool:
        """Whether somebody more important was refused after that decision."""
        if priority >= self._highest_refused:
            return False
        refused = (self.entries[key] for key in self.pending)
        return any(
            each.decided > since and each.reading is not None and each.reading.gang.priority > priority
            for each in refused
        )

    def retry_pending(self) -> None:
        """Something other than room changed for everybody who waits."""
        self.changed.update(self.waits_for_volumes)
        for key in self.pending:
            self.entries[key].refused_at = None
            self.touch(key)

    def set_base(self, entry: GangState, base: str) -> None:
        """The entry follows another gang, by name; empty: nobody."""
        if entry.base == base:
            return
        if entry.base:
            self._tied[entry.base].pop(entry.key, None)
        if base:
            self._tied.setdefault(base, {})[entry.key] = None
        entry.base = base

    def requeue_tied(self, name: str) -> None:
        """Members of a gang stand elsewhere: those tied to it may be decided differently now."""
        for key in self._tied.get(name, ()):
            if key in self.pending:
                self.due[key] = None

    def requeue_base(self, entry: GangState) -> None:
        """Members of a gang that follows another one stand elsewhere: that one may be decided differently now."""
        namespace, _, name = entry.base.partition("/")
        if (namespace, name) in self.pending:
            self.due[namespace, name] = None

    def reserved(self, name: str) -> Iterable[str]:
        """The pods of a gang, by its name, that have been given a node."""
        namespace, _, short = name.partition("/")
        entry = self.entries.get((namespace, short))
        return entry.assignments if entry is not None else ()

    def scaled_gangs(self, name: str) -> list[GangState]:
        """Those tied to a gang, in the order of their names."""
        return [self.entries[key] for key in sorted(self._tied.get(name, ()))]

    def states(self) -> Counter[str]:
        """How many gangs wait, by how it stood with them when they were last told."""
        return Counter(entry.state or "Undecided" for entry in map(self.entries.__getitem__, self.pending))

    def forget(self, entry: GangState) -> None:
        self.dequeue(entry)
        self.set_base(entry, "")
        self.entries.pop(entry.key, None)
