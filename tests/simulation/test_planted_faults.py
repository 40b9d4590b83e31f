"""R13: a scheduler with a fault planted in it is caught by the promise that it breaks: each of them can be broken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from simulation.processes import SchedulerProcess
from simulation.trial import NEEDED, hush
from spinney.api.meta import ObjectMeta
from spinney.api.placement.problem import Gang, Group
from spinney.core.placement.disrupt.relocation import RelocationTargets
from spinney.core.scheduling import plan_records
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.gang_reader import GangReader
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.preemption import Preemptor, RunningGang
from spinney.core.scheduling.gang import parsed_gang
from spinney.core.scheduling.gang.priorities import Priorities
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.plan_records import Mark, Term, sign
from spinney.core.scheduling.queues import tree
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.outcome import Written
from spinney.drive.scheduler.caches import SchedulerCaches
from spinney.drive.scheduler.execution import plan_executor
from spinney.drive.scheduler.execution.binder import Binder, BindResult, BindResults
from spinney.drive.scheduler.status_writer import StatusWriter
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import Fault, Schedule
from spinney.sim.installed_roles import installed_rules
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.topologies import BLOCK, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, TOPOLOGY, pod, podgroup, pods
from unit.scheduler.test_consolidation import owned
from unit.scheduler.watched_world import patch

Patch = pytest.MonkeyPatch
Step = Callable[[World], Awaitable[None]]
TWO_RACKS = f"""
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: 1}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


def broken(step: Step, schedule: Schedule | None = None, epoch: int = 0) -> set[str]:
    """The promises that a scheduler breaks when this happens to it."""
    hush()

    async def main(sim: Sim) -> set[str]:
        parts = Parts(nodes=load_nodes(TWO_RACKS), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts, rules=(installed_rules(),)) as world:
            await world.apply([*NEEDED, TOPOLOGY, _class("x"), _class("y")])
            dog = Watchdog.over(world, late_s=0.5)
            process = SchedulerProcess(
                world,
                "scheduler",
                sim.dice,
                Settings(gather_s=0.2),
                elects=False,
                epoch=epoch,
                next_schedule=lambda: schedule or Schedule(),
                evicts=dog.evicts,
            )
            process.start()
            await world.settle(quiet_s=5)
            await step(world)
            await world.settle(quiet_s=30)
            return {text.split("INV")[1].split()[0] for text in dog.check_at_rest()}

    return run(main, limit_s=5_000)


def _class(name: str, value: int = 60) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def _queue(name: str, quota: int, limit: int = -1) -> dict[str, Any]:
    shares: dict[str, Any] = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    spec = {"resources": {**shares, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


async def two_gangs(world: World) -> None:
    await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2), podgroup("b", 2, required=RACK), *pods("b", 2)])


async def a_gang_that_does_not_fit(world: World) -> None:
    await world.apply([podgroup("a", 3, required=RACK), *pods("a", 3)])


async def a_late_member(world: World) -> None:
    await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
    await world.settle(quiet_s=5)
    await world.apply(pod("a-late", "a"))


async def a_gang_as_important_as_the_first(world: World) -> None:
    await world.apply([podgroup("a", 4, priorityClassName="x"), *pods("a", 4)])
    await world.settle(quiet_s=5)
    await world.apply([podgroup("b", 2, priorityClassName="y"), *pods("b", 2)])


async def a_more_important_gang_of_another_queue(world: World) -> None:
    await world.apply([_queue("own", 32), _queue("takes", 0), _class("z", 70)])
    await world.apply([podgroup("a", 4, queue="own", priorityClassName="x"), *pods("a", 4)])
    await world.settle(quiet_s=5)
    await world.apply([podgroup("b", 2, queue="takes", priorityClassName="z"), *pods("b", 2)])


async def lent(world: World, lender: dict[str, Any], *held: str, quota: int = 16, **spec: Any) -> None:
    """A queue that holds gangs of one host each, the last of them of this kind."""
    await world.apply([_queue("lends", quota), lender])
    for name in held:
        await world.apply([podgroup(name, 1, queue="lends", **(spec if name == held[-1] else {})), *pods(name, 1)])
        await world.settle(quiet_s=5)


async def a_gang_that_asks_for_a_host_of_a_queue_within_its_quota(world: World) -> None:
    await lent(world, _queue("takes", 16), "a", "b")
    (node, *_) = [each["spec"]["nodeName"] for each in await world.list("Pod")]
    await patch(world, "Node", node, {"metadata": {"labels": {"wanted": "yes"}}})
    await world.apply([podgroup("c", 1, queue="takes"), *pods("c", 1, nodeSelector={"wanted": "yes"})])


