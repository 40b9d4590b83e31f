"""One seed: a world, a history, faults, and at the end rest. What was broken on the way or at the end is told.

The same seed is the same run, byte for byte: `python -m simulation.trial <seed>` in `tests` repeats it.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import structlog

from simulation.histories import History
from simulation.processes import SchedulerProcess
from simulation.steady_state import at_rest
from spinney.api.operator_configuration import PlacementStrategy
from spinney.core.scheduling.settings import Settings
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.event_loop import Sim, SimulationError, run
from spinney.sim.faults import CrashPoint, Fault, Schedule, When
from spinney.sim.installed_roles import installed_rules
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import Forbidden, Unsettled, World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import BLOCK, RACK, ZONE, settings
from unit.scheduler.scheduler_world import GPU, TOPOLOGY

NEEDED = [
    each for each in CRDS if each["spec"]["names"]["kind"] in ("PodGroup", "Queue", "Topology", "ClusterTopology")
]


@dataclass(slots=True)
class Trial:
    """`broken`: sentences. `figures`: what was done and checked. `digest`: of everything schedulers said and heard."""

    seed: int
    broken: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    digest: str = ""


def play(seed: int, make: type[Scheduler] = Scheduler) -> Trial:
    """Run one seed to its end. `make` is the scheduler, or one with a fault planted in it."""
    trial = Trial(seed)

    async def main(sim: Sim) -> None:
        dice = Random(f"history {seed}")
        sets = dice.random() < 0.2
        parts = Parts(
            nodes=load_nodes(_nodes(dice)),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            operator=settings() if sets else None,
        )
        async with World(sim.clock, sim.dice, parts, rules=(installed_rules(),)) as world:
            await world.apply([*(CRDS if sets else NEEDED), TOPOLOGY])
            await _play(world, sim, dice, sets, trial, make)

    hush()
    try:
        run(main, seed=seed, limit_s=200_000)
    except Forbidden as error:
        trial.broken.append(f"least privilege: {error}")
    except SimulationError as error:
        trial.broken.append(f"LIVE1 {error}")
    return trial


async def _play(world: World, sim: Sim, dice: Random, sets: bool, trial: Trial, make: type[Scheduler]) -> None:
    rate = dice.choice((0.0, 0.01, 0.03, 0.1))
    late = dice.choice((0.0, 0.0, 0.05))

    def next_schedule() -> Schedule:
        crash = CrashPoint(dice.randint(1, 60), dice.choice(list(When))) if dice.random() < 0.5 else None
        rates = {Fault.LATENCY: 0.2, Fault.WATCH_LATE: dice.choice((0.0, 0.3))} if rate else {}
        return Schedule(rates=rates, otherwise=rate, crash=crash)

    elects = dice.random() < 0.6
    dog = Watchdog.over(world, records_come_late=late > 0, late_s=60.0 if rate + late else 10.0, elects=elects)
    processes = [
        SchedulerProcess(
            world,
            f"scheduler-{number}",
            sim.dice,
            Settings(strategy=PlacementStrategy.both(dice.choice(("binpack", "spread")))),
            elects=elects,
            skew_s=dice.choice((0.0, 0.0, -90.0, 3600.0)),
            next_schedule=next_schedule,
            late=late,
            evicts=dog.evicts,
            sends=dog.sends,
            reserves=dog.reserves,
            make=make,
        )
        for number in range(dice.choice((1, 2)) if elects else 1)
    ]
    lending = Random(f"queues {trial.seed}")
    history = History(world, dice, processes, sets=sets, lending=lending if lending.random() < 0.5 else None)
    await history.prepare()
    for process in processes:
        process.start()
    await _wait(world, 5.0)
    for _ in range(dice.randint(8, 20)):
        await history.step()
        await _wait(world, dice.choice((0.0, 0.01, 0.3, 3.0, 3.0, 20.0)))
    for process in processes:
        process.calm()
    await history.heal()
    trial.broken += await at_rest(world, dog, processes)
    _sum_up(trial, dog, history, processes)


async def _wait(world: World, seconds: float) -> None:
    try:
        await world.settle(quiet_s=seconds or 0.001, limit_s=seconds)
    except Unsettled:
        return


def _sum_up(trial: Trial, dog: Watchdog, history: History, processes: list[SchedulerProcess]) -> None:
    trial.figures.update({"seeds": 1, "writes": dog.writes, "plans": dog.plans, "binds": dog.binds})
    trial.figures.update({f"step {name}": times for name, times in history.done.items()})
    digest = hashlib.sha256()
    for process in processes:
        trial.figures.update({"crashes": process.crashes, "leaderships lost": process.lost, "gave up": process.gave_up})
        trial.broken += [f"{process.name} ended with {error!r}" for error in process.trouble[:2]]
        for life in process.lives:
            trial.figures.update({f"fault {fault.value}": times for fault, times in life.faults.counts.items()})
            trial.figures["fault a write that arrives late"] += life.wire.late_writes
            digest.update("\n".join(life.trace.lines).encode())
    trial.digest = digest.hexdigest()


def _nodes(dice: Random) -> str:
    """Small and crowded: from 2 to 12 hosts in one zone or two."""
    zones, blocks, racks, hosts = dice.choice(((1, 1, 2, 2), (1, 2, 2, 1), (1, 2, 2, 2), (2, 1, 2, 2), (2, 2, 1, 2)))
    return f"""
levels:
- {{name: zone, label: {ZONE}, count: {zones}}}
- {{name: block, label: {BLOCK}, count: {blocks}}}
- {{name: rack, label: {RACK}, count: {racks}}}
- {{name: host, count: {hosts}}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


def hush() -> None:
    """Faults are many and wanted: nobody need read of them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def replay(seed: int) -> str:
    return f"to replay: cd tests && ../.venv/bin/python -m simulation.trial {seed}"


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[-1])
    total: Counter[str] = Counter()
    for number in range(first, last + 1):
        found = play(number)
        total += found.figures
        for sentence in found.broken:
            print(f"seed {number}: {sentence}")
    for what, times in sorted(total.items()):
        print(f"{times:8} {what}")
