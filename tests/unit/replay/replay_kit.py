"""Small scenes to replay, and a book that follows a log with its own account of what is free.

The book reads nodes and jobs only, never the inventory or the engine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from spinney.api.placement.problem import Consolidate
from spinney.sim.replay.cluster import DescribedCluster, read_hosts
from spinney.sim.replay.occupancy import Setting, read_setting
from spinney.sim.replay.simulation import (
    DEFAULT_MOVE_SETTINGS,
    Left,
    Moved,
    MoveSettings,
    Outcome,
    Reclaimed,
    ReplayInputs,
    Started,
    replay,
    replay_inputs,
)
from spinney.sim.replay.trace import Job, Timing, Trace

GPU = "nvidia.com/gpu"
NODES = """\
levels:
  - {{name: block, label: example.com/block, count: {blocks}}}
  - {{name: rack, label: example.com/rack, count: {racks}}}
  - {{name: host, count: {hosts}}}
capacity: {{cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: {gpus}}}
"""


def described(blocks: int = 2, racks: int = 2, hosts: int = 2, gpus: int = 4) -> DescribedCluster:
    return read_hosts(NODES.format(blocks=blocks, racks=racks, hosts=hosts, gpus=gpus), "nodes.yaml", GPU)


def trace(*rows: tuple[int, int, int] | tuple[int, int, int, int]) -> Trace:
    """Rows of arrival, GPUs, seconds and, if it matters, priority."""
    jobs = [Job(f"g{at}", row[0], row[2], row[1], row[3] if len(row) > 3 else 0) for at, row in enumerate(rows)]
    return Trace("trace.csv", Timing.SECONDS, tuple(sorted(jobs, key=lambda job: job.arrival_s)))


def scene(
    what: Trace,
    where: DescribedCluster | None = None,
    moving: MoveSettings = DEFAULT_MOVE_SETTINGS,
    rules: Sequence[str] = (),
) -> ReplayInputs:
    return replay_inputs(where or described(), what, resource=GPU, moving=moving, rules=rules)


def setting(name: str) -> Setting:
    return read_setting(name, Consolidate())


def replayed(what: Trace, name: str = "binpack", where: DescribedCluster | None = None) -> Outcome:
    return replay(scene(what, where), setting(name))


class Book:
    """`broken` says which promises a log does not keep."""

    def __init__(self, stage: ReplayInputs) -> None:
        self.stage = stage
        self.broken: list[str] = []
        self.free = {node.metadata.name: int(node.status.allocatable[GPU]) for node in stage.described.nodes}
        self._most = dict(self.free)
        self._labels = {node.metadata.name: node.metadata.labels for node in stage.described.nodes}
        self._runs = {arrival.job.name: arrival for arrival in stage.schedule.arrivals}
        self._seats: dict[str, list[str]] = {}
        self._began: dict[str, int] = {}
        self._ran_s: Counter[str] = Counter()  # before they were reclaimed
        self._shifted: Counter[str] = Counter()
        self._unsettled: set[str] = set()
        self._times: Counter[str] = Counter()

    def follow(self, outcome: Outcome, is_eager: bool) -> list[str]:
        """`is_eager`: nobody who fits is left waiting."""
        impossible = {gang for gang, _ in outcome.impossible}
        for at, entry in enumerate(outcome.log):
            self._enter(entry)
            is_last = at + 1 == len(outcome.log) or outcome.log[at + 1].at_s > entry.at_s
            if is_last and is_eager:
                self._look_for_idlers(entry.at_s, impossible)
        wrong = [name for name in self._runs if self._times[name] != (0 if name in impossible else 2)]
        self.broken += [f"{name} did not start and leave once" for name in wrong]
        if self.free != self._most or self._seats:
            self.broken.append("something is still held at the end")
        return self.broken

    def _enter(self, entry: Started | Moved | Reclaimed | Left) -> None:
        name, now_s = entry.gang, entry.at_s
        if not isinstance(entry, Moved):
            self._settle()
        match entry:
            case Started():
                self._times[name] += 1
                self._began[name] = now_s
                self._seats[name] = list(entry.nodes)
                self._take(name, entry.nodes, 1)
                self._check_size(name)
                self._check_level(name)
                if now_s < self._runs[name].at_s:
                    self.broken.append(f"{name} starts before it comes")
            case Moved():
                self._seats[name].remove(entry.source)
                self._seats[name].append(entry.target)
                self._take(name, [entry.source], -1)
                self._take(name, [entry.target], 1)
                self._shifted[name] = 1
                self._unsettled.add(name)
            case Reclaimed():
                self._times[name] -= 1
                self._take(name, self._seats.pop(name), -1)
                self._ran_s[name] += now_s - self._began[name]
                self._shifted[name] = 1
            case Left():
                self._times[name] += 1
                self._take(name, self._seats.pop(name), -1)
                runs_s = self._ran_s[name] + now_s - self._began[name]
                wanted = self._runs[name].runs_s
                if runs_s < wanted or (runs_s != wanted and not self._shifted[name]):
                    self.broken.append(f"{name} ran {runs_s} s, not {wanted}")

    def _settle(self) -> None:
        """Pods that move for the same gang move together: a gang is whole again after the last of them."""
        for name in sorted(self._unsettled):
            self._check_level(name)
        self._unsettled.clear()

    def _take(self, name: str, nodes: Sequence[str], sign: int) -> None:
        for node in nodes:
            self.free[node] -= sign * self._pod(name)
            if not 0 <= self.free[node] <= self._most[node]:
                self.broken.append(f"{name} over-commits {node}")

    def _pod(self, name: str) -> int:
        return min(self._runs[name].job.gpus, self.stage.shaping.gpus_per_pod)

    def _count(self, name: str) -> int:
        return -(-self._runs[name].job.gpus // self.stage.shaping.gpus_per_pod)

    def _check_size(self, name: str) -> None:
        if len(self._seats[name]) != self._count(name):
            self.broken.append(f"{name} has {len(self._seats[name])} pods, not {self._count(name)}")

    def _required(self, name: str) -> tuple[str, ...]:
        """The labels that name a domain of the level which a gang needs."""
        gpus, rules = self._runs[name].job.gpus, self.stage.shaping.rules
        rule = next(rule for rule in rules if rule.up_to is None or gpus <= rule.up_to)
        keys = self.stage.described.levels.keys
        return keys[: keys.index(rule.required) + 1] if rule.required is not None else ()

    def _check_level(self, name: str) -> None:
        paths = {tuple(self._labels[node][key] for key in self._required(name)) for node in self._seats[name]}
        if len(paths) > 1:
            self.broken.append(f"{name} is in {len(paths)} domains")

    def _look_for_idlers(self, now_s: int, impossible: set[str]) -> None:
        for name, arrival in self._runs.items():
            waits = arrival.at_s <= now_s and not self._times[name] and name not in impossible
            if waits and self.fits(name):
                self.broken.append(f"{name} waits at {now_s} s though it fits")

    def fits(self, name: str) -> bool:
        """By counting whole pods in every domain: exact for gangs of one kind of pod."""
        held: dict[tuple[str, ...], int] = defaultdict(int)
        for node, free in self.free.items():
            path = tuple(self._labels[node][key] for key in self._required(name))
            held[path] += free // self._pod(name)
        return max(held.values()) >= self._count(name)
