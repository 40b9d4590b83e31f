"""A replay: arrivals and departures in the order of simulated time, each followed by the waiting gangs that can start.

Gangs wait by priority, then by arrival. Those of one shape wait behind each other: when the first of them does not fit,
none of them does, so no more than one of each is ever tried. A refusal holds until there is more room.

With queues each gang waits in its own, queues take turns by their fair shares, and a gang that fits nowhere may take
from queues above theirs. Who is reclaimed waits again, and then runs for the rest of its time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from spinney.api.kinds.queue import Queue
from spinney.api.placement.problem import Gang, Group
from spinney.api.placement.result import Move
from spinney.core.scheduling.queues.tree import WaitingGang
from spinney.sim.replay.cluster import CLUSTER, DescribedCluster
from spinney.sim.replay.gang_shapes import GangShapes, default_rules, read_rules
from spinney.sim.replay.measurements import Capacity, Gauge, Moment, capacity_of
from spinney.sim.replay.occupancy import Occupancy, PlacedGang, Setting
from spinney.sim.replay.queues import ReplayQueues, refuse_unknown_queues
from spinney.sim.replay.trace import InputError, Schedule, Trace, schedule

Place = tuple[int, int]
"""In the line: less priority is later, then whoever came later."""


Shape = tuple[str, Group]
"""Gangs that only one of has to be asked for: of one queue, and alike."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang in the line; `number` counts arrivals. `queue`: empty where there are no queues."""

    number: int
    came_s: int
    gang: Gang
    queue: str = ""

    @property
    def shape(self) -> Shape:
        return self.queue, self.gang.root

    @property
    def place(self) -> Place:
        return -self.gang.priority, self.number


class _ByPlace:
    """Shapes by the place of their first gang."""

    def __init__(self, firsts: Iterable[Waiting]) -> None:
        self._heap = [(one.place, one) for one in firsts]
        heapify(self._heap)

    def add(self, one: Waiting) -> None:
        heappush(self._heap, (one.place, one))

    def pop(self) -> Waiting | None:
        return heappop(self._heap)[1] if self._heap else None


class _ByShare:
    """Shapes by the order of their queues."""

    def __init__(self, firsts: Iterable[Waiting], queues: ReplayQueues) -> None:
        self._queues = queues
        self._firsts = {one.number: one for one in firsts}
        self._order = queues.order([self._waiting_gang(one) for one in self._firsts.values()])

    def add(self, one: Waiting) -> None:
        self._firsts[one.number] = one
        self._order.add(self._waiting_gang(one))

    def pop(self) -> Waiting | None:
        number = self._order.pop()
        return None if number is None else self._firsts[number]

    def _waiting_gang(self, one: Waiting) -> WaitingGang[int]:
        return self._queues.waiting_gang(one.number, one.queue, one.gang)


class WaitingQueue:
    """`fifo`: only whoever is first is asked for; else everybody in turn. `queues`: None: there is one line."""

    def __init__(self, fifo: bool = False, queues: ReplayQueues | None = None) -> None:
        self._fifo = fifo
        self._queues = queues
        self._shapes: dict[Shape, list[tuple[Place, Waiting]]] = {}
        self._refused: set[Shape] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, one: Waiting) -> None:
        heappush(self._shapes.setdefault(one.shape, []), (one.place, one))
        self._count += 1

    def hope(self) -> None:
        """There may be more room than before."""
        self._refused.clear()

    def advance(self, start: Callable[[Waiting], bool]) -> None:
        """Ask for everybody who may fit, in order; those that are started leave the line."""
        firsts = [queue[0][1] for shape, queue in self._shapes.items() if self._is_asked(shape)]
        turns = _ByPlace(firsts) if self._queues is None else _ByShare(firsts, self._queues)
        while (one := turns.pop()) is not None:
            shape = one.shape
            if shape in self._refused:
                break
            if not start(one):
                self._refused.add(shape)
                if self._fifo:
                    break
                continue
            queue = self._shapes[shape]
            if queue[0][1] is one:
                heappop(queue)
            else:  # a gang that was reclaimed for it meanwhile is older
                queue.remove((one.place, one))
                heapify(queue)
            self._count -= 1
            if queue:
                turns.add(queue[0][1])
            else:
                del self._shapes[shape]

    def _is_asked(self, shape: Shape) -> bool:
        """A line in which nobody overtakes has one first, who may have been refused."""
        return self._fifo or shape not in self._refused


Progress = Callable[[int], None]
"""Told how many gangs have come or gone since it was told last."""


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """How often moves are looked for, in simulated time, and what a moved gang loses of it."""

    every_s: int = 43_200
    costs_s: int = 300


