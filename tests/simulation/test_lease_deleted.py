"""A Lease that is deleted while plans are in flight: epochs begin anew, no plan is lost or mistaken for an old one."""

from __future__ import annotations

import asyncio

import pytest

from simulation.processes import SchedulerProcess
from simulation.trial import NEEDED, hush
from spinney.api.roles import NAMESPACE
from spinney.core.scheduling.plan_records import claimed
from spinney.core.scheduling.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import CrashPoint, Schedule, When
from spinney.sim.installed_roles import installed_rules
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.topologies import RACK
from unit.scheduler.record_forging import about
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, bound, plan_of, podgroup, pods

LEASE = "spinney-scheduler"


async def _led(world: World, process: SchedulerProcess) -> None:
    """Three times by the same Lease, so that its epochs are not those of a new one."""
    for number in range(3):
        name = f"before-{number}"
        await world.apply([podgroup(name, 1), *pods(name, 1, 1)])
        await world.settle(quiet_s=5)
        assert len(await bound(world, name)) == 1
        if number < 2:
            await process.kill()
            await world.settle(quiet_s=40)


@pytest.mark.parametrize("write", range(1, 7))
def test_inv10_a_lease_made_anew_counts_from_one_and_plans_in_flight_are_carried_out(write: int) -> None:
    hush()

    async def main(sim: Sim) -> None:
        parts = Parts(nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts, rules=(installed_rules(),)) as world:
            await world.apply([*NEEDED, TOPOLOGY])
            dog = Watchdog.over(world, late_s=1.0)
            process = SchedulerProcess(world, "scheduler", sim.dice, Settings(), evicts=dog.evicts)
            process.start()
            await world.settle(quiet_s=40)
            await _led(world, process)
            life = process.life
            life.faults.schedule = Schedule(crash=CrashPoint(life.faults.writes + write, When.AFTER))
            await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
            while process.crashes < 3:  # noqa: ASYNC110 - a crash tells nobody; the next process begins a second later
                await asyncio.sleep(0.01)
            old = claimed(await about(world, "before-2"))
            await world.delete("Lease", LEASE, NAMESPACE)
            await world.settle(quiet_s=60)
            await world.apply([podgroup("b", 2), *pods("b", 2)])
            await world.settle(quiet_s=60)
            new = claimed(await about(world, "b"))
            assert old is not None and new is not None
            assert old.term.lease != new.term.lease
            assert old.term.epoch > new.term.epoch, "the trial is one"
            assert (len(await bound(world, "a-")), len(await bound(world, "b-"))) == (2, 2)
            assert await plan_of(world, "a") is None
            assert dog.check_at_rest() == []
            assert process.crashes >= 3
            await process.stop()

    run(main, limit_s=20_000)