async def a_gang_that_asks_for_more_than_was_lent(world: World) -> None:
    await lent(world, _queue("takes", 16), "a", "b", "c")
    await world.apply([_queue("other", 8), podgroup("d", 1, queue="other"), *pods("d", 1)])
    await world.settle(quiet_s=5)
    await world.apply([podgroup("e", 2, queue="takes"), *pods("e", 2)])


async def a_gang_that_asks_for_more_than_the_limit_of_its_queue(world: World) -> None:
    await lent(world, _queue("takes", 16, 8), "a", "b", "c", "d")
    await world.apply([podgroup("e", 2, queue="takes"), *pods("e", 2)])


async def a_gang_that_asks_for_what_a_gang_holds_that_is_not_preemptible(world: World) -> None:
    await lent(world, _queue("takes", 16), "a", "b", "c", "d", preemptibility="non-preemptible")
    await world.apply([podgroup("e", 1, queue="takes"), *pods("e", 1)])


async def a_gang_that_is_above_the_share_of_its_queue(world: World) -> None:
    await lent(world, _queue("takes", 8), "a", "b", "c", "d")
    await world.apply([podgroup("e", 2, queue="takes"), *pods("e", 2)])


async def two_that_stand_in_the_way(world: World, **owner: Any) -> None:
    """Each has a part of a host of another rack, so that no rack has two whole hosts, and a gang waits for two."""
    nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
    for name, at in (("a", nodes[0]), ("b", nodes[-1])):
        for node in nodes:
            await patch(world, "Node", node, {"spec": {"unschedulable": node != at}})
        own = pod(f"{name}-0", name, 5)
        own["metadata"].update(owner)
        await world.apply([podgroup(name, 1), own])
        await world.settle(quiet_s=5)
    for node in nodes:
        await patch(world, "Node", node, {"spec": {"unschedulable": None}})
    await world.apply([podgroup("c", 2, required=RACK), *pods("c", 2)])


async def two_with_owners_that_stand_in_the_way(world: World) -> None:
    await world.apply({**owned("x", 4), "metadata": {"name": "x"}})
    found = await world.get("ReplicaSet", "x")
    assert found is not None
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": found["metadata"]["uid"]}
    await two_that_stand_in_the_way(world, ownerReferences=[{**owner, "controller": True}])


async def a_gang_that_a_later_leader_planned(world: World) -> None:
    """And carried out: it has the record of that leader, which names nobody any more."""
    await world.apply(podgroup("a", 2))
    found = await world.get("PodGroup", "a")
    assert found is not None
    group = ObjectMeta(name="a", namespace="default", uid=found["metadata"]["uid"])
    signed = sign(world.record_keys[0], group, Mark(Term("", 7), 1), "")
    await patch(world, "PodGroup", "a", {"metadata": {"annotations": signed}})
    await world.apply(pods("a", 2))


async def a_gang_that_was_bound_a_moment_ago(world: World) -> None:
    await world.apply([podgroup("a", 1), *pods("a", 1)])
    await asyncio.sleep(0.5)
    await world.apply(pod("a-more", "a"))


def forget_reservations(patch: Patch) -> None:
    patch.setattr(Cluster, "reserve", lambda *_: None)


def bind_half(patch: Patch) -> None:
    bind_all = Binder.bind_all

    async def bind_one(self: Binder, plan: Plan, keys: Any) -> BindResults:
        await bind_all(self, msgspec.structs.replace(plan, assignments=plan.assignments[:1]), keys)
        return BindResults({assignment.uid: BindResult.BOUND for assignment in plan.assignments})

    patch.setattr(Binder, "bind_all", bind_one)


def let_latecomers_go_anywhere(patch: Patch) -> None:
    ask = PlacementSession._ask

    def free(part: Group) -> Group:
        leaves = tuple([msgspec.structs.replace(each, required=None) for each in part.pods])
        return msgspec.structs.replace(
            part, required=None, pods=leaves, groups=tuple([free(each) for each in part.groups])
        )

    def ask_freely(self: PlacementSession, gang: Gang, *rest: Any) -> Any:
        return ask(self, msgspec.structs.replace(gang, root=free(gang.root)) if gang.running else gang, *rest)

    patch.setattr(PlacementSession, "_ask", ask_freely)


def bind_without_record(patch: Patch) -> None:
    async def record(door: Any, group: Any, *rest: Any) -> Written:
        return Written(b"", group.uid, group.resource_version)

    patch.setattr(plan_executor, "write_plan", record)


def say_nothing(patch: Patch) -> None:
    async def keep_silent(*_: Any) -> bool:
        return True

    patch.setattr(StatusWriter, "_report", keep_silent)