DEFAULT_MOVE_SETTINGS = MoveSettings()


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """Everything that all settings share."""

    described: DescribedCluster
    capacity: Capacity
    shaping: GangShapes
    schedule: Schedule
    moving: MoveSettings = DEFAULT_MOVE_SETTINGS
    queues: tuple[Queue, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A gang runs from now on, one pod on each of these nodes; `level` is the narrowest that holds all of them."""

    at_s: int
    gang: str
    came_s: int
    nodes: tuple[str, ...]
    level: str

    @property
    def waited_s(self) -> int:
        return self.at_s - self.came_s


@dataclass(frozen=True, slots=True)
class Moved:
    """One pod of a gang runs elsewhere from now on."""

    at_s: int
    gang: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A gang lost its place to one of another queue, and waits again."""

    at_s: int
    gang: str
    queue: str
    by: str


@dataclass(frozen=True, slots=True)
class Left:
    """A gang is done."""

    at_s: int
    gang: str


LogEntry = Started | Moved | Reclaimed | Left


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting made of a schedule; `impossible` gangs do not even fit an empty cluster, each with the reason."""

    setting: Setting
    log: tuple[LogEntry, ...]
    impossible: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    ended_s: int

    @property
    def starts(self) -> list[Started]:
        """The first one of each gang."""
        found: dict[str, Started] = {}
        for entry in self.log:
            if isinstance(entry, Started):
                found.setdefault(entry.gang, entry)
        return list(found.values())

    @property
    def reclaims(self) -> list[Reclaimed]:
        return [entry for entry in self.log if isinstance(entry, Reclaimed)]

    @property
    def moves(self) -> int:
        return sum(isinstance(entry, Moved) for entry in self.log)


def replay(inputs: ReplayInputs, setting: Setting, progress: Progress = lambda _: None) -> Outcome:
    """Run one setting from the first arrival to the last departure."""
    return _Run(inputs, setting, progress).run()


class _Run:
    def __init__(self, inputs: ReplayInputs, setting: Setting, progress: Progress) -> None:
        self._inputs = inputs
        self._setting = setting
        self._progress = progress
        self._occupancy = Occupancy(inputs.described, setting)
        levels, shaping = inputs.described.levels, inputs.shaping
        self._gauge = Gauge(self._occupancy, inputs.capacity, levels, shaping.resource, shaping.gpus_per_pod)
        self._queues = ReplayQueues(inputs.queues, self._occupancy.cluster) if inputs.queues else None
        self._queue = WaitingQueue(setting.fifo, self._queues)
        self._leaving: list[tuple[int, int, str]] = []
        self._ends: dict[str, int] = {}
        self._running: dict[str, Waiting] = {}  # with what they were when they waited
        self._rest_s: dict[str, int] = {}  # of gangs that were reclaimed: how long they still have to run
        self._log: list[LogEntry] = []
        self._moments: list[Moment] = []
        self._impossible: list[tuple[str, str]] = []
        self._reasons: dict[Shape, str] = {}
        self._now_s = 0
        self._next_check_s = 0

    def run(self) -> Outcome:
        """Whoever is done leaves, whoever is due comes, whoever fits starts; then look at the gauges."""
        coming = deque(self._gangs())
        while coming or self._leaving:
            self._now_s = self._next_s(coming)
            left = self._depart()
            came = self._arrive(coming)
            self._queue.advance(self._start)
            if self._is_measured:
                self._moments.append(self._gauge.read(self._now_s, len(self._queue)))
            self._progress(left + came)
        assert not len(self._queue) and not self._occupancy.names
        log, moments = tuple(self._log), tuple(self._moments)
        return Outcome(self._setting, log, tuple(self._impossible), moments, self._now_s)

    def _next_s(self, coming: deque[Waiting]) -> int:
        due = [coming[0].came_s] if coming else []
        return min(due + [end_s for end_s, _, _ in self._leaving[:1]])

    @property
    def _is_measured(self) -> bool:
        """Until the last arrival; a trace that comes at once, to its end."""
        schedule = self._inputs.schedule
        return self._now_s <= schedule.last_s or schedule.first_s == schedule.last_s

    def _gangs(self) -> Iterator[Waiting]:
        """Every arrival as a gang. What an empty cluster does not take is known before anybody is there."""
        shaping, resources = self._inputs.shaping, self._occupancy.cluster.inventory.resources
        for number, arrival in enumerate(self._inputs.schedule.arrivals):
            queue = arrival.job.queue if self._queues is not None else ""
            one = Waiting(number, arrival.at_s, shaping.gang(arrival.job, resources), queue)
            if one.shape not in self._reasons:
                refused = self._queues.refusal(queue, one.gang) if self._queues is not None else ""
                self._reasons[one.shape] = refused or self._occupancy.refusal(one.gang)
            yield one

    def _depart(self) -> int:
        """Whoever is done now leaves; a gang that was moved may stay longer than it meant to."""
        gone = 0
        while self._leaving and self._leaving[0][0] == self._now_s:
            _, number, name = heappop(self._leaving)
            end_s = self._ends.get(name)
            if end_s is None:
                continue  # it was reclaimed, and waits or has run again since
            if end_s > self._now_s:
                heappush(self._leaving, (end_s, number, name))
                continue
            self._occupancy.leave(name)
            self._vacated(name)
            self._log.append(Left(self._now_s, name))
            gone += 1
        if gone:
            self._queue.hope()
        return gone

    def _arrive(self, coming: deque[Waiting]) -> int:
        """Whoever is due joins the line, unless it can never be placed."""
        came = 0
        while coming and coming[0].came_s == self._now_s:
            one = coming.popleft()
            came += 1
            reason = self._reasons[one.shape]
            if reason:
                self._impossible.append((one.gang.name, reason))
            else:
                self._join(one)
        return came

    def _join(self, one: Waiting) -> None:
        self._queue.join(one)
        if self._queues is not None:
            self._queues.ask(one.queue, one.gang)

    def _start(self, one: Waiting) -> bool:
        """Whether it fits; then it runs from now on."""
        if self._queues is not None and not self._queues.admits(one.queue, one.gang):
            return False
        seated = self._occupancy.place(one.gang) or self._placed_after_moves(one.gang) or self._placed_by_reclaim(one)
        if seated is None:
            return False
        self._pay_for(seated.moves)
        for victim in seated.victims:
            self._reclaim(victim, one.gang.name)
        name = one.gang.name
        self._log.append(Started(self._now_s, name, one.came_s, seated.nodes, self._level(seated)))
        runs_s = self._inputs.schedule.arrivals[one.number].runs_s
        self._ends[name] = self._now_s + self._rest_s.pop(name, runs_s)
        self._running[name] = one
        heappush(self._leaving, (self._ends[name], one.number, name))
        if self._queues is not None:
            self._queues.ask(one.queue, one.gang, -1)
            self._queues.start(one.queue, one.gang, self._now_s)
        return True

    def _placed_by_reclaim(self, one: Waiting) -> PlacedGang | None:
        if self._queues is None:
            return None
        rules = self._queues.victim_rules(one.queue, one.gang, self._now_s)
        return self._occupancy.place_after_reclaim(one.gang, rules) if rules is not None else None

    def _reclaim(self, name: str, by: str) -> None:
        """It waits again, in the place that it had, for the rest of its time and what a move costs."""
        one = self._running[name]
        self._rest_s[name] = self._ends[name] - self._now_s + self._inputs.moving.costs_s
        self._vacated(name)
        self._log.append(Reclaimed(self._now_s, name, one.queue, by))
        self._queue.hope()
        self._join(replace(one, came_s=self._now_s))

    def _vacated(self, name: str) -> None:
        del self._ends[name], self._running[name]
        if self._queues is not None:
            self._queues.leave(name)

    def _placed_after_moves(self, gang: Gang) -> PlacedGang | None:
        """Looked for now and then, and only while the trace lasts."""
        too_soon = self._now_s < self._next_check_s or self._now_s > self._inputs.schedule.last_s
        if too_soon or not self._occupancy.moves_may_help(gang):
            return None
        self._next_check_s = self._now_s + self._inputs.moving.every_s
        return self._occupancy.place_after_moves(gang)

    def _pay_for(self, moves: Sequence[Move]) -> None:
        """Whoever was moved loses some time; room has changed, perhaps for the better."""
        for move in moves:
            self._log.append(Moved(self._now_s, move.gang, move.source, move.target))
        for name in {move.gang for move in moves}:
            self._ends[name] += self._inputs.moving.costs_s
        if moves:
            self._queue.hope()

    def _level(self, seated: PlacedGang) -> str:
        """The narrowest level of which one domain holds all the nodes."""
        levels = self._inputs.described.levels
        inventory = self._occupancy.cluster.inventory
        slots = [inventory.slot(node) for node in seated.nodes]
        tree = inventory.trees.get(levels.name)
        found = CLUSTER
        for depth, level in enumerate(levels.levels, start=1):
            assert tree is not None
            ids = tree.domain_of(depth)
            if ids[slots[0]] < 0 or any(ids[slot] != ids[slots[0]] for slot in slots):
                break
            found = level.name
        return found


def replay_inputs(
    described: DescribedCluster,
    trace: Trace,
    *,
    resource: str,
    gpus_per_pod: int | None = None,
    rules: Sequence[str] = (),
    load: float | None = None,
    stretch: float | None = None,
    seed: int = 0,
    moving: MoveSettings = DEFAULT_MOVE_SETTINGS,
    queues: tuple[Queue, ...] = (),
) -> ReplayInputs:
    """What is not given is what the cluster suggests: pods of the largest node's size, and rules by its levels."""
    capacity = capacity_of(described, resource)
    if not capacity.gpus:
        raise InputError(f"no node takes pods with {resource}: those that have it are tainted, cordoned or not ready")
    size = gpus_per_pod or capacity.host
    levels = described.levels
    chosen = read_rules(rules, levels) or default_rules(levels, size, [level.largest for level in capacity.levels])
    shaping = GangShapes(levels.name, resource, size, chosen)
    times = schedule(trace, capacity.gpus, load=load, stretch=stretch, seed=seed)
    if queues:
        refuse_unknown_queues(trace, queues)
    return ReplayInputs(described, capacity, shaping, times, moving, queues)
