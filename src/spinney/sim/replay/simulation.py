"""A replay: arrivals and departures in the order of simulated time, each followed by the waiting gangs that can start.

Gangs wait by priority, then by arrival. Those of one shape wait behind each other: when the first of them does not fit,
none of them does, so no more than one of each is ever tried. A refusal holds until there is more room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from spinney.api.placement.problem import Gang, Group
from spinney.api.placement.result import Move
from spinney.sim.replay.cluster import CLUSTER, DescribedCluster
from spinney.sim.replay.gang_shapes import GangShapes, default_rules, read_rules
from spinney.sim.replay.measurements import Capacity, Gauge, Moment, capacity_of
from spinney.sim.replay.occupancy import Occupancy, PlacedGang, Setting
from spinney.sim.replay.trace import InputError, Schedule, Trace, schedule

Place = tuple[int, int]
"""In the line: less priority is later, then whoever came later."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang in the line; `number` counts arrivals."""

    number: int
    came_s: int
    gang: Gang

    @property
    def place(self) -> Place:
        return -self.gang.priority, self.number


class WaitingQueue:
    """`fifo`: only whoever is first is asked for; else everybody in turn."""

    def __init__(self, fifo: bool = False) -> None:
        self._fifo = fifo
        self._shapes: dict[Group, list[tuple[Place, Waiting]]] = {}
        self._refused: set[Group] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, one: Waiting) -> None:
        heappush(self._shapes.setdefault(one.gang.root, []), (one.place, one))
        self._count += 1

    def hope(self) -> None:
        """There may be more room than before."""
        self._refused.clear()

    def advance(self, start: Callable[[Waiting], bool]) -> None:
        """Ask for everybody who may fit, in order; those that are started leave the line."""
        firsts = [(queue[0][0], shape) for shape, queue in self._shapes.items() if self._is_asked(shape)]
        heapify(firsts)
        while firsts:
            _, shape = heappop(firsts)
            if shape in self._refused:
                break
            queue = self._shapes[shape]
            if not start(queue[0][1]):
                self._refused.add(shape)
                if self._fifo:
                    break
                continue
            heappop(queue)
            self._count -= 1
            if queue:
                heappush(firsts, (queue[0][0], shape))
            else:
                del self._shapes[shape]

    def _is_asked(self, shape: Group) -> bool:
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
class Left:
    """A gang is done."""

    at_s: int
    gang: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting made of a schedule; `impossible` gangs do not even fit an empty cluster, each with the reason."""

    setting: Setting
    log: tuple[Started | Moved | Left, ...]
    impossible: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    ended_s: int

    @property
    def starts(self) -> list[Started]:
        return [entry for entry in self.log if isinstance(entry, Started)]

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
        self._queue = WaitingQueue(setting.fifo)
        self._leaving: list[tuple[int, int, str]] = []
        self._ends: dict[str, int] = {}
        self._log: list[Started | Moved | Left] = []
        self._moments: list[Moment] = []
        self._impossible: list[tuple[str, str]] = []
        self._reasons: dict[Group, str] = {}
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
            gang = shaping.gang(arrival.job, resources)
            if gang.root not in self._reasons:
                self._reasons[gang.root] = self._occupancy.refusal(gang)
            yield Waiting(number, arrival.at_s, gang)

    def _depart(self) -> int:
        """Whoever is done now leaves; a gang that was moved may stay longer than it meant to."""
        gone = 0
        while self._leaving and self._leaving[0][0] == self._now_s:
            _, number, name = heappop(self._leaving)
            if self._ends[name] > self._now_s:
                heappush(self._leaving, (self._ends[name], number, name))
                continue
            self._occupancy.leave(name)
            self._log.append(Left(self._now_s, name))
            del self._ends[name]
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
            reason = self._reasons[one.gang.root]
            if reason:
                self._impossible.append((one.gang.name, reason))
            else:
                self._queue.join(one)
        return came

    def _start(self, one: Waiting) -> bool:
        """Whether it fits; then it runs from now on."""
        seated = self._occupancy.place(one.gang) or self._placed_after_moves(one.gang)
        if seated is None:
            return False
        self._pay_for(seated.moves)
        name = one.gang.name
        self._log.append(Started(self._now_s, name, one.came_s, seated.nodes, self._level(seated)))
        self._ends[name] = self._now_s + self._inputs.schedule.arrivals[one.number].runs_s
        heappush(self._leaving, (self._ends[name], one.number, name))
        return True

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
    return ReplayInputs(described, capacity, shaping, times, moving)