def leave_the_record(patch: Patch) -> None:
    async def sleep(*_: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(plan_executor, "remove_plan", sleep)


def think_much_of_some(patch: Patch) -> None:
    of = Priorities.of
    patch.setattr(Priorities, "of", lambda self, name: 90 if name == "y" else of(self, name))


def overlook_queues(patch: Patch) -> None:
    find = GangReader.running_gang

    def found(self: GangReader, name: str) -> RunningGang | None:
        each = find(self, name)
        return each and replace(each, reading=replace(each.reading, queue="takes"))

    patch.setattr(GangReader, "running_gang", found)


def overlook_quotas_of_others(patch: Patch) -> None:
    patch.setattr(Reclaim, "_is_above", lambda *_, **__: True)


def overlook_what_goes_already(patch: Patch) -> None:
    patch.setattr(Reclaim, "_left", lambda self, queue, *_: self.queues.usage(queue).allocated)


def overlook_the_own_share(patch: Patch) -> None:
    patch.setattr(Reclaim, "is_within", lambda *_: True)
    patch.setattr(Reclaim, "_keeps_order", lambda *_: True)


def overlook_limits(patch: Patch) -> None:
    patch.setattr(tree, "limits", lambda _: tree.EVERYTHING)


def preempt_everybody(patch: Patch) -> None:
    patch.setattr(parsed_gang, "is_preemptible", lambda *_: True)


def overlook_owners(patch: Patch) -> None:
    patch.setattr(Preemptor, "_is_fixed", lambda *_: False)


def move_anywhere(patch: Patch) -> None:
    patch.setattr(RelocationTargets, "find", lambda self, moving, *_: [max(self.inventory.slots())] * len(moving))


def overlook_later_leaders(patch: Patch) -> None:
    patch.setattr(plan_records, "verify", lambda keys, group: None)


def trust_any_view(patch: Patch) -> None:
    patch.setattr(SchedulerCaches, "is_fresh", lambda *_: True)


LATE = Schedule(rates={Fault.WATCH_LATE: 1.0}, watch_delay_s=4.0, only=lambda _, path: path.endswith("/pods"))
PLANTED: list[tuple[str, Callable[[Patch], None], Step, Schedule | None, int]] = [
    ("1", forget_reservations, two_gangs, None, 0),
    ("2", bind_half, two_gangs, None, 0),
    ("3", let_latecomers_go_anywhere, a_late_member, None, 0),
    ("4", bind_without_record, two_gangs, None, 0),
    ("4", trust_any_view, a_gang_that_was_bound_a_moment_ago, LATE, 0),
    ("5", say_nothing, a_gang_that_does_not_fit, None, 0),
    ("6", leave_the_record, two_gangs, None, 0),
    ("7", think_much_of_some, a_gang_as_important_as_the_first, None, 0),
    ("7", overlook_queues, a_more_important_gang_of_another_queue, None, 0),
    ("7", overlook_quotas_of_others, a_gang_that_asks_for_a_host_of_a_queue_within_its_quota, None, 0),
    ("7", overlook_what_goes_already, a_gang_that_asks_for_more_than_was_lent, None, 0),
    ("7", overlook_the_own_share, a_gang_that_is_above_the_share_of_its_queue, None, 0),
    ("7", overlook_limits, a_gang_that_asks_for_more_than_the_limit_of_its_queue, None, 0),
    ("7", preempt_everybody, a_gang_that_asks_for_what_a_gang_holds_that_is_not_preemptible, None, 0),
    ("7", overlook_owners, two_that_stand_in_the_way, None, 0),
    ("7", move_anywhere, two_with_owners_that_stand_in_the_way, None, 0),
    ("10", overlook_later_leaders, a_gang_that_a_later_leader_planned, None, 3),
]


@pytest.mark.parametrize(
    ("promise", "plant", "step", "schedule", "epoch"),
    PLANTED,
    ids=[f"INV{promise} {plant.__name__}" for promise, plant, *_ in PLANTED],
)
def test_r13_a_planted_fault_is_caught_by_its_promise(
    monkeypatch: Patch, promise: str, plant: Callable[[Patch], None], step: Step, schedule: Schedule | None, epoch: int
) -> None:
    plant(monkeypatch)
    assert promise in broken(step, schedule, epoch)


STEPS: set[Step] = {step for _, _, step, _, _ in PLANTED}


@pytest.mark.parametrize("step", sorted(STEPS, key=lambda step: step.__name__))  # type: ignore[attr-defined]
def test_r13_without_a_planted_fault_nothing_is_caught(step: Step) -> None:
    assert broken(step) == set()
    assert broken(step, LATE) == set()
